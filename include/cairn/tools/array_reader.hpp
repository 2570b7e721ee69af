// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/array.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/array_store/file_layout.hpp"

namespace cairn {

/// The boxes that are to be read of each array, by its path.
using WantedBoxes = std::map<std::string, AbstractShardedArray, std::less<>>;

/// Says what an array holds. NaNs are counted and otherwise left out. Of complex numbers only NaNs and zeros are
/// counted, and there is no `min`, `max` or `mean`.
struct ArrayStatistics {
  /// A number, in the first of these types that holds every element of the array exactly.
  using Number = std::variant<double, std::int64_t, std::uint64_t>;

  std::uint64_t elements = 0;
  std::uint64_t nans = 0;
  std::uint64_t zeros = 0;
  std::optional<Number> min;  ///< Nothing where there is no number.
  std::optional<Number> max;
  std::optional<double> mean;
};

/// Boxes of arrays that an ArrayReader is reading. Copies are the same reading.
///
/// Ownership: destinations must stay valid until `wait` has returned. The last copy that goes waits, too.
/// Threads:   const methods may be called from any thread.
class ArrayReading {
 public:
  /// Blocks until all boxes are read and verified, and returns them: in the order of the paths, and of the boxes of
  /// each array. May be called again.
  ///
  /// Errors: Errc::checksum_mismatch; Errc::not_found when files are gone, as after the removal of the checkpoint; OS
  ///         errors. Destinations may then hold anything.
  const std::vector<Array>& wait() const&;
  std::vector<Array> wait() && { return std::as_const(*this).wait(); }

 private:
  friend class ArrayReader;
  struct State;

  explicit ArrayReading(std::shared_ptr<const State> state) noexcept;

  std::shared_ptr<const State> state_;
};

struct ArrayReaderOptions {
  ArrayReaderOptions() = default;

  /// The layout by which files of other programs are read, by its name. Default: the one that recognises them.
  std::string layout;
  /// Layouts of the caller's, beside the built-in ones.
  array_store::FileLayouts layouts;
};

/// Reads boxes of the arrays of one checkpointable, in whatever boxes they are stored, from a checkpoint or from files
/// of other programs.
///
/// A load by `load_checkpointables` opens a checkpoint anew each time. A reader opens it once; then a program that
/// reads many boxes, one after the other, pays for the boxes only. What is read of a checkpoint is verified. A reader
/// needs no handler and no context: it has threads of its own, as many as the machine has cores when it is busy.
///
/// Arrays have the paths that metadata gives them. A checkpoint that is replaced stays readable for a reader that has
/// it open until its files are removed.
/// Threads: a handle; copies are the same reader. Const methods may be called from any thread, also concurrently.
/// Example: const cairn::ArrayReader model("run/100", "model");
///          const cairn::Array rows = model.read("params/w", cairn::Box({0, 0}, {16, 1024}));
class ArrayReader {
 public:
  /// Opens a checkpoint, the directory of one of its checkpointables, or a file or folder of other programs, as
  /// `load_checkpointables` does. Reads the index of the arrays and none of their elements. Blocks.
  ///
  /// `checkpointable`: empty for the only one that has arrays.
  /// Errors: Errc::not_found when the path or the checkpointable is not there, or none has arrays;
  ///         Errc::invalid_argument when several have arrays and none is named, or no layout is called so; those of
  ///         damaged files.
  explicit ArrayReader(const std::filesystem::path& path, const std::string& checkpointable = {},
                       const ArrayReaderOptions& options = {});

  /// Returns the paths of all arrays, sorted; of an array with several names all of them.
  [[nodiscard]] std::vector<std::string> names() const;
  /// Returns the shape and dtype that an array is stored with.
  ///
  /// Errors (of all methods that name an array): Errc::not_found.
  [[nodiscard]] AbstractArray form(std::string_view array) const;

  /// Reads an array, or a box of it, into new memory. Blocks.
  ///
  /// Errors: Errc::invalid_argument when the box is not within the array; as `start` and ArrayReading::wait.
  [[nodiscard]] Array read(std::string_view array) const;
  [[nodiscard]] Array read(std::string_view array, const Box& box) const;

  /// Starts to read boxes of several arrays, all at once, in the background: to their destinations, which may be of
  /// another dtype, or into new memory. Where boxes lie across chunks of 1 MiB, whole chunks are read.
  ///
  /// Ownership: what `boxes` refers to as destinations must stay valid until the reading has ended.
  /// Errors:    Errc::shape_mismatch when an array has another shape; Errc::unsafe_cast; Errc::incomplete_shards when
  ///            elements are stored nowhere; Errc::invalid_argument when boxes overlap, or cut elements of a packed
  ///            type in a way that bytes do not allow; Errc::malformed_metadata. What the disk says comes by `wait`.
  [[nodiscard]] ArrayReading start(const WantedBoxes& boxes) const;

  /// Reads arrays from the first element to the last, and says what each holds, in the order of `arrays`. Blocks.
  ///
  /// `progress`, where it is given, is told how many bytes of the arrays have been read, of how many; on the calling
  /// thread. What it throws stops the call.
  /// Memory: two batches of 64 MiB; an array of a packed type (float4, 6-bit floats) is one batch.
  /// Errors: as `start` and ArrayReading::wait.
  [[nodiscard]] std::vector<ArrayStatistics> statistics(
      std::span<const std::string> arrays,
      const std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>& progress = {}) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace cairn
