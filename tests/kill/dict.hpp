// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "cairn/megatron/dist_checkpointing.hpp"

#include "kill/state.hpp"

namespace cairn::kill {

inline std::string object_of(std::int64_t number) {
  return std::string(1000 + static_cast<std::size_t>(number % 100), 'x');
}

/// The state of a save as a state dict: weights that a factory cuts, an object, and plain values.
inline megatron::StateDict dict(std::int64_t number) {
  return {{"weights", megatron::swiglu_factory("weights", state(number).at("weights").as<Array>(), 0, {})},
          {"object", megatron::ShardedObject{"object", object_of(number)}},
          {"number", number}};
}

/// Saves the state of that number: a third of them as state dicts.
inline AsyncResponse start_save(const std::filesystem::path& path, std::int64_t number,
                                const SaveOptions& options, const Context& context) {
  if (number % 3 != 0) {
    return save_async(path, state(number), options, context);
  }
  megatron::StateDictSaveOptions as_dict;
  as_dict.save = options;
  return megatron::save_async(dict(number), path, as_dict, context);
}

/// What lies at a path as `state` has it, whichever way it was saved.
inline Tree load_state(const std::filesystem::path& path, const Context& context) {
  if (!megatron::check_is_distributed_checkpoint(path)) {
    return load(path, {}, context);
  }
  Tree found = megatron::load(dict(0), path, {}, context).state;
  if (found.at("object").as<std::string>() == object_of(found.at("number").as<std::int64_t>())) {
    found.as_map().erase("object");  // Else it is what `state` does not have.
  }
  return found;
}

}  // namespace cairn::kill
