// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "digits/classifier.hpp"
#include "digits/dataset.hpp"
#include "digits/training_state.hpp"
#include "sharded/job.hpp"

namespace sharded {

/// A rank's state is a digits::TrainingState whose weights are whole, and whose moments are the rows of this
/// rank.
using RankState = digits::TrainingState;

/// Returns the rank's part of the state with which training begins.
RankState initial_state(const digits::Settings& settings, std::size_t image_count, const Job& job);

/// Returns the whole state, of which each rank has a part.
digits::TrainingState whole_state(const RankState& state, const Job& job);

/// Does one step of Adam together with the other ranks.
///
/// The batch has a fixed number of parts. Each rank computes the gradients of some, all add up all of them
/// in one order, and each updates its rows of the weights. So the number of ranks changes nothing in the
/// result, not a bit.
void train_step(RankState& state, const digits::Images& images, const digits::Settings& settings,
                const Job& job);

}  // namespace sharded
