// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "cairn/megatron/dict_functions.hpp"
#include "cairn/megatron/handler.hpp"
#include "cairn/testing/handler_conformance.hpp"

#include "megatron/memory_checkpoint.hpp"

namespace cairn::testing {
namespace {

using megatron::ShardedObject;
using megatron::ShardedTensor;
using megatron::StateDict;

struct StateDictTraits {
  using Handler = megatron::StateDictHandler;
  using Subject = StateDict;

  /// Everything lies where a load without a wish puts it: tensors at their keys, objects at their unique keys.
  static StateDict make() { return make(0, 1); }
  static StateDict make(std::size_t rank, std::size_t ranks) {
    const Array whole = counted({90'000});
    const std::uint64_t begin = 90'000 * rank / ranks;
    const std::uint64_t end = 90'000 * (rank + 1) / ranks;
    ShardedTensor part;
    part.key = "w";
    part.data = cut(whole, Box({begin}, {end - begin}));
    part.dtype = DType::int32;
    part.local_shape = {end - begin};
    part.global_shape = {90'000};
    part.global_offset = {begin};
    const auto replica = static_cast<std::uint32_t>(rank);
    return {{"w", std::move(part)},
            {"rng/shard_0_1", ShardedObject{"rng", Tree{{"states", counted({5})}}, {1}, {0}, replica}},
            {"n", StateDict::list({1, 2.5, nullptr})},
            {"values", counted({20})}};
  }
  static void change(StateDict& dict) {
    dict["w"].leaf_if<ShardedTensor>()->data->data<std::int32_t>().back() = -1;
    dict["values"].leaf_if<Tree>()->array_if()->data<std::int32_t>().back() = -1;
    dict["n"][0] = 9;
  }
  static bool equal(const StateDict& a, const StateDict& b) { return plain(a) == plain(b); }
  static Request wrong(std::string name) {
    const StateDict other = {{"x", ShardedTensor::from_rank_offsets("x", counted({2}))}};
    return {std::move(name), megatron::AbstractStateDict(other)};
  }

 private:
  static Tree plain(const StateDict& dict) {
    return megatron::map(dict,
                         [](const StateDict& leaf) -> StateDict {
                           if (const auto* tensor = leaf.leaf_if<ShardedTensor>()) {
                             return *tensor->data;
                           }
                           if (const auto* object = leaf.leaf_if<ShardedObject>()) {
                             return *object->data;
                           }
                           return leaf;
                         })
        .tree();
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(StateDict, HandlerConformance, StateDictTraits);

}  // namespace
}  // namespace cairn::testing
