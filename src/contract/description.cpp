// SPDX-License-Identifier: Apache-2.0
#include "cairn/contract/handler.hpp"

namespace cairn {
namespace {

class DescribedArrays final : public ArrayEntries::Source {
 public:
  explicit DescribedArrays(std::vector<ArrayEntries::Described> arrays) : arrays_(std::move(arrays)) {}

  [[nodiscard]] std::size_t size() const noexcept override { return arrays_.size(); }

  [[nodiscard]] bool find(std::size_t& position, ArrayEntry& entry) const override {
    if (position >= arrays_.size()) {
      return false;
    }
    const auto& [name, dtype, shape, parts, layout, stored] = arrays_[position];
    entry = {name, dtype, shape, checked_byte_count(name, dtype, shape), parts, layout, stored, {}};
    return true;
  }

 private:
  std::vector<ArrayEntries::Described> arrays_;
};

}  // namespace

Description::Description() = default;
Description::Description(const Description& other) = default;
Description::Description(Description&& other) noexcept = default;
Description& Description::operator=(const Description& other) = default;
Description& Description::operator=(Description&& other) noexcept = default;
Description::~Description() = default;

ArrayEntries::ArrayEntries(std::vector<Described> arrays)
    : source_(std::make_shared<const DescribedArrays>(std::move(arrays))) {}

}  // namespace cairn
