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

  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const ArrayMap& value) const override {
    array_store::Writer writer = array_writer(context);
    for (const auto& [path, array] : value) {
      writer.add(path, array);
    }
    return write_arrays(std::move(context), std::move(writer));
  }
  Awaitable<Background<ArrayMap>> load(LoadContext context,
                                       std::optional<AbstractArrayMap> wanted) const override {
    co_return read(std::move(context), std::move(wanted));
  }
  Awaitable<AbstractArrayMap> metadata(LoadContext context) const override {
    return read_forms(std::move(context));
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

 private:
  static Background<ArrayMap> read(LoadContext context, std::optional<AbstractArrayMap> wanted) {
    const auto files = stored_files(context);
    const formats::Index index = co_await array_store::open_index(files);
    std::vector<array_store::WantedArray> arrays;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const auto form = wanted ? wanted->find(index.entry(i).name) : AbstractArrayMap::iterator();
      if (!wanted || form != wanted->end()) {
        arrays.push_back({index.entry(i), wanted ? &form->second : nullptr});
      }
    }
    array_store::ReadPlan plan = array_store::plan_read(index, arrays, array_read_options(context), *files);
    co_await array_store::read(files, std::move(plan.pieces), std::move(plan.notes));
    ArrayMap map;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      map.emplace(arrays[i].entry.name, std::move(plan.arrays[i]));
    }
    co_return map;
  }
  static Awaitable<AbstractArrayMap> read_forms(LoadContext context) {
    const formats::Index index = co_await array_store::open_index(stored_files(std::move(context)));
    AbstractArrayMap map;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const formats::IndexArray array = index.array(index.entry(i));
      map.emplace(array.name, AbstractArray(Shape(array.dims), array.dtype));
    }
    co_return map;
  }
};

}  // namespace cairn::testing
