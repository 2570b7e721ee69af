// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/array/format.hpp"
#include "cairn/array/shared_memory.hpp"
#include "cairn/contract/value_traits.hpp"
#include "cairn/handlers/tree.hpp"

#include "containers.hpp"

namespace cairn {
namespace {

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

/// Copies arrays into watched memory. What is one array under several names stays one.
class Copies {
 public:
  explicit Copies(const std::shared_ptr<WatchedMemory>& memory) : memory_(memory) {}

  Array copy_of(const Array& array, std::string_view path) {
    const ArrayView& view = array.view();
    if (view.byte_count() == 0) {
      return array;
    }
    if (!view.device().is_host()) {
      memory_->leave_out(fmt::format("{} on {}", named(path), to_string(view.device())));
      return array;
    }
    const MutableArrayView copied = copied_view(view, path);
    if (array.owner() != nullptr) {
      return array.is_mutable() ? Array::share(copied, memory_) : Array::share(ArrayView(copied), memory_);
    }
    return array.is_mutable() ? Array::borrow(copied) : Array::borrow(ArrayView(copied));
  }

 private:
  struct Copied {
    ArrayView from;
    MutableArrayView to;
  };

  MutableArrayView copied_view(const ArrayView& view, std::string_view path) {
    std::vector<Copied>& known = by_address_[view.data()];
    for (const Copied& one : known) {
      if (is_same_memory(one.from, view)) {
        return one.to;
      }
    }
    const ByteRange range = range_of(view);
    std::byte* begin = memory_->allocate(static_cast<std::size_t>(range.end - range.begin),
                                         alignment_of(range.begin), named(path));
    MutableArrayView copied = with_data(view, begin + (view.data() - range.begin));
    copy(view, copied);
    known.push_back({view, copied});
    return copied;
  }

  const std::shared_ptr<WatchedMemory>& memory_;
  std::map<const std::byte*, std::vector<Copied>> by_address_;
};

}  // namespace

const Tree* WatchedCopy<Tree>::make(const Tree& value, const std::shared_ptr<WatchedMemory>& memory) {
  Tree& copied = memory->make<Tree>(value);
  Copies copies(memory);
  const auto replace = [&copies](std::string_view path, Tree& node) {
    if (const Array* array = node.array_if()) {
      node = copies.copy_of(*array, path);
    } else if (const ShardedArray* sharded = node.sharded_array_if()) {
      std::vector<Shard> shards(sharded->shards().begin(), sharded->shards().end());
      for (Shard& shard : shards) {
        shard.data = copies.copy_of(shard.data, path);
      }
      node = ShardedArray(sharded->shape(), sharded->dtype(), std::move(shards), sharded->layout());
    }
  };
  std::string path;
  detail::TreeAccess::visit(copied, path, 0, replace);
  return &copied;
}

}  // namespace cairn
