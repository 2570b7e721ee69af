// SPDX-License-Identifier: Apache-2.0
#pragma once

// A handler as a user writes one whose arrays are in a container of his own: public headers only.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/contract/handler.hpp"
#include "cairn/handlers/array_files.hpp"

namespace cairn::testing {

/// Arrays by path.
using ArrayMap = std::map<std::string, Array, std::less<>>;
using AbstractArrayMap = std::map<std::string, AbstractArray, std::less<>>;

class ArrayMapHandler final : public CheckpointableHandler<ArrayMap, AbstractArrayMap> {
 public:
  std::string_view id() const noexcept override { return "example.array_map/1"; }

  Awaitable<Background<>> save(SaveContext context, const ArrayMap& value) const override {
    return write_arrays(std::move(context), value);
  }
  Awaitable<Background<ArrayMap>> load(LoadContext context,
                                       std::optional<AbstractArrayMap> wanted) const override {
    co_return read_arrays(std::move(context), std::move(wanted));
  }
  Awaitable<AbstractArrayMap> metadata(LoadContext context) const override {
    return read_array_forms(std::move(context));
  }
  Description describe(const AbstractArrayMap& stored) const override {
    std::vector<ArrayEntries::Described> arrays;
    for (const auto& [path, array] : stored) {
      arrays.push_back({path, array.dtype, array.shape});
    }
    Description description;
    description.kind = "array map";
    description.arrays = ArrayEntries(std::move(arrays));
    description.says_all = true;
    return description;
  }
};

}  // namespace cairn::testing
