// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/sharded_tensor.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/sharding/flat_range.hpp"

namespace cairn::megatron {
namespace {

/// The axes of a rank's part in the global tensor: 1 for each prepended one, then those of the local tensor.
Shape with_prepended(std::size_t prepended, const Shape& local) {
  Shape shape(prepended + local.size(), 1);
  std::copy(local.begin(), local.end(), shape.begin() + prepended);
  return shape;
}

/// The same elements under other strides.
Array with_strides(const Array& array, Shape shape, Strides strides) {
  const auto seen = [&]<class View>(View view) {
    return array.owner() ? Array::share(std::move(view), array.owner()) : Array::borrow(std::move(view));
  };
  const ArrayView& view = array.view();
  if (array.is_mutable()) {
    return seen(MutableArrayView(array.mutable_view().data(), std::move(shape), view.dtype(),
                                 std::move(strides), view.device()));
  }
  return seen(ArrayView(view.data(), std::move(shape), view.dtype(), std::move(strides), view.device()));
}

/// The local tensor with its prepended axes.
Array as_part(const ShardedTensor& tensor) {
  const Array& data = *tensor.data;
  Shape shape = with_prepended(tensor.prepend_axis_num, tensor.local_shape);
  if (data.view().is_contiguous()) {
    return data.reshaped(std::move(shape));
  }
  Strides strides(shape.size(), 0);  // Of an axis of one element any will do.
  std::copy(data.view().strides().begin(), data.view().strides().end(),
            strides.begin() + tensor.prepend_axis_num);
  return with_strides(data, std::move(shape), std::move(strides));
}

/// Elements of a flattened tensor in the shape of a box.
Array as_box(const Array& flat, const Shape& shape) {
  if (flat.view().is_contiguous()) {
    return flat.reshaped(shape);
  }
  Strides strides(shape.size(), flat.view().strides()[0]);
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * static_cast<std::int64_t>(shape[axis]);
  }
  return with_strides(flat, shape, std::move(strides));
}

[[noreturn]] void refuse(Errc code, std::string_view key, const std::string& what) {
  throw Error(code, fmt::format("'{}': {}", key, what));
}

void check_flat(const ShardedTensor& tensor) {
  const FlatRange& range = *tensor.flattened_range;
  const auto elements = element_count(tensor.local_shape);
  if (!elements || range.begin > range.end || range.end > *elements) {
    refuse(Errc::invalid_argument, tensor.key,
           fmt::format("the local tensor {} has no elements [{}, {})", tensor.local_shape, range.begin,
                       range.end));
  }
  if (tensor.data && tensor.data->shape().size() != 1) {
    refuse(Errc::shape_mismatch, tensor.key,
           fmt::format("data of a flattened tensor has one axis, not the shape {}", tensor.data->shape()));
  }
  if (tensor.data && tensor.data->element_count() != range.size()) {
    refuse(Errc::shape_mismatch, tensor.key,
           fmt::format("flattened range [{}, {}) of {} elements has {}, its data has {}", range.begin,
                       range.end, *elements, range.size(), tensor.data->element_count()));
  }
}

void check_dimensions(const ShardedTensor& tensor) {
  if (tensor.global_offset.size() != tensor.global_shape.size()) {
    refuse(Errc::shape_mismatch, tensor.key,
           fmt::format("global offset {} and global shape {} have not as many axes", tensor.global_offset,
                       tensor.global_shape));
  }
  if (tensor.prepend_axis_num + tensor.local_shape.size() != tensor.global_shape.size()) {
    refuse(Errc::shape_mismatch, tensor.key,
           fmt::format("local shape {} and {} prepended axes do not make the axes of global shape {}",
                       tensor.local_shape, tensor.prepend_axis_num, tensor.global_shape));
  }
  if (tensor.axis_fragmentations && tensor.axis_fragmentations->size() != tensor.global_shape.size()) {
    refuse(Errc::shape_mismatch, tensor.key,
           fmt::format("axis fragmentations {} are not as many as the axes of global shape {}",
                       *tensor.axis_fragmentations, tensor.global_shape));
  }
}

void check_grid(const ShardedTensor& tensor) {
  for (std::size_t i = 0; i < tensor.local_shape.size(); ++i) {
    const std::size_t axis = tensor.prepend_axis_num + i;
    const std::uint64_t extent = tensor.local_shape[i];
    if (extent != 0 && tensor.global_offset[axis] % extent != 0) {
      refuse(Errc::invalid_argument, tensor.key,
             fmt::format(
                 "offset {} of axis {} is not divisible by the local extent {} (axis_fragmentations says a "
                 "regular grid)",
                 tensor.global_offset[axis], axis, extent));
    }
  }
}

std::uint64_t product(std::uint64_t a, std::uint64_t b, std::string_view key, std::size_t axis) {
  std::uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    refuse(Errc::invalid_argument, key, fmt::format("the extent of axis {} does not fit in 64 bits", axis));
  }
  return result;
}

