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

namespace cairn {

/// What a checkpoint says of one array. Ownership: the name is valid as long as the range it came from.
struct ArrayEntry {
  std::string_view name;  ///< Its path, as Tree describes paths; empty where the array is all there is.
  DType dtype{};
  Shape shape;
  std::uint64_t bytes = 0;
};

/// The arrays of a checkpointable, in the order of their names. Reads them where they are described: no tree is
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

  /// Where arrays are described.
  class Source {
   public:
    virtual ~Source() = default;

    [[nodiscard]] virtual std::size_t size() const noexcept = 0;
    /// Finds the first array at `position` or behind it, and moves `position` there; false when there is none. `entry` holds
    /// the one before, or nothing.
    [[nodiscard]] virtual bool find(std::size_t& position, ArrayEntry& entry) const = 0;
  };

  class Iterator {
   public:
    using value_type = ArrayEntry;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;

    explicit Iterator(const Source* source) : source_(source) { settle(); }

    [[nodiscard]] const ArrayEntry& operator*() const noexcept { return current_; }

    [[nodiscard]] const ArrayEntry* operator->() const noexcept { return &current_; }

    Iterator& operator++() {
      ++position_;
      settle();
      return *this;
    }

    void operator++(int) { ++*this; }

    [[nodiscard]] bool operator==(std::default_sentinel_t) const noexcept { return source_ == nullptr; }

   private:
    void settle() {
      if (source_ != nullptr && !source_->find(position_, current_)) {
        source_ = nullptr;
      }
    }

    const Source* source_ = nullptr;
    std::size_t position_ = 0;
    ArrayEntry current_;
  };

  ArrayEntries() = default;

  explicit ArrayEntries(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  explicit ArrayEntries(std::vector<Described> arrays);

  /// Ownership: iterators refer to what this range and its copies share.
  [[nodiscard]] Iterator begin() const { return Iterator(source_.get()); }

  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// How many there are.
  [[nodiscard]] std::size_t size() const noexcept { return source_ ? source_->size() : 0; }

  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

 private:
  std::shared_ptr<const Source> source_;
};

}  // namespace cairn
