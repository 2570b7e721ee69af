// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "cairn/array/shape.hpp"

namespace cairn {

/// How a checkpoint has an array: in which parts, and why. Read where they are described: there may be many.
///
/// Threads: does not change; may be read from any thread.
/// Errors:  Errc::malformed_metadata when the checkpoint is damaged.
class StoredSlices {
 public:
  virtual ~StoredSlices() = default;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;

  /// A part, in coordinates of the array. They come in the order of their offsets where Cairn wrote them.
  ///
  /// Errors: Errc::invalid_argument when `i` is not below size().
  [[nodiscard]] virtual Box box(std::size_t i) const = 0;

  /// The file that holds a part, in the directory of the checkpointable.
  ///
  /// Ownership: valid as long as this object.
  /// Errors:    as box().
  [[nodiscard]] virtual std::string_view file(std::size_t i) const = 0;

  /// How the array was divided among ranks, as Sharding::from_json reads it; empty when nobody said so.
  ///
  /// Ownership: valid as long as this object.
  [[nodiscard]] virtual std::string_view layout() const = 0;

  /// How the array was divided among files, in a sentence; empty when nobody asked for anything.
  ///
  /// Ownership: as layout().
  [[nodiscard]] virtual std::string_view policy() const = 0;

 protected:
  StoredSlices() = default;
  StoredSlices(const StoredSlices&) = default;
  StoredSlices& operator=(const StoredSlices&) = default;
};

}  // namespace cairn
