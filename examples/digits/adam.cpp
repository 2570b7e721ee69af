// SPDX-License-Identifier: Apache-2.0
#include "digits/adam.hpp"

#include <cmath>
#include <cstddef>

namespace digits {
namespace {

constexpr float kFirstDecay = 0.9f;
constexpr float kSecondDecay = 0.999f;
constexpr float kEpsilon = 1e-8f;

}  // namespace

AdamRates adam_rates(float learning_rate, std::int64_t step) {
  const auto steps = static_cast<double>(step);
  const auto first_correction = static_cast<float>(1.0 - std::pow(static_cast<double>(kFirstDecay), steps));
  const auto second_correction = static_cast<float>(1.0 - std::pow(static_cast<double>(kSecondDecay), steps));
  return {learning_rate / first_correction, second_correction};
}

void descend(std::span<float> weights, std::span<float> first, std::span<float> second,
             std::span<const float> gradient, const AdamRates& rates) {
  for (std::size_t at = 0; at < weights.size(); ++at) {
    first[at] = kFirstDecay * first[at] + (1.0f - kFirstDecay) * gradient[at];
    second[at] = kSecondDecay * second[at] + (1.0f - kSecondDecay) * gradient[at] * gradient[at];
    weights[at] -= rates.rate * first[at] / (std::sqrt(second[at] / rates.second_correction) + kEpsilon);
  }
}

}  // namespace digits
