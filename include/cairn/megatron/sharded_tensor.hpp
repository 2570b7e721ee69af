// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/megatron/replica_id.hpp"

namespace cairn::megatron {

/// Says that an axis of the global tensor is cut into `fragmentation` equal parts, of which a rank has number `offset`.
struct RankOffset {
  std::size_t axis = 0;  ///< Counted with the prepended axes, which come first.
  std::uint64_t offset = 0;
  std::uint64_t fragmentation = 1;
};

/// Elements [begin, end) of a local tensor that was flattened, row-major.
struct FlatRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t size() const noexcept { return end - begin; }

  bool operator==(const FlatRange&) const = default;
};

/// What from_rank_offsets needs not be told.
struct ShardedTensorOptions {
  ShardedTensorOptions() = default;

  // NOLINTNEXTLINE(google-explicit-constructor): most tensors say this only.
  ShardedTensorOptions(ReplicaId replica, std::size_t prepended_axes = 0, bool allows_mismatch = false)
      : replica_id(std::move(replica)),
        prepend_axis_num(prepended_axes),
        allow_shape_mismatch(allows_mismatch) {}

  ReplicaId replica_id;
  /// The global tensor has so many axes in front of the local one's, of which a rank has one element: the layer, the
  /// expert.
  std::size_t prepend_axis_num = 0;
  bool allow_shape_mismatch = false;
};

/// A local tensor as a part of a global one. The key names the global tensor in the checkpoint.
///
/// Its place in a state dict says where a load puts it, and need not resemble the key. Several tensors of one key on a
/// rank are parts of the same global tensor. A box of it may be held more than once: the main replica is saved.
/// Ownership: as Array: memory that `data` borrows must stay valid as long as this and its copies are used.
/// Threads:   a value.
/// Example:   ShardedTensor::from_rank_offsets("weight", local, {{0, rank, ranks}})
struct ShardedTensor {
  std::string key;
  /// The elements; of a flattened tensor those of its range, with one axis. Nothing: a load makes memory for them, and
  /// a save refuses the tensor.
  std::optional<Array> data = {};
  DType dtype = DType::float32;
  Shape local_shape = {};  ///< Before it was flattened, and without the prepended axes.
  Shape global_shape = {};
  Shape global_offset = {};
  /// Into how many equal parts each axis of the global tensor is cut; nothing: into parts of any sizes.
  std::optional<Shape> axis_fragmentations = {};
  ReplicaId replica_id = {};
  std::size_t prepend_axis_num = 0;
  /// Permits another global shape in the checkpoint: a load pads with zeros, or cuts off.
  bool allow_shape_mismatch = false;
  std::optional<FlatRange> flattened_range = {};

  /// The tensor of a rank in a regular grid. Axes that `offsets` does not name are not cut.
  ///
  /// Errors: those of `validate`; Errc::invalid_argument, naming the key, for an axis that is not there or is given
  ///         twice, and for an offset that is not below its fragmentation.
  [[nodiscard]] static ShardedTensor from_rank_offsets(std::string key, Array data,
                                                       const std::vector<RankOffset>& offsets = {},
                                                       const ShardedTensorOptions& options = {});

  /// The same for elements `range` of the local tensor, flattened. `data` has these elements, and one axis.
  [[nodiscard]] static ShardedTensor from_rank_offsets_flat(std::string key, Array data,
                                                            const Shape& non_flat_local_shape,
                                                            const std::vector<RankOffset>& offsets,
                                                            FlatRange range,
                                                            const ShardedTensorOptions& options = {});

  /// Checks that the fields fit each other. A save and a load do so.
  ///
  /// Errors: Errc::dtype_mismatch, Errc::shape_mismatch and Errc::invalid_argument, naming the key.
  void validate() const;

  [[nodiscard]] bool has_regular_grid() const noexcept { return axis_fragmentations.has_value(); }

  /// Where the local tensor lies in the global one, flattened or not; prepended axes have extent 1.
  [[nodiscard]] Box box() const;

  /// The number of the local tensor along each axis of a regular grid.
  ///
  /// Errors (this and the next): Errc::invalid_argument when the grid is not regular.
  [[nodiscard]] Shape local_chunk_offset_in_global() const;

  /// The extents of the parts of a regular grid.
  ///
  /// Errors: also Errc::shape_mismatch for an axis that its fragmentation does not divide, unless
  ///         `allow_shape_mismatch`.
  [[nodiscard]] Shape max_allowed_chunks() const;

  [[nodiscard]] ShardedTensor without_data() const;

  /// Makes memory for the elements where there is none; what they hold is unspecified. Of a flattened tensor only for
  /// its range.
  void init_data();

  /// The tensor that is left when each rank keeps [start, start + length) of its local tensor along `dimension`, which
  /// is counted without the prepended axes. Shares the memory.
  ///
  /// A flattened tensor can be narrowed along the first axis, and gives none where its range has nothing of it.
  /// Errors: Errc::invalid_argument, also where the global extent or offset is not divisible so.
  [[nodiscard]] std::vector<ShardedTensor> narrow(std::size_t dimension, std::uint64_t start,
                                                  std::uint64_t length) const;
};

/// What a tensor is to the rest of the library: its boxes, each with its elements. Shares the memory. A tensor of no
/// elements has none.
///
/// A flattened range makes up to 2 * N - 1 boxes of N axes.
/// Errors: those of `validate`; Errc::invalid_argument when it has no data, and for a range of a packed dtype that
///         makes several boxes.
[[nodiscard]] std::vector<Shard> shards_of(const ShardedTensor& tensor, std::uint32_t replica);

}  // namespace cairn::megatron
