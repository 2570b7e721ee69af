// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/optimizer.hpp"

#include <concepts>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "megatron/walk.hpp"

namespace cairn::megatron {
namespace {

bool is_same_parameter(const Array& a, const Array& b) {
  return a.view().data() == b.view().data() && a.dtype() == b.dtype() && a.shape() == b.shape();
}

/// The states of one parameter, sharded.
StateDict sharded_states(const StateDict& states, const ShardedParam* param, std::string_view id,
                         const std::set<std::string>& exclude_keys) {
  if (!states.map_if()) {
    throw Error(Errc::type_mismatch,
                fmt::format("state {} of the optimizer is {}, not a map of arrays by name", id,
                            detail::described(states)));
  }
  StateDict sharded;
  for (const auto& [name_of_state, state] : *states.map_if()) {
    if (exclude_keys.contains(name_of_state)) {
      sharded[name_of_state] = state;
      continue;
    }
    const Tree* value = state.leaf_if<Tree>();
    if (!value || !value->array_if()) {
      throw Error(Errc::type_mismatch,
                  fmt::format("state '{}' of parameter {} is {}, not an array; what is not is excluded",
                              name_of_state, id, detail::described(state)));
    }
    if (!param) {
      throw Error(Errc::invalid_argument,
                  fmt::format("parameter {} of the optimizer is not among the sharded parameters", id));
    }
    const ShardedParam made =
        make_sharded_optimizer_tensor(*param, *value->array_if(), "optimizer.state." + name_of_state);
    sharded[name_of_state] = std::visit([](const auto& one) { return StateDict(one); }, made);
  }
  return sharded;
}

}  // namespace

ParamMap param_id_to_sharded_param(const StateDict& model, std::span<const Array> params) {
  std::map<const std::byte*, std::vector<std::size_t>> by_memory;
  for (std::size_t id = 0; id < params.size(); ++id) {
    by_memory[params[id].view().data()].push_back(id);
  }
  ParamMap found;
  const auto look_at = [&](const auto* param) {
    if (!param || !param->data) {
      return;
    }
    const auto same = by_memory.find(param->data->view().data());
    if (same == by_memory.end()) {
      return;
    }
    for (const std::size_t id : same->second) {
      if (is_same_parameter(params[id], *param->data)) {
        found.try_emplace(id, *param);
      }
    }
  };
  detail::for_each_leaf(model, [&](std::string_view, const StateDict& leaf) {
    look_at(leaf.leaf_if<ShardedTensor>());
    look_at(leaf.leaf_if<ShardedTensorFactory>());
  });
  if (found.empty() && !params.empty()) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("none of the {} parameters of the optimizer is the data of a tensor or a factory of the "
                    "model: those must be the parameters' own memory, not copies",
                    params.size()));
  }
  return found;
}

ShardedParam make_sharded_optimizer_tensor(const ShardedParam& param, Array state, std::string_view prefix) {
  return std::visit(
      [&]<class Param>(const Param& from) -> ShardedParam {
        Param made = from;
        made.key = fmt::format("{}.{}", prefix, from.key);
        std::optional<Shape> shape;
        if constexpr (std::same_as<Param, ShardedTensor>) {
          made.dtype = state.dtype();
          shape = from.flattened_range ? Shape{from.flattened_range->size()} : from.local_shape;
        } else if (from.data) {
          shape = from.data->shape();
        }
        if (shape && state.shape() != *shape) {
          throw Error(Errc::shape_mismatch,
                      fmt::format("'{}': a state of shape {} of a parameter of shape {}", made.key,
                                  state.shape(), *shape));
        }
        made.data = std::move(state);
        return made;
      },
      param);
}

void optim_state_to_sharding_state(StateDict& optimizer, const ParamMap& params,
                                   const std::set<std::string>& exclude_keys) {
  StateDict sharded = optimizer;
  const auto param_of = [&params](std::string_view key) -> const ShardedParam* {
    const auto id = detail::number_of(key);
    const auto found = id ? params.find(*id) : params.end();
    return found == params.end() ? nullptr : &found->second;
  };
  std::string path;
  if (sharded.contains("state")) {
    detail::for_each_child(sharded["state"], path, [&](StateDict& states) {
      states = sharded_states(states, param_of(path), path, exclude_keys);
    });
  }
  if (sharded.contains("param_groups")) {
    detail::for_each_child(sharded["param_groups"], path, [](StateDict& group) {
      if (group.contains("params")) {
        group["params"] = LocalNonpersistentObject{group["params"].tree()};
      }
    });
  }
  optimizer = std::move(sharded);
}

}  // namespace cairn::megatron
