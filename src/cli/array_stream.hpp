// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "cairn/tools/array_reader.hpp"

#include "cli/export_plan.hpp"

namespace cairn::cli {

/// Some bytes of an array as it lies in memory, row-major.
struct ArrayPiece {
  std::size_t array = 0;
  std::uint64_t offset_bytes = 0;
  std::span<const std::byte> bytes;
};

/// Reads the arrays of a checkpointable one after the other, whatever boxes they were written in, and verifies them.
/// Holds two batches of 64 MiB at a time: one is read while the other is used.
class ArrayStream {
 public:
  /// Both outlive it.
  ArrayStream(const ArrayReader& reader, std::span<const ExportedArray> arrays)
      : reader_(reader), arrays_(arrays) {}

  /// Gives the arrays with these numbers to `take`, in that order.
  ///
  /// Errors: as ArrayReader::start and ArrayReading::wait; what `take` throws.
  void read(std::span<const std::size_t> numbers, const std::function<void(const ArrayPiece&)>& take) const;

 private:
  const ArrayReader& reader_;
  const std::span<const ExportedArray> arrays_;
};

}  // namespace cairn::cli
