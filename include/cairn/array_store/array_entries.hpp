// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/formats/index.hpp"

namespace cairn {

/// What a checkpoint says of one array. Ownership: the name is valid as long as the range it came from.
struct ArrayEntry {
  std::string_view name;  ///< Its path, as Tree describes paths.
  DType dtype{};
  Shape shape;
  std::uint64_t bytes = 0;
};

/// The arrays of a checkpointable, in the order of their names. Reads them where the index lies: no tree is
/// built.
///
/// Threads: a value; copies share what they view.
/// Errors:  Errc::malformed_metadata while iterating, when the index is damaged.
/// Example: for (const ArrayEntry& array : arrays(item)) { … }
class ArrayEntries {
 public:
  /// An array that is described in memory.
  struct Described {
    std::string name;
    DType dtype{};
    Shape shape;
  };

  class Iterator {
   public:
    using value_type = ArrayEntry;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;

    Iterator(const ArrayEntries* entries, std::size_t position) : entries_(entries), position_(position) {
      settle();
    }

    [[nodiscard]] const ArrayEntry& operator*() const noexcept { return current_; }

    [[nodiscard]] const ArrayEntry* operator->() const noexcept { return &current_; }

    Iterator& operator++() {
      ++position_;
      settle();
      return *this;
    }

    void operator++(int) { ++*this; }

    [[nodiscard]] bool operator==(std::default_sentinel_t) const noexcept {
      return !entries_ || position_ == entries_->end_;
    }

   private:
    void settle();

    const ArrayEntries* entries_ = nullptr;
    std::size_t position_ = 0;
    ArrayEntry current_;
  };

  ArrayEntries() = default;

  explicit ArrayEntries(std::shared_ptr<const formats::Index> index)
      : index_(std::move(index)), end_(index_->size()) {}

  explicit ArrayEntries(std::vector<Described> arrays)
      : described_(std::make_shared<const std::vector<Described>>(std::move(arrays))),
        end_(described_->size()) {}

  /// Ownership: iterators refer to this range.
  [[nodiscard]] Iterator begin() const { return {this, 0}; }

  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// How many there are.
  [[nodiscard]] std::size_t size() const noexcept { return index_ ? index_->array_count() : end_; }

  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

 private:
  std::shared_ptr<const formats::Index> index_;
  std::shared_ptr<const std::vector<Described>> described_;
  std::size_t end_ = 0;
};

}  // namespace cairn
