// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/foreign_catalogue.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::formats {

std::uint32_t ForeignCatalogue::add_form(const SliceForm& form) {
  constexpr std::size_t kLooks =
      16;  // Those before may come again: a few bytes, and not a square of them in time.
  const auto begin = forms.size() > kLooks && form != forms.front()
                         ? forms.end() - static_cast<std::ptrdiff_t>(kLooks)
                         : forms.begin();
  const auto known = std::find(begin, forms.end(), form);
  const auto number = static_cast<std::uint32_t>(known - forms.begin());
  if (known == forms.end()) {
    forms.push_back(form);
  }
  return number;
}

void DescriptionBudget::take(std::uint64_t bytes) {
  if (leaves_ == 0 || bytes > bytes_) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: what it describes is many times as large as the file itself", path_));
  }
  --leaves_;
  bytes_ -= bytes;
}

}  // namespace cairn::formats
