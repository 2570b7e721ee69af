// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "digits/random.hpp"

namespace digits {

inline constexpr std::size_t kHidden = 128;

/// One number for each weight of the network: the weights themselves, or what the optimizer knows of each.
struct Parameters {
  std::vector<float> w1;  ///< [kPixels, kHidden], row-major
  std::vector<float> b1;  ///< [kHidden]
  std::vector<float> w2;  ///< [kHidden, kClasses], row-major
  std::vector<float> b2;  ///< [kClasses]

  bool operator==(const Parameters&) const = default;
};

/// The arrays of Parameters, for what is done to each of them.
inline constexpr std::array kLayers = {&Parameters::w1, &Parameters::b1, &Parameters::w2, &Parameters::b2};

/// Everything that the next training step depends on, besides the images and the settings: a state that is
/// saved and loaded again goes on as if nothing had happened.
struct TrainingState {
  Parameters weights;
  Parameters first_moment;              ///< Adam's running mean of the gradients.
  Parameters second_moment;             ///< Adam's running mean of their squares.
  std::int64_t step = 0;                ///< Steps done.
  RandomState random{};                 ///< Shuffles the images before each epoch.
  std::vector<std::uint32_t> order;     ///< The images in the order of this epoch.
  std::uint64_t position_in_epoch = 0;  ///< How many of them were used.

  bool operator==(const TrainingState&) const = default;
};

}  // namespace digits
