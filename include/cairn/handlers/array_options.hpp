// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "cairn/array/dtype.hpp"

namespace cairn {

/// How arrays are stored, for saves: `save_options.handler_options.set(ArrayOptions(DType::bfloat16))`.
struct ArrayOptions {
  ArrayOptions() = default;

  explicit ArrayOptions(DType storage, Narrowing narrowing_allowed = Narrowing::refused)
      : storage_dtype(storage), narrowing(narrowing_allowed) {}

  /// The dtype on disk; nothing: as in memory. A floating dtype leaves integers and booleans as they are.
  std::optional<DType> storage_dtype;
  /// Whether the cast may lose values (float32 to bfloat16 does). Default: such a save fails.
  Narrowing narrowing = Narrowing::refused;
};

/// How trees and arrays are loaded, for loads.
struct TreeLoadOptions {
  TreeLoadOptions() = default;

  /// Leave what is stored but not asked for. Default: it is an error, listing the paths.
  bool partial = false;
  /// Permit casts that change values for every array; see AbstractArray::allows_narrowing.
  bool allow_narrowing = false;
  /// Arrays are read-only views of the files, mapped into memory: for tools that look at a few values. An array is
  /// read when its elements are looked at, and not verified. Those that are cast, assembled from slices or placed
  /// into memory are loaded as ever. Whoever makes a file shorter meanwhile ends the program (SIGBUS).
  bool map = false;
};

}  // namespace cairn
