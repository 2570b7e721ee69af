// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/sharding/policy.hpp"

namespace cairn {

/// One file for each task: what happens when nobody asks for anything else.
class ShardByTask final : public ShardingPolicy {
 public:
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override;
};

/// One file for each device of a task.
class ShardByDevice final : public ShardingPolicy {
 public:
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override;
};

/// One file for everything that the policy is given.
class AllInOne final : public ShardingPolicy {
 public:
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override;
};

/// One file for the tensors whose key begins with a prefix ("state/params/"), the first that fits; one for the others.
/// In the order of the prefixes.
class ByPrefix final : public ShardingPolicy {
 public:
  explicit ByPrefix(std::vector<std::string> prefixes) : prefixes_(std::move(prefixes)) {}

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override;

 private:
  std::vector<std::string> prefixes_;
};

/// Files of at most so many bytes of elements; what surrounds them in the file (names, alignment) comes on top.
///
/// The layouts of TensorFlow's MaxShardSizePolicy: the space left in a file is filled first; a tensor that does not
/// fit is cut along the dimension that gives the fewest parts (the first of several), into parts of about equal size.
/// TensorFlow has no answer where no cut along one dimension is small enough: then the outermost dimension is cut
/// into single indexes and each of these further. What cannot be cut (a scalar, one element, a packed type) and
/// is larger than a file may be gets one of its own behind all others, and a warning. A scalar counts its size_bytes.
class MaxShardSize final : public ShardingPolicy {
 public:
  /// Errors: Errc::invalid_argument when `max_bytes` is 0.
  explicit MaxShardSize(std::uint64_t max_bytes);

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override;
  [[nodiscard]] std::vector<std::string> warnings(std::span<const ShardableTensor> tensors,
                                                  std::span<const FilePlan> files) const override;

 private:
  std::uint64_t max_bytes_;
};

/// Files of at most so many bytes of elements, each with one box of an array at most: such files torch's
/// HuggingFaceStorageReader reads, too, where of MaxShardSize it refuses those that hold several.
///
/// As MaxShardSize, but for a further box of an array a further file begins. An array that a task holds in many boxes
/// makes as many files.
/// Example: options.handler_options.set(ShardingOptions(std::make_shared<MaxFileSize>(500'000'000)));
class MaxFileSize final : public ShardingPolicy {
 public:
  /// Errors: Errc::invalid_argument when `max_bytes` is 0.
  explicit MaxFileSize(std::uint64_t max_bytes);

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override;
  [[nodiscard]] std::vector<std::string> warnings(std::span<const ShardableTensor> tensors,
                                                  std::span<const FilePlan> files) const override;

 private:
  std::uint64_t max_bytes_;
};

/// One file for each task, in which arrays lie in tiles: for checkpoints that will be loaded in other layouts than
/// they are saved in.
///
/// A reader that wants some columns of an array reads the tiles in which they lie, not every row. An array larger
/// than a tile is halved along its longest extent, of several the innermost, until its parts are small enough; so
/// tiles are about as high as wide, and layouts of a power of two of ranks cut none. Where tiles and wanted boxes do
/// not coincide, whole chunks of 1 MiB are read at the borders: tiles of 16 MiB cost up to a sixteenth, smaller ones
/// more. Tiles of a slice begin where it does. Scalars and packed types stay whole.
/// Example: options.handler_options.set(ShardingOptions(std::make_shared<Tiles>()));
class Tiles final : public ShardingPolicy {
 public:
  static constexpr std::uint64_t kDefaultBytes = std::uint64_t{16} << 20;

  /// `axes`: along which arrays may be cut, those that will be cut by readers; none: along all. Arrays that lack one
  /// are cut along the others.
  /// Errors: Errc::invalid_argument when `bytes` is 0.
  explicit Tiles(std::uint64_t bytes = kDefaultBytes, std::vector<std::size_t> axes = {});

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override;
  [[nodiscard]] std::vector<std::string> warnings(std::span<const ShardableTensor> tensors,
                                                  std::span<const FilePlan> files) const override;

 private:
  std::uint64_t bytes_;
  std::vector<std::size_t> axes_;
};

/// Runs `then` on each file that `first` makes: by prefix, but no file above 500 MB.
///
/// `then` is given the parts of the file as its tensors, with the values that `first` put in their place. Files keep
/// the order of `first`.
/// Errors: Errc::invalid_argument when one is null.
[[nodiscard]] std::shared_ptr<const ShardingPolicy> compose(std::shared_ptr<const ShardingPolicy> first,
                                                            std::shared_ptr<const ShardingPolicy> then);

}  // namespace cairn
