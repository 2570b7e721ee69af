// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/sharding/sharding.hpp"

#include "base/internal/json_writer.hpp"

namespace cairn::sharding_detail {

/// A rule by which a Sharding divides arrays; it does not change.
class Rule {
 public:
  virtual ~Rule() = default;
  [[nodiscard]] virtual Sharding::Kind kind() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const noexcept = 0;
  /// `rank` is below ranks(), and the shape has a number of elements.
  [[nodiscard]] virtual std::vector<PlacedBox> boxes(std::uint32_t rank, const Shape& shape) const = 0;
  /// The members of the JSON object behind "kind".
  virtual void write(JsonWriter& json) const = 0;
  /// Returns what to_string(const Sharding&) says.
  [[nodiscard]] virtual std::string text() const = 0;
};

/// A half-open range of one dimension.
struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
};

/// How one dimension is cut once more: into `pieces` chunks; see Placement for `split_factor`.
struct Cut {
  std::uint64_t pieces = 1;
  std::uint64_t split_factor = 1;
};

/// Cuts each dimension by itself. A rank has a piece of each; together they are its part.
///
/// Pieces of a dimension are counted with the last cut the fastest, parts with the last dimension the fastest.
class GridRule : public Rule {
 public:
  struct Place {
    std::uint32_t part = 0;
    std::uint32_t replica = 0;
  };

  [[nodiscard]] std::vector<PlacedBox> boxes(std::uint32_t rank, const Shape& shape) const override;

  /// Nothing when the rank takes no part.
  [[nodiscard]] virtual std::optional<Place> place(std::uint32_t rank) const noexcept = 0;

  /// Errors: Errc::invalid_argument when arrays of that shape cannot be cut so.
  virtual void check_shape(const Shape& shape) const;

  [[nodiscard]] std::uint32_t parts() const noexcept;
  /// How many pieces a dimension has; 1 for those that are not cut.
  [[nodiscard]] std::uint64_t pieces(std::size_t dimension) const noexcept;
  /// Returns what a piece has of `extent`; one empty interval when it has nothing.
  [[nodiscard]] std::vector<Interval> intervals(std::size_t dimension, std::uint64_t piece,
                                                std::uint64_t extent) const;
  /// The boxes of a part.
  [[nodiscard]] std::vector<Box> boxes_of_part(std::uint32_t part, const Shape& shape) const;

 private:
  // What nearly all rules come to: cuts without a split factor leave one interval. No memory is allocated for it.
  [[nodiscard]] std::optional<Interval> only_interval(std::size_t dimension, std::uint64_t piece,
                                                      std::uint64_t extent) const noexcept;
  [[nodiscard]] std::optional<Box> only_box(std::uint32_t part, const Shape& shape) const;

 protected:
  std::vector<std::vector<Cut>> cuts_;  // By dimension.
};

class ReplicatedRule final : public GridRule {
 public:
  explicit ReplicatedRule(std::uint32_t ranks) : ranks_(ranks) {}

  [[nodiscard]] Sharding::Kind kind() const noexcept override { return Sharding::Kind::replicated; }

  [[nodiscard]] std::uint32_t ranks() const noexcept override { return ranks_; }

  [[nodiscard]] std::optional<Place> place(std::uint32_t rank) const noexcept override {
    return Place{0, rank};
  }

  void write(JsonWriter& json) const override;
  [[nodiscard]] std::string text() const override;

 private:
  std::uint32_t ranks_;
};

/// A rule that cuts by the axes of a mesh.
class MeshRule : public GridRule {
 public:
  explicit MeshRule(Mesh mesh) : mesh_(std::move(mesh)) {}

  [[nodiscard]] std::uint32_t ranks() const noexcept override { return mesh_.rank_count(); }

  [[nodiscard]] std::optional<Place> place(std::uint32_t rank) const noexcept override;

  [[nodiscard]] const Mesh& mesh() const noexcept { return mesh_; }

  void write(JsonWriter& json) const override;

 protected:
  /// Says which axes number the parts, the last the fastest; the others number the replicas.
  void number_by(std::span<const std::size_t> axes);

 private:
  struct Digit {
    std::uint32_t stride = 1;
    std::uint32_t extent = 1;
  };