/// Places a local tensor, of which only the shape is looked at, in a regular grid.
ShardedTensor placed(std::string key, DType dtype, const Shape& local, const std::vector<RankOffset>& offsets,
                     const ShardedTensorOptions& options) {
  ShardedTensor tensor;
  tensor.key = std::move(key);
  tensor.dtype = dtype;
  tensor.local_shape = local;
  tensor.replica_id = options.replica_id;
  tensor.prepend_axis_num = options.prepend_axis_num;
  tensor.allow_shape_mismatch = options.allow_shape_mismatch;
  tensor.global_shape = with_prepended(options.prepend_axis_num, local);
  tensor.global_offset = Shape(tensor.global_shape.size(), 0);
  tensor.axis_fragmentations = Shape(tensor.global_shape.size(), 0);  // 0: not given.
  const Shape extents = tensor.global_shape;
  for (const RankOffset& cut : offsets) {
    if (cut.axis >= extents.size()) {
      refuse(Errc::invalid_argument, tensor.key,
             fmt::format("rank offsets name axis {} of {}", cut.axis, extents.size()));
    }
    if (cut.offset >= cut.fragmentation) {
      refuse(Errc::invalid_argument, tensor.key,
             fmt::format("rank offset {} of axis {} is not below its {} parts", cut.offset, cut.axis,
                         cut.fragmentation));
    }
    std::uint64_t& fragmentation = (*tensor.axis_fragmentations)[cut.axis];
    if (std::exchange(fragmentation, cut.fragmentation) != 0) {
      refuse(Errc::invalid_argument, tensor.key,
             fmt::format("axis {} is given twice in its rank offsets", cut.axis));
    }
    tensor.global_shape[cut.axis] = product(cut.fragmentation, extents[cut.axis], tensor.key, cut.axis);
    tensor.global_offset[cut.axis] = cut.offset * extents[cut.axis];
  }
  std::replace(tensor.axis_fragmentations->begin(), tensor.axis_fragmentations->end(), std::uint64_t{0},
               std::uint64_t{1});
  return tensor;
}

const Shape& grid_of(const ShardedTensor& tensor) {
  if (!tensor.axis_fragmentations) {
    refuse(Errc::invalid_argument, tensor.key,
           "it is not cut into a regular grid: axis_fragmentations is empty");
  }
  return *tensor.axis_fragmentations;
}

}  // namespace

ShardedTensor ShardedTensor::from_rank_offsets(std::string key, Array data,
                                               const std::vector<RankOffset>& offsets,
                                               const ShardedTensorOptions& options) {
  ShardedTensor tensor = placed(std::move(key), data.dtype(), data.shape(), offsets, options);
  tensor.data = std::move(data);
  tensor.validate();
  return tensor;
}

ShardedTensor ShardedTensor::from_rank_offsets_flat(std::string key, Array data,
                                                    const Shape& non_flat_local_shape,
                                                    const std::vector<RankOffset>& offsets, FlatRange range,
                                                    const ShardedTensorOptions& options) {
  ShardedTensor tensor = placed(std::move(key), data.dtype(), non_flat_local_shape, offsets, options);
  tensor.data = std::move(data);
  tensor.flattened_range = range;
  tensor.validate();
  return tensor;
}

void ShardedTensor::validate() const {
  if (data && data->dtype() != dtype) {
    refuse(Errc::dtype_mismatch, key, fmt::format("its data are {}, not {}", data->dtype(), dtype));
  }
  if (flattened_range) {
    check_flat(*this);
  } else if (data && data->shape() != local_shape) {
    refuse(Errc::shape_mismatch, key,
           fmt::format("its data have shape {}, its local shape is {}", data->shape(), local_shape));
  }
  check_dimensions(*this);
  if (axis_fragmentations) {
    check_grid(*this);
  }
  const Shape extents = with_prepended(prepend_axis_num, local_shape);
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if (global_offset[axis] > global_shape[axis] ||
        extents[axis] > global_shape[axis] - global_offset[axis]) {
      refuse(Errc::invalid_argument, key,
             fmt::format("offset {} and extents {} leave its global shape {}", global_offset, extents,
                         global_shape));
    }
  }
}

