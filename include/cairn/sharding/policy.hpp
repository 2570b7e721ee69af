// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/array/array_view.hpp"
#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/base/device.hpp"

namespace cairn {

/// Which of the ranks that hold a box writes it.
enum class ReplicaChoice : std::uint8_t {
  /// The one whose replica is number 0: the caller's choice.
  main,
  /// The least loaded: boxes with the fewest holders first, of these the largest, of these by name; lowest rank on a
  /// tie.
  balanced,
  /// As balanced, but a copy that would leave one rank with more than its share fills up the least loaded of its
  /// holders, one after the other. Those end within 5 % of each other unless what cannot be cut (packed types,
  /// several boxes of one rank) makes them differ. There are about as many pieces as copies and holders together.
  balanced_and_split,
};

/// Says whether the ranks of a job bring the same leaves to a save.
enum class RankPaths : std::uint8_t {
  /// All bring the same leaves, else the save fails.
  same,
  /// Each rank brings the leaves that it has, and the checkpoint has all of them: stages of a pipeline, experts. Ranks
  /// that bring the same path bring the same kind of leaf there. The lowest rank that has a leaf writes it, unless it
  /// is an array in parts.
  joined,
};

/// A tensor, or the part of one, that a task (a process of the job) is about to write: what a policy may look at.
///
/// Ownership: texts and view are valid during the call of the policy.
struct ShardableTensor {
  std::string_view key;          ///< Path in the checkpoint, with the checkpointable ("state/params/w").
  std::string_view name;         ///< As its owner calls it: the last component of the path ("w").
  std::string_view owner;        ///< Who holds it: the key without the name ("state/params").
  DType dtype = DType::float32;  ///< In memory: of `view`, and of values that a policy puts in its place.
  /// On disk, where the save casts: whatever is written is cast to it. Nothing: `dtype`.
  std::optional<DType> storage_dtype;
  Shape full;                    ///< The shape of the whole tensor; other tasks may write other parts.
  std::optional<Box> slice;      ///< What this task writes; nothing: all of it.
  std::uint64_t size_bytes = 0;  ///< The bytes that this task writes, on disk.
  Device device;
  std::uint32_t task = 0;  ///< The rank.
  std::uint32_t host = 0;  ///< Its machine, as Coordinator::host.
  const ArrayView* view =
      nullptr;  ///< What this task writes, in the shape of the slice; null when nobody asks for values.

  /// Returns what this task writes, as a box of the whole tensor.
  [[nodiscard]] Box region() const { return slice ? *slice : Box::whole(full); }

  /// The dtype on disk: the one that sizes are counted with.
  [[nodiscard]] DType stored() const { return storage_dtype.value_or(dtype); }

  /// Returns whether its elements share bytes, in memory or on disk: then it is not cut.
  [[nodiscard]] bool is_packed() const { return cairn::is_packed(dtype) || cairn::is_packed(stored()); }
};

/// Some elements of a tensor, in a file.
struct TensorPart {
  std::size_t tensor = 0;  ///< Its number among those that the policy was given.
  /// In coordinates of the whole tensor; nothing: all that this task writes.
  std::optional<Box> box;
  /// Written instead of the tensor's own elements, and cast as they are; of the tensor's `dtype`, and the shape of the
  /// box. Null: its own.
  std::shared_ptr<const Array> values;
};

/// What a file holds, in order.
using FilePlan = std::vector<TensorPart>;

/// Decides which tensors go into which files: the sharding callback of TensorFlow.
///
/// Called once for each save and task that writes something, in the blocking phase, with all that it writes. It may
/// cut tensors, arrange the parts in files as it likes and replace values; check_policy_result says what it may not.
/// Threads: calls of different saves may come from several threads at once.
/// Example:
///   class OneFileEach : public ShardingPolicy {
///     std::string description() const override { return "Gives each tensor a file."; }
///     std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override {
///       std::vector<FilePlan> files(tensors.size());
///       for (std::size_t i = 0; i < tensors.size(); ++i) files[i].push_back({i, {}, {}});
///       return files;
///     }
///   };
class ShardingPolicy {
 public:
  virtual ~ShardingPolicy() = default;

  /// One sentence for those who read the checkpoint, or an error about one of its files.
  [[nodiscard]] virtual std::string description() const = 0;

  /// Divides what one task writes into files. What it throws fails the save.
  [[nodiscard]] virtual std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const = 0;

  /// Returns what the user should know about a result of this policy, a sentence each; for the problems of
  /// the save.
  [[nodiscard]] virtual std::vector<std::string> warnings(std::span<const ShardableTensor> tensors,
                                                          std::span<const FilePlan> files) const;

 protected:
  ShardingPolicy() = default;
  ShardingPolicy(const ShardingPolicy&) = default;
  ShardingPolicy& operator=(const ShardingPolicy&) = default;
};

/// Refuses results that add, lose, double or alter tensors, by coverage: however a policy cuts them, every element
/// that the task writes must be in exactly one part. A tensor of no elements must be there once, too.
///
/// Time:   linear for tensors that are not cut; as check_cover for those that are.
/// Errors: all name the policy, the key and the slice. Errc::overlapping_shards; Errc::incomplete_shards;
///         Errc::invalid_argument for a tensor that was not given, a box that is empty or not within what the task
///         writes, a cut through a packed type, values of another dtype or shape, an empty file, a file of several
///         tasks.
void check_policy_result(const ShardingPolicy& policy, std::span<const ShardableTensor> tensors,
                         std::span<const FilePlan> files);

/// A box of a tensor as TensorFlow writes it: the shape, then offset and extent of each dimension: "3 2 0,3:1,1".
/// Empty for a scalar.
///
/// Errors: Errc::invalid_argument when the box is not within the shape.
[[nodiscard]] std::string slice_spec(const Shape& full, const Box& box);

/// The reverse: the shape of the whole tensor, and the box. An empty text is a scalar.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::pair<Shape, Box> parse_slice_spec(std::string_view text);

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
