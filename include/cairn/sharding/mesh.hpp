// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/shape.hpp"

namespace cairn {

/// The ranks of a job (or some of them) in a grid with named axes.
///
/// Positions are numbered row-major, the last axis fastest: with two axes [i, j] is position i * extents()[1] + j. The
/// rank at a position is the position itself, unless a list says otherwise.
///
/// Invariant: every axis has a name of its own and at least one position; no rank is at two positions.
/// Threads:   a value.
/// Example:   Mesh mesh({2, 4}, {"data", "model"});  // Rank 5 is at [1, 1].
class Mesh {
 public:
  /// `ranks`, when not empty, has the rank at each position.
  ///
  /// Errors: Errc::invalid_argument when the numbers of extents, axes and ranks do not fit, when an extent is 0 or a
  ///         name empty, when an axis or a rank occurs twice, and when there are more than 2^24 positions or a rank
  ///         is 2^24 or more.
  Mesh(Shape extents, std::vector<std::string> axes, std::vector<std::uint32_t> ranks = {});

  [[nodiscard]] const Shape& extents() const noexcept { return extents_; }

  [[nodiscard]] std::span<const std::string> axes() const noexcept { return axes_; }

  /// The rank at each position; empty where the two are the same.
  [[nodiscard]] std::span<const std::uint32_t> ranks() const noexcept { return ranks_; }

  /// How many positions there are: at least 1.
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  /// One more than the highest rank.
  [[nodiscard]] std::uint32_t rank_count() const noexcept { return rank_count_; }

  [[nodiscard]] std::uint32_t rank_at(std::uint32_t position) const noexcept {
    return ranks_.empty() ? position : ranks_[position];
  }

  /// Where a rank is; nothing when it is not in the mesh.
  [[nodiscard]] std::optional<std::uint32_t> position_of(std::uint32_t rank) const noexcept;

  /// The number of the axis with that name.
  ///
  /// Errors: Errc::invalid_argument, with the names that there are.
  [[nodiscard]] std::size_t axis(std::string_view name) const;

  /// Row-major distance between neighbours along an axis.
  [[nodiscard]] std::uint32_t stride(std::size_t axis) const noexcept;

  bool operator==(const Mesh& other) const noexcept;

 private:
  void take_ranks(std::vector<std::uint32_t> ranks);

  Shape extents_;
  std::vector<std::string> axes_;
  std::vector<std::uint32_t> ranks_;
  std::vector<std::uint32_t> sorted_;  // Positions, in the order of their ranks, where ranks_ is not empty.
  std::uint32_t size_ = 1;
  std::uint32_t rank_count_ = 1;
};

/// "data=2, model=4": for messages.
[[nodiscard]] std::string to_string(const Mesh& mesh);

/// The most ranks that layouts speak of. Layouts come from files, too, and must not make anybody allocate without end.
inline constexpr std::uint32_t kMaxRanks = std::uint32_t{1} << 24;

}  // namespace cairn