Box ShardedTensor::box() const {
  return {global_offset, with_prepended(prepend_axis_num, local_shape)};
}

Shape ShardedTensor::local_chunk_offset_in_global() const {
  static_cast<void>(grid_of(*this));
  Shape numbers = global_offset;
  for (std::size_t i = 0; i < local_shape.size(); ++i) {
    std::uint64_t& number = numbers[prepend_axis_num + i];
    number = local_shape[i] == 0 ? 0 : number / local_shape[i];
  }
  return numbers;
}

Shape ShardedTensor::max_allowed_chunks() const {
  const Shape& parts = grid_of(*this);
  Shape extents = global_shape;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    if (parts[axis] == 0 || (!allow_shape_mismatch && extents[axis] % parts[axis] != 0)) {
      refuse(Errc::shape_mismatch, key,
             fmt::format("extent {} of axis {} is not divisible by its {} parts", extents[axis], axis,
                         parts[axis]));
    }
    extents[axis] /= parts[axis];
  }
  return extents;
}

ShardedTensor ShardedTensor::without_data() const {
  ShardedTensor copy = *this;
  copy.data.reset();
  return copy;
}

void ShardedTensor::init_data() {
  if (!data) {
    data = Array(flattened_range ? Shape{flattened_range->size()} : local_shape, dtype);
  }
}

std::vector<ShardedTensor> ShardedTensor::narrow(std::size_t dimension, std::uint64_t start,
                                                 std::uint64_t length) const {
  if (dimension >= local_shape.size() || start > local_shape[dimension] ||
      length > local_shape[dimension] - start) {
    refuse(Errc::invalid_argument, key,
           fmt::format("its local shape {} has no [{}, {} + {}) along axis {}", local_shape, start, start,
                       length, dimension));
  }
  if (flattened_range && dimension != 0) {
    refuse(Errc::invalid_argument, key,
           fmt::format("a flattened tensor is narrowed along axis 0, not {}", dimension));
  }
  ShardedTensor narrowed = *this;
  const std::size_t axis = prepend_axis_num + dimension;
  const std::uint64_t extent = local_shape[dimension];
  narrowed.local_shape[dimension] = length;
  for (std::uint64_t* number : {&narrowed.global_shape[axis], &narrowed.global_offset[axis]}) {
    if (extent == 0) {
      break;  // Nothing is left of nothing.
    }
    *number = product(*number, length, key, axis);
    if (*number % extent != 0) {
      refuse(
          Errc::invalid_argument, key,
          fmt::format("axis {} cannot be narrowed from {} to {} on all ranks alike", axis, extent, length));
    }
    *number /= extent;
  }
  if (!flattened_range) {
    Shape begin(local_shape.size(), 0);
    begin[dimension] = start;
    narrowed.data =
        data ? std::optional(data->part(Box(std::move(begin), narrowed.local_shape))) : std::nullopt;
    return {std::move(narrowed)};
  }
  const std::uint64_t row = extent == 0 ? 0 : *element_count(local_shape) / extent;
  const FlatRange kept{std::max(flattened_range->begin, start * row),
                       std::min(flattened_range->end, (start + length) * row)};
  if (kept.begin >= kept.end) {
    return {};
  }
  narrowed.flattened_range = {kept.begin - start * row, kept.end - start * row};
  narrowed.data = data ? std::optional(data->part(Box({kept.begin - flattened_range->begin}, {kept.size()})))
                       : std::nullopt;
  return {std::move(narrowed)};
}

std::vector<Shard> shards_of(const ShardedTensor& tensor, std::uint32_t replica) {
  tensor.validate();
  if (!tensor.data) {
    refuse(Errc::invalid_argument, tensor.key, "it has no data");
  }
  std::vector<Shard> shards;
  Box box = tensor.box();
  if (tensor.data->element_count() == 0) {
    return shards;
  }
  if (!tensor.flattened_range) {
    shards.push_back({std::move(box), as_part(tensor), replica});
    return shards;
  }
  for (FlatPiece& piece :
       boxes_of_flat_range(box, tensor.flattened_range->begin, tensor.flattened_range->end)) {
    const std::uint64_t elements = *element_count(piece.box.extents());
    Array data = as_box(tensor.data->part(Box({piece.first}, {elements})), piece.box.extents());
    shards.push_back({std::move(piece.box), std::move(data), replica});
  }
  return shards;
}

}  // namespace cairn::megatron
