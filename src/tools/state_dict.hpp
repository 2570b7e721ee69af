// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/contract/handler.hpp"
#include "cairn/tools/export.hpp"

#include "formats/internal/pickle_writer.hpp"
#include "tools/export_target.hpp"

namespace cairn::tools {

/// A node of a state dict: an array, a value, or a container.
struct StateNode {
  std::map<std::string, StateNode, std::less<>> children;  ///< Of lists by their decimal places.
  bool is_list = false;
  std::optional<std::size_t> array;       ///< Its number in the plan.
  const DescribedValue* value = nullptr;  ///< Also of an empty container.
  std::string path;                       ///< Of an array and of a value, as the checkpoint calls it.

  [[nodiscard]] bool is_leaf() const noexcept { return array.has_value() || value != nullptr; }
};

/// Puts what is exported together as the nested maps and lists that torch has: the arrays of the plan, which gets their
/// names, and the values that are chosen, which must stay. `held` are those arrays that lie in objects. What has no
/// place is added to the plan's `left_out`.
///
/// Errors: Errc::invalid_argument, naming the path: as write_torch_archive.
[[nodiscard]] StateNode state_dict(ExportPlan& plan, const Description& description, const HeldArrays& held,
                                   const ExportOptions& options, ChosenPaths& chosen);

/// Pickles a node; `array` pickles that of the plan.
void write_node(formats::PickleWriter& pickle, const StateNode& node,
                const std::function<void(std::size_t array)>& array);

}  // namespace cairn::tools
