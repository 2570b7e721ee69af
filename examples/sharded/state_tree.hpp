// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cairn/handlers/abstract_tree.hpp>
#include <cairn/handlers/tree.hpp>

#include "digits/classifier.hpp"
#include "sharded/job.hpp"
#include "sharded/train_step.hpp"

namespace sharded {

/// Returns what a rank brings to a checkpoint. Of the weights all ranks have copies, of the moments each has
/// its rows, and all else is alike: a save takes it from rank 0.
///
/// Ownership: the state must stay as long as the tree is used; nothing is copied.
cairn::Tree to_tree(const RankState& state, const digits::Settings& settings, const Job& job);

/// Returns what a rank asks of a checkpoint that any number of ranks has saved: its rows of the moments, and
/// the rest whole. `stored` is the checkpoint's metadata.
cairn::AbstractTree wanted_tree(cairn::AbstractTree stored, const Job& job);

/// Returns the state of what was loaded as wanted_tree says.
///
/// Errors: std::runtime_error when it was trained with other settings; cairn::Error, naming the path.
RankState from_tree(cairn::Tree tree, const digits::Settings& settings);

}  // namespace sharded
