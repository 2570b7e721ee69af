// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace digits {

inline constexpr std::size_t kPixels = 64;   // 8 x 8, row-major.
inline constexpr std::size_t kClasses = 10;  // The digits.

/// Images and what they show.
///
/// Invariant: pixels.size() == kPixels * labels.size(); every label is below kClasses.
struct Images {
  std::vector<float> pixels;         ///< [image, pixel], 0 (white) to 1 (black).
  std::vector<std::uint8_t> labels;  ///< [image]

  [[nodiscard]] std::size_t size() const noexcept { return labels.size(); }

  [[nodiscard]] std::span<const float, kPixels> image(std::size_t index) const;
};

/// Images to learn from, and others that show what was learnt.
struct Dataset {
  Images train;
  Images test;
};

/// Reads digits.csv: 64 pixel columns p00 to p77 of grey values 0 to 16 and a column `label`.
///
/// Errors: std::runtime_error with file and line for anything that is not exactly so.
Images read_images(const std::filesystem::path& file);

/// Puts a fifth of the images, chosen by `seed`, aside for testing.
Dataset split(const Images& images, std::uint64_t seed);

}  // namespace digits
