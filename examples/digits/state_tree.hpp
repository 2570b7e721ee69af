// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cairn/handlers/tree.hpp>

#include "digits/training_state.hpp"

namespace digits {

/// Returns the state as a tree. The weights keep their shapes; nothing is copied.
///
/// Ownership: the state must stay as long as the tree is used.
cairn::Tree to_tree(const TrainingState& state);

/// Returns the state that `to_tree` described.
///
/// Errors: cairn::Error, naming the path, when something is missing or of another type.
TrainingState from_tree(const cairn::Tree& tree);

}  // namespace digits