  Mesh mesh_;
  std::vector<Digit> part_digits_;
  std::vector<Digit> replica_digits_;
};

class SpecRule final : public MeshRule {
 public:
  SpecRule(Mesh mesh, std::vector<std::vector<std::string>> spec);

  [[nodiscard]] Sharding::Kind kind() const noexcept override { return Sharding::Kind::spec; }

  /// For each dimension the numbers of the axes that cut it.
  [[nodiscard]] const std::vector<std::vector<std::size_t>>& axes() const noexcept { return axes_; }

  void write(JsonWriter& json) const override;
  [[nodiscard]] std::string text() const override;

 private:
  std::vector<std::vector<std::size_t>> axes_;
};

class PlacementRule final : public MeshRule {
 public:
  PlacementRule(Mesh mesh, std::vector<Placement> placements);

  [[nodiscard]] Sharding::Kind kind() const noexcept override { return Sharding::Kind::placements; }

  [[nodiscard]] const std::vector<Placement>& placements() const noexcept { return placements_; }

  void write(JsonWriter& json) const override;
  [[nodiscard]] std::string text() const override;

 private:
  std::vector<Placement> placements_;
};

/// Equal parts, each with the ranks that hold it.
class PartsRule final : public GridRule {
 public:
  PartsRule(Shape parts, std::vector<std::uint32_t> part_of_rank);

  [[nodiscard]] Sharding::Kind kind() const noexcept override { return Sharding::Kind::grid; }

  [[nodiscard]] std::uint32_t ranks() const noexcept override {
    return static_cast<std::uint32_t>(part_of_rank_.size());
  }

  [[nodiscard]] std::optional<Place> place(std::uint32_t rank) const noexcept override;
  void check_shape(const Shape& shape) const override;
  void write(JsonWriter& json) const override;
  [[nodiscard]] std::string text() const override;

 private:
  Shape parts_;
  std::vector<std::uint32_t> part_of_rank_;
  std::vector<std::uint32_t> replicas_;  // By rank.
};

/// Boxes in columns: tables of 10,000 ranks times 500 arrays must fit into memory.
class TableRule final : public Rule {
 public:
  /// Takes the boxes of rank 0, then those of rank 1…
  void add(std::uint32_t rank, const Box& box, std::uint32_t replica);
  /// Ranks from the last one with boxes on have none.
  ///
  /// Errors: Errc::invalid_argument when there are no ranks or too many.
  void finish(std::uint32_t ranks);

  [[nodiscard]] Sharding::Kind kind() const noexcept override { return Sharding::Kind::table; }

  [[nodiscard]] std::uint32_t ranks() const noexcept override {
    return static_cast<std::uint32_t>(firsts_.size() - 1);
  }

  [[nodiscard]] std::vector<PlacedBox> boxes(std::uint32_t rank, const Shape& shape) const override;
  void write(JsonWriter& json) const override;
  [[nodiscard]] std::string text() const override;

  [[nodiscard]] std::size_t size() const noexcept { return replicas_.size(); }

  [[nodiscard]] std::size_t dimensions() const noexcept { return dimensions_; }

  [[nodiscard]] Box box(std::size_t number) const;
  /// Offsets, then extents.
  [[nodiscard]] std::span<const std::uint64_t> numbers(std::size_t number) const noexcept {
    return std::span(numbers_).subspan(number * dimensions_ * 2, dimensions_ * 2);
  }

  [[nodiscard]] std::uint32_t replica(std::size_t number) const noexcept { return replicas_[number]; }

  /// The numbers of the boxes of a rank are first(rank) to first(rank + 1) - 1.
  [[nodiscard]] std::uint32_t first(std::uint32_t rank) const noexcept { return firsts_[rank]; }

 private:
  [[nodiscard]] std::uint32_t size32() const noexcept { return static_cast<std::uint32_t>(replicas_.size()); }

  std::size_t dimensions_ = 0;
  std::vector<std::uint32_t> firsts_ = {0};
  std::vector<std::uint64_t> numbers_;
  std::vector<std::uint32_t> replicas_;
};

/// Errors: Errc::invalid_argument when it is 0 or above kMaxRanks.
void check_rank_count(std::size_t ranks);

}  // namespace cairn::sharding_detail
