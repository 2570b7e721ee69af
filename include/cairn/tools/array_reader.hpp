// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/array.hpp"
#include "cairn/array/shape.hpp"

namespace cairn {

/// The boxes that are to be read of each array, by its path.
using WantedBoxes = std::map<std::string, AbstractShardedArray, std::less<>>;

/// Boxes of arrays that are being read.
///
/// Ownership: their destinations must live until `wait` has returned. What goes before that waits, too.
class ArrayReading {
 public:
  struct State;

  explicit ArrayReading(std::unique_ptr<State> state) noexcept;
  ~ArrayReading();
  ArrayReading(ArrayReading&&) noexcept;
  ArrayReading& operator=(ArrayReading&&) noexcept;

  /// Blocks until all are read and verified. May be called again.
  ///
  /// Errors: Errc::checksum_mismatch, Errc::not_found (the checkpoint was replaced meanwhile); OS errors.
  void wait() const;

 private:
  std::unique_ptr<State> state_;
};

/// Reads boxes of the arrays of one checkpointable, in whatever boxes they are stored, from a checkpoint or from files
/// of other programs, which are opened once. What is read of a checkpoint is verified.
///
/// An array has the path that metadata gives it. It has threads of its own, and needs no handler.
/// Threads: const methods may be called from any thread, also concurrently.
/// Example: const cairn::ArrayReader model("run/100", "model");
///          const cairn::Array rows = model.read("params/w", cairn::Box({0, 0}, {16, 1024}));
class ArrayReader {
 public:
  /// `path` is a checkpoint, the directory of one of its checkpointables, or a foreign file or folder. Without a name
  /// it is the only checkpointable that has arrays.
  ///
  /// Errors: as a load before it reads data; Errc::not_found: no such checkpointable, or none with arrays;
  ///         Errc::invalid_argument: several have arrays.
  explicit ArrayReader(const std::filesystem::path& path, const std::string& checkpointable = {});
  ~ArrayReader();
  ArrayReader(ArrayReader&&) noexcept;
  ArrayReader& operator=(ArrayReader&&) noexcept;

  /// The paths of all arrays, sorted; of one with several names, all of those.
  [[nodiscard]] std::vector<std::string> names() const;
  /// Returns the shape and dtype that an array is stored with.
  ///
  /// Errors (all that name an array): Errc::not_found.
  [[nodiscard]] AbstractArray form(std::string_view array) const;

  /// Reads an array, or a box of one.
  ///
  /// Errors: Errc::invalid_argument when the box is not within the array; as ArrayReading::wait.
  [[nodiscard]] Array read(std::string_view array) const;
  [[nodiscard]] Array read(std::string_view array, const Box& box) const;

  /// Starts to read boxes to their destinations, all at once, in the background. Each box must have one.
  ///
  /// Errors: those of a load of such boxes; what the disk says comes by the reading.
  [[nodiscard]] ArrayReading start(const WantedBoxes& boxes) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace cairn
