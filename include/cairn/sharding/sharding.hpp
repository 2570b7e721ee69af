// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/layout.hpp"
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

  /// Returns where a rank is; nothing when it is not in the mesh.
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

namespace sharding_detail {
class Rule;
}  // namespace sharding_detail

/// Holds what one axis of a mesh does to an array: nothing, or cut one of its dimensions.
struct Placement {
  /// Every position along the axis holds the same.
  [[nodiscard]] static Placement replicate() { return {}; }

  /// Position i holds the i-th of equal chunks of `dimension`. `split_factor` above 1: the dimension is first cut
  /// into that many chunks, each of these is cut, and position i holds the i-th part of each; so the order in which
  /// two axes cut a dimension can be turned round.
  [[nodiscard]] static Placement shard(std::size_t dimension, std::uint64_t split_factor = 1) {
    return {dimension, split_factor};
  }

  std::optional<std::size_t> dimension;  ///< Nothing: replicated.
  std::uint64_t split_factor = 1;

  bool operator==(const Placement&) const = default;
};

/// Divides arrays among the ranks of a job: which boxes a rank holds, and which of them are copies.
///
/// All but tables are rules: they fit arrays of many shapes, take no memory for a rank, and need not be exchanged.
///
/// Invariant: the boxes that one rank holds do not overlap (tables: as far as their maker saw to it).
/// Threads:   a value; copies share what they say.
/// Example:   Sharding rows = Sharding::of_spec(Mesh({4}, {"data"}), {{"data"}});
///            rows.boxes(1, {8, 3});  // [2:4, 0:3]
class Sharding final : public Layout {
 public:
  enum class Kind : std::uint8_t { replicated, spec, placements, grid, table };

  /// Every rank holds all of the array.
  ///
  /// Errors: Errc::invalid_argument when `ranks` is 0 or above kMaxRanks.
  [[nodiscard]] static Sharding replicated(std::uint32_t ranks);

  /// As a JAX PartitionSpec: for each dimension the axes that cut it, none, one or several, the first the outermost;
  /// dimensions that are not mentioned are not cut. A dimension of n over k positions has blocks of ceil(n / k), the
  /// last ones shorter or empty. Axes that cut nothing make replicas, numbered row-major.
  ///
  /// Errors: Errc::invalid_argument when the mesh lacks an axis, or an axis is used twice.
  [[nodiscard]] static Sharding of_spec(Mesh mesh, std::vector<std::vector<std::string>> spec);

  /// As torch's DTensor: one placement for each axis of the mesh, applied in the order of the axes; each cuts what the
  /// ones before have left, as torch.chunk does: ceil(n / k), the last ones shorter or empty.
  ///
  /// Errors: Errc::invalid_argument when the numbers of axes and placements differ, a dimension is above kMaxRank, or a
  ///         split factor is 0 or above the size of the mesh.
  [[nodiscard]] static Sharding of_placements(Mesh mesh, std::vector<Placement> placements);

  /// A regular grid: dimension i is cut into parts[i] equal parts, and rank r holds number part_of_rank[r] of them,
  /// counted row-major; kNoPart: nothing. Ranks with the same part are replicas, in the order of the ranks.
  ///
  /// Errors: Errc::invalid_argument when a number of parts is 0, there are more parts than ranks, a part is not in
  ///         the grid, or there are no ranks or too many.
  [[nodiscard]] static Sharding of_grid(Shape parts, std::vector<std::uint32_t> part_of_rank);
  static constexpr std::uint32_t kNoPart = UINT32_MAX;

  /// A table: for each rank the boxes that it holds. Fits arrays that contain the boxes.
  ///
  /// Errors: Errc::invalid_argument when the boxes differ in rank (dimensions), or there are no ranks or too many.
  [[nodiscard]] static Sharding of_boxes(const std::vector<std::vector<PlacedBox>>& by_rank);

  /// Reads what to_json wrote; `name` says in errors what the text is.
  ///
  /// Errors: Errc::malformed_metadata.
  [[nodiscard]] static Sharding from_json(std::string_view text, std::string_view name);

  [[nodiscard]] Kind kind() const noexcept;
  [[nodiscard]] std::uint32_t ranks() const noexcept override;
  /// Row-major, where there are several. Also Errc::invalid_argument when an extent is not divisible by the parts of a
  /// grid, and when a rank would hold more than 2^16 boxes.
  [[nodiscard]] std::vector<PlacedBox> boxes(std::uint32_t rank, const Shape& shape) const override;
  /// Takes time for all of to_json().
  [[nodiscard]] Hash128 hash() const override;
  [[nodiscard]] std::string to_json() const override;

  /// The same boxes and replicas for arrays of `shape`, said in another way; nothing where that cannot say it.
  ///
  /// Takes time for the boxes of all ranks. Axes that must be invented are called "d0", "d1"… and "replica".
  /// Errors: as boxes().
  [[nodiscard]] std::optional<Sharding> as_spec(const Shape& shape) const;
  [[nodiscard]] std::optional<Sharding> as_placements(const Shape& shape) const;
  [[nodiscard]] std::optional<Sharding> as_grid(const Shape& shape) const;
  [[nodiscard]] Sharding as_boxes(const Shape& shape) const;

  /// Returns whether both say the same in the same way.
  friend bool operator==(const Sharding& a, const Sharding& b) { return a.to_json() == b.to_json(); }

  /// For the sources of this module.
  [[nodiscard]] const sharding_detail::Rule& rule() const noexcept { return *rule_; }
  explicit Sharding(std::shared_ptr<const sharding_detail::Rule> rule) : rule_(std::move(rule)) {}

 private:
  std::shared_ptr<const sharding_detail::Rule> rule_;
};

/// Returns what it says, in a line for people: "spec (data, none, [model, seq]) on mesh (data=2, model=2,
/// seq=3)".
[[nodiscard]] std::string to_string(const Sharding& sharding);

}  // namespace cairn
