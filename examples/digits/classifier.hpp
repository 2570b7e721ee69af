// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "digits/dataset.hpp"
#include "digits/training_state.hpp"

namespace digits {

/// How to train.
struct Settings {
  float learning_rate = 1e-3f;
  std::size_t batch_size = 32;  ///< Images per step.
  std::uint64_t seed = 7;       ///< Of the first weights and of every shuffle.
};

/// Returns random weights, resting moments and a first shuffle of `image_count` images.
TrainingState initial_state(const Settings& settings, std::size_t image_count);

/// Does one step of Adam on the next images of the epoch, or of the next epoch when too few are left.
///
/// Returns the mean loss of these images before the step. The same state, images and settings give the same
/// new state, bit for bit, on one machine and build.
///
/// Errors: std::invalid_argument when the state belongs to another network or to another number of images.
float train_step(TrainingState& state, const Images& images, const Settings& settings);

/// The parts of a step, for those who divide one among several processes: the images of the next step, those
/// of the next epoch when too few are left in this one.
///
/// Ownership: the span is valid until the next call.
/// Errors:    std::invalid_argument when the state belongs to another number of images.
std::span<const std::uint32_t> next_batch(TrainingState& state, const Images& images,
                                          const Settings& settings);

/// Adds the gradients of the losses of these images, in their order; returns the sum of the losses.
float add_gradients(Parameters& gradient, const Parameters& weights, const Images& images,
                    std::span<const std::uint32_t> batch);

/// Returns a zero for each weight.
Parameters zeros();

/// Returns the share of the images that the network recognises, 0 to 1.
double accuracy(const TrainingState& state, const Images& images);

}  // namespace digits
