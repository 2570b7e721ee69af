// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cairn/core/context.hpp"
#include "cairn/core/save.hpp"
#include "cairn/training/step_directory.hpp"

#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/internal/program_claim.hpp"

namespace cairn::flash {

/// Refuses a directory that cannot be the memory of a run.
///
/// Errors: Errc::invalid_argument: it is on no tmpfs, another user's, or open to others.
void require_memory(const io::Directory& directory);

/// Refuses the memory of several ranks, which this process is not.
///
/// Errors: Errc::invalid_argument, which names both numbers.
void require_one_rank(const store::MemoryMark& mark, const std::filesystem::path& memory);

[[noreturn]] void refuse_memory(const std::filesystem::path& path, const std::string& why);

/// Whether an image lies on disk, too. What is there and cannot be read, or lacks a file, does not tell.
enum class Persisted : std::uint8_t { no, yes, unknown };
/// Looks at both without a hold: the save that comes next may want the memory of the image.
[[nodiscard]] Persisted look_whether_persisted(io::Syscalls& syscalls, const std::filesystem::path& image,
                                               const std::filesystem::path& on_disk);

/// Removes from the directory of steps what dead processes of this machine have left of steps that are called so. What
/// cannot be removed is left for `recover`.
void remove_left_on_disk(const io::Directory& root, const std::vector<StepFormat>& names) noexcept;

/// Looks at a copy now and then, on the thread that waits for it. Returns whether to stop it.
using CopyWatch = std::function<bool(const SaveProgress& progress)>;

/// The images of a run, for other programs than the one that fills them: they need no more than names and locks.
///
/// Every call blocks. Not for a process that has a FlashCheckpointer of this memory: it would lose its claim.
class RunImages {
 public:
  /// `root`: the directory of steps; empty: the one that the mark names.
  ///
  /// Errors: Errc::not_found; Errc::invalid_argument: it is no memory of this user, that of several ranks, or that of
  ///         another run than `root`; both are named.
  RunImages(const std::filesystem::path& memory, const std::filesystem::path& root, const Context& context);

  [[nodiscard]] const store::MemoryMark& mark() const noexcept { return mark_; }
  /// The directory of steps on disk.
  [[nodiscard]] const std::filesystem::path& root() const noexcept { return root_; }
  /// The newest image, sound or not, whose line of steps was not given up.
  [[nodiscard]] std::optional<std::uint64_t> newest() const;
  /// Where its images lie.
  [[nodiscard]] const std::filesystem::path& images() const noexcept { return images_.path(); }
  [[nodiscard]] std::filesystem::path image(std::uint64_t step) const;
  /// Where a step lies on disk or, if it does not, would be copied to.
  [[nodiscard]] std::filesystem::path on_disk(std::uint64_t step) const;
  /// As `refusal_of`. A damaged image has none.
  ///
  /// Errors: Errc::malformed_metadata: of the lines; OS errors.
  [[nodiscard]] std::optional<Error> refusal(std::uint64_t step) const;
  /// Returns whether the checkpoint on disk is the very image.
  [[nodiscard]] Persisted persisted(std::uint64_t step) const;
  [[nodiscard]] store::ClaimLook claim() const { return store::look_at_claim(images_); }

  /// Copies an image to disk, where it may be already; a damaged checkpoint that has its name there is set aside. It is
  /// stopped once `is_to_stop` says so, unless it is past the point of no return.
  ///
  /// Errors: as `refusal_of` says; Errc::cancelled; as copy_checkpoint.
  SaveResult persist(std::uint64_t step, const CopyWatch& is_to_stop = {}) const;
  /// Copies the newest image that is sound, if it is newer than all sound steps on disk, from which
  /// `remove_left_on_disk` comes first. Returns its step; nothing where there is none to copy. `on_passed_over`
  /// is told of each image that is damaged, or was given up.
  ///
  /// Errors: as `persist`, but for these.
  std::optional<std::uint64_t> persist_newest(
      const std::function<void(const std::exception& why)>& on_passed_over,
      const CopyWatch& is_to_stop = {}) const;

  /// What `clean` has done.
  struct Cleaned {
    std::vector<std::uint64_t> retired;
    std::vector<std::uint64_t> left;
  };
  /// Takes the claim, and gives up the images that are on disk, older than a sound step there, or of a line of steps
  /// that was given up, or all, and all
  /// memory that is kept to be used again. What somebody reads is left.
  ///
  /// Errors: EBUSY: a program fills it. OS errors.
  [[nodiscard]] Cleaned clean(bool all) const;

 private:
  const Context& context_;
  io::Syscalls& syscalls_;
  const std::filesystem::path memory_;
  const io::Directory images_;
  const store::MemoryMark mark_;
  const std::filesystem::path root_;
  const std::vector<StepFormat> names_;  // As those of the mark.
};

}  // namespace cairn::flash
