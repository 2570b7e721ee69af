// SPDX-License-Identifier: Apache-2.0
#include "cli/name_filter.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "base/internal/natural_order.hpp"
#include "cli/describe.hpp"
#include "cli/usage.hpp"

namespace cairn::cli {

NameFilter::NameFilter(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    names_.push_back({name, detail::PathPattern(name + "/**", "names to inspect"), false});
  }
}

bool NameFilter::takes(std::string_view checkpointable, std::string_view path) {
  const std::string title = title_of(checkpointable, path);
  bool is_taken = names_.empty();
  for (Name& name : names_) {
    if (name.pattern.matches(title) || (!path.empty() && name.pattern.matches(path))) {
      name.is_found = is_taken = true;
    }
  }
  return is_taken;
}

void NameFilter::require_all_found(const CheckpointMetadata& metadata) const {
  const auto missing =
      std::find_if(names_.begin(), names_.end(), [](const Name& name) { return !name.is_found; });
  if (missing == names_.end()) {
    return;
  }
  std::vector<std::string> known;
  for (const auto& [title, item] : metadata) {
    if (const std::string problem = problem_text(item); !problem.empty() && !item.abstract.has_value()) {
      throw Error(item.problem_code, problem);  // It may have been there.
    }
    known.push_back(title);
  }
  throw Error(Errc::not_found,
              fmt::format("{}: nothing is called or matches '{}'{}; there is: {}", metadata.path.string(),
                          missing->text, suggestion(missing->text, metadata), fmt::join(known, ", ")));
}

std::string title_of(std::string_view checkpointable, std::string_view path) {
  return path.empty() ? std::string(checkpointable) : fmt::format("{}/{}", checkpointable, path);
}

std::vector<std::string> titles_of(std::string_view checkpointable, const Description& description,
                                   bool is_foreign) {
  std::vector<std::string> titles;
  for (const ArrayEntry& array : description.arrays) {
    titles.push_back(title_of(checkpointable, shown_path(array.name, is_foreign)));
  }
  for (const DescribedValue& value : description.values) {
    titles.push_back(title_of(checkpointable, shown_path(value.name, is_foreign)));
  }
  std::sort(titles.begin(), titles.end(), is_naturally_less);
  return titles;
}

std::string suggestion(std::string_view name, const CheckpointMetadata& metadata) {
  std::vector<std::string> names;
  for (const auto& [checkpointable, item] : metadata) {
    names.push_back(checkpointable);
    for (const std::string& title : titles_of(checkpointable, item.description(), is_foreign(metadata))) {
      names.push_back(title);
      names.push_back(title.substr(std::min(checkpointable.size() + 1, title.size())));
    }
  }
  const std::string nearest = nearest_word(name, names);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace cairn::cli
