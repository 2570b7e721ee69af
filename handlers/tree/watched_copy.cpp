// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/array/format.hpp"
#include "cairn/contract/value_traits.hpp"
#include "cairn/handlers/tree.hpp"

#include "containers.hpp"

namespace cairn {
namespace {

/// The bytes before the first element and from there to the end of the last one in memory.
struct Extent {
  std::size_t before = 0;
  std::size_t after = 0;
};

Extent extent_of(const ArrayView& view) {
  Extent extent;
  if (view.is_contiguous()) {
    extent.after = static_cast<std::size_t>(view.byte_count());
    return extent;
  }
  extent.after = bits(view.dtype()) / 8;  // Packed arrays are contiguous.
  for (std::size_t i = 0; i < view.rank(); ++i) {
    const std::int64_t reach = view.strides()[i] * static_cast<std::int64_t>(view.shape()[i] - 1);
    (reach < 0 ? extent.before : extent.after) += static_cast<std::size_t>(reach < 0 ? -reach : reach);
  }
  return extent;
}

/// As `view`, with memory of its own: the strides stay, because handlers treat some of them in other ways.
MutableArrayView with_data(const ArrayView& view, std::byte* data) {
  return is_packed(view.dtype()) ? MutableArrayView(data, view.shape(), view.dtype())
                                 : MutableArrayView(data, view.shape(), view.dtype(), view.strides());
}

std::size_t alignment_of(const std::byte* data) {
  constexpr std::size_t kMost = 4096;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return std::min<std::size_t>(kMost, address & (~address + 1));
}

std::string named(std::string_view path) {
  return path.empty() ? "the array" : fmt::format("the array {}", detail::shown(path));
}

Array copy_of(const Array& array, std::string_view path, const std::shared_ptr<WatchedMemory>& memory) {
  const ArrayView& view = array.view();
  if (view.byte_count() == 0) {
    return array;
  }
  if (!view.device().is_host()) {
    memory->leave_out(fmt::format("{} on {}", named(path), to_string(view.device())));
    return array;
  }
  const Extent extent = extent_of(view);
  const std::size_t alignment = alignment_of(view.data() - extent.before);
  std::byte* begin = memory->allocate(extent.before + extent.after, alignment, named(path));
  const MutableArrayView copied = with_data(view, begin + extent.before);
  copy(view, copied);
  if (array.owner() != nullptr) {
    return array.is_mutable() ? Array::share(copied, memory) : Array::share(ArrayView(copied), memory);
  }
  return array.is_mutable() ? Array::borrow(copied) : Array::borrow(ArrayView(copied));
}

}  // namespace

const Tree* WatchedCopy<Tree>::make(const Tree& value, const std::shared_ptr<WatchedMemory>& memory) {
  Tree& copied = memory->make<Tree>(value);
  const auto replace = [&memory](std::string_view path, Tree& node) {
    if (const Array* array = node.array_if()) {
      node = copy_of(*array, path, memory);
    } else if (const ShardedArray* sharded = node.sharded_array_if()) {
      std::vector<Shard> shards(sharded->shards().begin(), sharded->shards().end());
      for (Shard& shard : shards) {
        shard.data = copy_of(shard.data, path, memory);
      }
      node = ShardedArray(sharded->shape(), sharded->dtype(), std::move(shards), sharded->layout());
    }
  };
  std::string path;
  detail::TreeAccess::visit(copied, path, 0, replace);
  return &copied;
}

}  // namespace cairn
