// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/formats/index_builder.hpp"
#include "cairn/staging/device_copier.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn::array_store {

struct WritePlan;

struct WriterOptions {
  WriterOptions() = default;

  /// Who keeps the elements valid and unchanged, and for how long.
  Snapshot snapshot = Snapshot::copy;
  /// The dtype on disk; nothing: as in memory. A floating dtype leaves integers and booleans as they are.
  std::optional<DType> storage_dtype;
  /// Whether a cast may lose values. Default: an array that needs such a cast is refused.
  Narrowing narrowing = Narrowing::refused;
  /// Who reaches the memory of a device, or null; without it arrays on devices are refused.
  std::function<DeviceCopier*(Device)> copier_of;
  /// Whose files they become, which their names say.
  std::size_t rank = 0;
  /// For what is planned. May be used from any thread until all that lay_out returned is gone.
  std::shared_ptr<std::pmr::memory_resource> memory{std::shared_ptr<void>(), std::pmr::new_delete_resource()};
};

/// A file that the arrays become.
struct PlannedFile {
  std::string name;
  std::uint64_t size_bytes = 0;
  std::vector<SourcePiece> pieces;  ///< Cover all of it.
};

/// The index of planned files.
/// Ownership: a handle; copies mean the same index.
class PlannedIndex {
 public:
  explicit PlannedIndex(std::shared_ptr<WritePlan> plan) : plan_(std::move(plan)) {}

  /// Waits until the headers of all files have been read, and drops them: they and the index are about as large, and
  /// are in memory one after the other.
  [[nodiscard]] Background<> headers_read() const { return wait(plan_); }

  /// Makes the index, which takes long when there are many arrays. Call it once.
  ///
  /// Threads: any, but one at a time.
  /// Errors:  as formats::IndexBuilder::finish.
  [[nodiscard]] formats::IndexBytes make() const;

 private:
  static Background<> wait(std::shared_ptr<WritePlan> plan);

  std::shared_ptr<WritePlan> plan_;
};

/// What a checkpointable becomes on disk. The files are independent of the index and of each other.
struct PlannedWrite {
  std::vector<PlannedFile> files;
  PlannedIndex index;  ///< To be written as kIndexFile.
};

/// Turns arrays into pieces of safetensors files, and an index that says where each lies.
///
/// Paths are those of formats/index.hpp; each is added once. What is not an array goes to `entries`.
/// Ownership: with Snapshot::copy and borrow the caller keeps elements valid and unchanged until the pieces have been read;
///            with share, pieces keep the owners of their arrays.
/// Threads:   not safe.
/// Source:    docs/format.md, "Trees".
class Writer {
 public:
  explicit Writer(WriterOptions options);

  /// Adds an array, to be stored as `stored` or as the options ask for.
  ///
  /// Errors: Errc::invalid_argument, naming the path, when Snapshot::share finds no owner, or the array is on a device
  ///         and nobody reaches it there as it is to be stored; Errc::unsafe_cast when values would be lost.
  void add(std::string_view path, const Array& array, DType stored);
  void add(std::string_view path, const Array& array);

  /// Takes the scalars, strings and empty containers of the index.
  [[nodiscard]] formats::IndexBuilder& entries() noexcept;

  /// Plans the files of what was added; the writer is of no use afterwards.
  ///
  /// Errors: Errc::invalid_argument when a header would be larger than the format allows.
  [[nodiscard]] PlannedWrite lay_out() &&;

 private:
  WriterOptions options_;
  std::shared_ptr<WritePlan> plan_;
};

}  // namespace cairn::array_store
