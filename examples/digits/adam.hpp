// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace digits {

/// How far a step of Adam goes.
struct AdamRates {
  float rate = 0;               ///< The learning rate, corrected as the first moment must be.
  float second_correction = 1;  ///< Divides the second moment.
};

/// Returns those of step number `step`, the first of which is 1.
AdamRates adam_rates(float learning_rate, std::int64_t step);

/// Does one step of Adam on some weights, each of which depends on its own moments and gradient only:
/// whoever has a part of all four can do that part.
///
/// Shape:  all four have the same length.
/// Source: D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", algorithm 1.
void descend(std::span<float> weights, std::span<float> first, std::span<float> second,
             std::span<const float> gradient, const AdamRates& rates);

}  // namespace digits
