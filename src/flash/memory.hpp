// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/base/error.hpp"
#include "cairn/training/step_directory.hpp"

#include "base/internal/mutex.hpp"
#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/memory_root.hpp"
#include "store/internal/uuid.hpp"
#include "training/internal/step_lines.hpp"

namespace cairn::flash {

/// Where the images of a memory lie: those of its only rank.
inline constexpr std::string_view kRankName = "r00000";

/// Returns the name of the run whose steps lie in a directory; nothing where it has none.
///
/// Errors: OS errors.
[[nodiscard]] std::optional<std::string> run_in(const io::Directory& steps);

/// A checkpoint in memory.
struct Image {
  std::uint64_t step = 0;
  std::uint64_t line = 0;   ///< Of steps: see training::StepLines.
  std::uint64_t bytes = 0;  ///< Of memory that its files take.
  bool is_damaged =
      false;  ///< A load or a copy has found that, or its manifest cannot be read; or it was given up.
  bool is_given_up = false;  ///< With its line, and it is read yet.
  bool is_on_disk = false;   ///< Or a newer step is.
  bool is_wanted = false;    ///< It is being persisted.
};

/// Returns why nobody goes on from an image: Errc::superseded where its line of steps was given up,
/// Errc::invalid_argument where nobody knows that line. Nothing for an image that counts.
[[nodiscard]] std::optional<Error> refusal_of(const training::StepLines& lines, std::uint64_t line,
                                              std::uint64_t step, const std::filesystem::path& path);

/// Returns which image gives way to the next; nothing when none may. A damaged one is the first; else it is the oldest,
/// but not the newest that is sound, nor one that is wanted. With room for one only, that may go when it is on disk, or
/// `may_lose_the_only_one`. `images` are sorted by their steps.
[[nodiscard]] std::optional<std::size_t> image_to_retire(std::span<const Image> images, bool has_room_for_one,
                                                         bool may_lose_the_only_one);

/// The directory in memory of a run, and the images of this rank in it.
///
/// Every call may block shortly.
/// Threads: every method may be called from any thread.
class Memory {
 public:
  struct Options {
    Options() = default;

    std::filesystem::path memory;
    std::filesystem::path root;  ///< On disk; made where it is missing.
    std::uint64_t limit_bytes = 0;
    StepDirectoryOptions names;  ///< Of the steps on disk.
    bool may_lose_the_only_image = false;
  };

  /// Opens it, or makes it, and takes the claim of the rank's root. What was not finished there goes.
  ///
  /// Errors: as FlashCheckpointer.
  Memory(Options options, io::Syscalls& syscalls, store::RandomSource random);

  /// Has the mark say what this program says: of its root, its limit and its names, which an agent goes by.
  ///
  /// Errors: OS errors.
  void renew_mark() const;

  [[nodiscard]] std::filesystem::path path(std::uint64_t step) const;
  [[nodiscard]] const std::filesystem::path& root() const noexcept { return path_; }
  /// Sorted by their steps.
  [[nodiscard]] std::vector<Image> images() const;
  /// The newest that is not known to be damaged.
  [[nodiscard]] std::optional<std::uint64_t> latest() const;
  /// The same, looked at: nobody has removed it.
  ///
  /// Errors: OS errors.
  [[nodiscard]] std::optional<std::uint64_t> newest_there() const;
  [[nodiscard]] bool has(std::uint64_t step) const;
  /// As `has`, of an image that is not known to be damaged.
  [[nodiscard]] bool has_sound(std::uint64_t step) const;

  /// False when somebody has removed it: nothing is saved there from then on.
  ///
  /// Errors: Errc::invalid_argument: another directory has its name by now; it is named.
  [[nodiscard]] bool is_there() const;
  /// Another program may have taken the claim that this one has let go of: then no image is retired, either.
  ///
  /// Errors: EBUSY, which says who has it; OS errors.
  void renew() const { root_->renew(); }
  /// Others may have taken memory, so that there was room for one image, and have given it back since.
  void look_for_room();
  /// Makes room for the image of a step, which takes `wanted` bytes at least; a damaged one that has its name goes.
  /// False when none may give way.
  [[nodiscard]] bool make_room(std::uint64_t step, std::uint64_t wanted);
  /// There was no memory for it. Where it is the limit that it has reached, `wanted` says by how much; else there is
  /// room for one image from here on. False when there is no use in making more room.
  [[nodiscard]] bool may_fit_yet(std::uint64_t& wanted);

  /// Enters the lines of steps of the root. Gives up the images of lines that were left before they were made, but for
  /// those that somebody reads, and returns a sentence on each.
  ///
  /// Errors: Errc::invalid_argument: one is of a line that nobody knows; then none is given up.
  [[nodiscard]] std::vector<std::string> enter(const training::StepLines& lines);
  /// The line of the next image.
  [[nodiscard]] std::uint64_t line() const;

  /// Maps the images before their memory is wanted again, the oldest first, and what the next save may take.
  void warm() noexcept;
  /// Makes memory for as many images with files of these sizes as there is none for, until `is_over`.
  void prepare(std::span<const std::uint64_t> sizes, const std::function<bool()>& is_over) noexcept;
  /// Has all that is mapped ready to be filled and read, as io::MappedFiles::make_ready.
  void make_ready() noexcept { root_->make_ready(); }
  /// An image is complete. Where nobody can look at it, it takes `bytes`.
  void add(std::uint64_t step, std::uint64_t bytes);
  /// Says something of an image; of one that is gone it says nothing.
  void set(std::uint64_t step, bool Image::*what, bool is_so = true);
  /// A sound image is being persisted. False when there is none of that step.
  [[nodiscard]] bool want(std::uint64_t step);
  /// A step is on disk: no older image is wanted there any more.
  void set_on_disk(std::uint64_t step);
  /// Gives up an image. False when somebody reads it.
  [[nodiscard]] bool retire(std::uint64_t step);
  /// Gives up the memory that is kept to be used again.
  void drop_spare();
  /// Images that nobody reads, or begins to read, as long as this is there.
  using HeldImages = std::map<std::uint64_t, store::CheckpointLock>;
  /// Holds the images above a step.
  ///
  /// Errors: EBUSY when somebody reads one.
  [[nodiscard]] HeldImages hold_above(std::uint64_t step) const;
  /// Gives up images that were held.
  void retire(HeldImages held);
  /// The program ends in order, and leaves a step to be persisted, if it does.
  void end(std::optional<std::uint64_t> left_step) { root_->end(left_step); }

 private:
  void find_images() CAIRN_REQUIRES(mutex_);
  void allow_rest() CAIRN_REQUIRES(mutex_);
  /// False when somebody reads it.
  [[nodiscard]] bool try_retire(std::uint64_t step) CAIRN_REQUIRES(mutex_);
  void remove(std::uint64_t step) CAIRN_REQUIRES(mutex_);
  void mark(std::uint64_t step, bool Image::*what, bool is_so) CAIRN_REQUIRES(mutex_);
  [[nodiscard]] std::size_t most_images(std::uint64_t wanted = 0) const CAIRN_REQUIRES(mutex_);

  const Options options_;
  io::Syscalls& syscalls_;
  const store::RandomSource random_;
  const std::filesystem::path path_;  // Of the rank's root.
  const std::shared_ptr<store::MemoryRoot> root_;
  mutable Mutex mutex_;
  std::vector<Image> images_ CAIRN_GUARDED_BY(mutex_);
  training::StepLines lines_ CAIRN_GUARDED_BY(mutex_);
  bool has_room_for_one_ CAIRN_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn::flash
