// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/layout.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/staging/device_copier.hpp"
#include "cairn/staging/pieces.hpp"

#include "formats/internal/index_builder.hpp"

namespace cairn::array_store {

struct WritePlan;

/// How one array is stored.
struct StorageForm {
  StorageForm() = default;

  std::optional<DType> dtype;  ///< As WriterOptions::storage_dtype.
  Narrowing narrowing = Narrowing::refused;
  Snapshot snapshot = Snapshot::copy;
};

struct WriterOptions {
  WriterOptions() = default;

  /// Who keeps the elements valid and unchanged, and for how long.
  Snapshot snapshot = Snapshot::copy;
  /// The dtype on disk; nothing: as in memory. A floating dtype leaves integers and booleans as they are.
  std::optional<DType> storage_dtype;
  /// Says whether a cast may lose values. Default: an array that needs such a cast is refused.
  Narrowing narrowing = Narrowing::refused;
  /// Says of each array how it is stored, instead of the three above; null: all alike. Called while arrays are added.
  std::function<StorageForm(std::string_view path)> form_of;
  /// Finds the copier that reaches the memory of a device, or null; without it arrays on devices are refused.
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

/// Holds what a checkpointable becomes on disk. The files are independent of the index and of each other.
struct PlannedWrite {
  std::vector<PlannedFile> files;
  PlannedIndex index;  ///< To be written as kIndexFile.
};

/// Turns arrays into pieces of safetensors files, and an index that says where each lies.
///
/// Paths are those of formats/index.hpp; each is added once. What is not an array goes to `entries`.
/// Ownership: with Snapshot::copy and borrow the caller keeps elements valid and unchanged until the pieces have been
///            read; with share, pieces keep the owners of their arrays.
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

  /// Adds a part of an array: `values`, of the extents of `box`, which lies in an array of the shape `whole`. Parts
  /// of one array come in any order, and are of one dtype on disk; the caller makes sure that they do not overlap.
  ///
  /// Errors: as add; Errc::shape_mismatch when shapes do not fit.
  void add_part(std::string_view path, const Shape& whole, const Box& box, const Array& values, DType stored);

  /// Adds a part of an array whose elements are in no memory: `values` gives them as they are stored, row-major, when
  /// they are written.
  ///
  /// Errors: Errc::shape_mismatch when the box does not lie in the array.
  void add_source(std::string_view path, const Shape& whole, const Box& box, DType stored,
                  std::shared_ptr<const ByteSource> values);

  /// The dtype on disk that the options ask for, for an array of this path and dtype.
  [[nodiscard]] DType stored_as(std::string_view path, DType dtype) const;

  /// Says whether what is added from now on keeps its array's elements alive, whatever the snapshot: for
  /// values that the caller of the save does not have.
  void keep_values(bool keeps) noexcept { keeps_values_ = keeps; }

  /// Sends what is added from now on to another file. Without it all arrays go to as few files as the format
  /// allows.
  void next_file();

  /// Says how the array of that path is divided; the index keeps it.
  void set_layout(std::string_view path, std::shared_ptr<const Layout> layout);

  /// Sends what is added from now on to new files, made by a sharding policy that describes itself so; the
  /// index keeps that for people.
  void set_policy(std::string_view description);

  /// Takes the scalars, strings and empty containers of the index, and further names of arrays.
  [[nodiscard]] formats::IndexBuilder& entries() noexcept;

  /// Returns what was added so far, on disk.
  [[nodiscard]] std::uint64_t element_bytes() const noexcept;

  /// The arrays that have several parts in one file. Other programs know of the first one only, and are told so
  /// (docs/format.md). None where that is meant.
  [[nodiscard]] std::size_t marked_arrays() const noexcept { return means_marked_ ? 0 : marked_.size(); }
  /// The caller has asked for such files: nobody need be told of them.
  void mean_marked() noexcept { means_marked_ = true; }
  /// The paths of arrays whose elements lie over each other in memory; see overlaps_itself.
  [[nodiscard]] const std::vector<std::string>& overlapping() const noexcept { return overlapping_; }

  /// Plans the files of what was added; the writer is of no use afterwards.
  ///
  /// Errors: Errc::invalid_argument when a header would be larger than the format allows.
  [[nodiscard]] PlannedWrite lay_out() &&;

 private:
  [[nodiscard]] StorageForm form_of(std::string_view path) const;
  /// Makes the array that is added next a part of one. Returns its number among those of that array in the file.
  [[nodiscard]] std::uint32_t begin_part(std::string_view path, const Shape& whole, const Box& box);
  /// Counts the part that was begun, which is in the file now.
  void count_part(std::string_view path);
  /// Adds the tensor that holds an array, or part `number` of it in its file.
  void add_tensor(std::string_view path, const Array& array, DType stored, const StorageForm& form,
                  std::uint32_t number);

  WriterOptions options_;
  std::shared_ptr<WritePlan> plan_;
  bool keeps_values_ = false;
  bool means_marked_ = false;
  std::uint32_t policy_ = 0;  // Which makes the files that begin from now on; 0: none.
  std::map<std::string, std::uint32_t, std::less<>> parts_in_file_;  // By path.
  std::vector<std::string> overlapping_;
  std::set<std::string, std::less<>> marked_;  // Paths.
};

}  // namespace cairn::array_store
