// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cairn/handlers/tree_handler.hpp"
#include "cairn/megatron/dict_functions.hpp"
#include "cairn/megatron/handler.hpp"

#include "megatron/walk.hpp"

namespace cairn {
namespace {

using megatron::StateDict;

bool owns(const std::optional<Array>& data) {
  return !data || OwnsItsMemory<Array>::check(*data);
}

bool leaf_owns(const StateDict& leaf) {
  if (const auto* tensor = leaf.leaf_if<megatron::ShardedTensor>()) {
    return owns(tensor->data);
  }
  if (const auto* factory = leaf.leaf_if<megatron::ShardedTensorFactory>()) {
    return owns(factory->data);
  }
  if (const auto* object = leaf.leaf_if<megatron::ShardedObject>()) {
    return !object->data || OwnsItsMemory<Tree>::check(*object->data);
  }
  const Tree* value = leaf.leaf_if<Tree>();
  return value == nullptr || OwnsItsMemory<Tree>::check(*value);
}

/// A leaf with copies of its arrays.
StateDict watched(const StateDict& leaf, const std::shared_ptr<WatchedMemory>& memory) {
  if (const auto* tensor = leaf.leaf_if<megatron::ShardedTensor>(); tensor && tensor->data) {
    megatron::ShardedTensor copied = *tensor;
    copied.data = *WatchedCopy<Array>::make(*tensor->data, memory);
    return copied;
  }
  if (const auto* factory = leaf.leaf_if<megatron::ShardedTensorFactory>(); factory && factory->data) {
    megatron::ShardedTensorFactory copied = *factory;
    copied.data = *WatchedCopy<Array>::make(*factory->data, memory);
    return copied;
  }
  if (const auto* object = leaf.leaf_if<megatron::ShardedObject>(); object && object->data) {
    megatron::ShardedObject copied = *object;
    copied.data = *WatchedCopy<Tree>::make(*object->data, memory);
    return copied;
  }
  if (const Tree* value = leaf.leaf_if<Tree>()) {
    return *WatchedCopy<Tree>::make(*value, memory);
  }
  return leaf;
}

}  // namespace

const megatron::StateDict* WatchedCopy<megatron::StateDict>::make(
    const megatron::StateDict& value, const std::shared_ptr<WatchedMemory>& memory) {
  return &memory->make<StateDict>(
      megatron::map(value, [&memory](const StateDict& leaf) { return watched(leaf, memory); }));
}

bool OwnsItsMemory<megatron::StateDict>::check(const megatron::StateDict& dict) {
  bool is_owner = true;
  megatron::detail::for_each_leaf(dict, [&is_owner](const std::string&, const StateDict& leaf) {
    is_owner = is_owner && leaf_owns(leaf);
  });
  return is_owner;
}

}  // namespace cairn
