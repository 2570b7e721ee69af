// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/internal/mutex.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/file.hpp"
#include "io/internal/mapped_files.hpp"
#include "io/internal/new_file.hpp"
#include "store/internal/program_claim.hpp"
#include "store/internal/spare_files.hpp"

namespace cairn::store {

/// A root in a marked memory that this process fills: it has the claim, and so it alone makes new files of the memory
/// of removed ones, and keeps them mapped. Saves find it by the directory that they save into.
///
/// Every call blocks.
/// Threads: every method may be called from any thread.
class MemoryRoot {
 public:
  /// Takes the claim of a root, and makes its folder of spare files.
  ///
  /// Errors: EBUSY, which says who has it; Errc::invalid_argument: this process has it, or the root lies on no tmpfs,
  ///         or in no memory with a mark; OS errors.
  [[nodiscard]] static std::shared_ptr<MemoryRoot> claim(io::Directory root, std::uint32_t rank,
                                                         const RandomSource& random);
  /// Returns the one that this process has of a directory; null where it has none.
  [[nodiscard]] static std::shared_ptr<MemoryRoot> find(io::FileId directory);

  ~MemoryRoot();
  MemoryRoot(const MemoryRoot&) = delete;
  MemoryRoot& operator=(const MemoryRoot&) = delete;

  [[nodiscard]] const io::Directory& directory() const noexcept { return root_; }
  [[nodiscard]] const std::optional<ClaimRecord>& program_before() const noexcept { return claim_->before(); }

  /// Before anything of the root is changed for a checkpoint to come: renews the claim.
  ///
  /// Errors: as ProgramClaim::renew.
  void renew() const { claim_->renew(); }
  /// Before a checkpoint is filled: renews the claim, and looks which files there are to be used again.
  ///
  /// Errors: as ProgramClaim::renew.
  void begin();
  /// Says how many bytes of memory each of the checkpoints to come may take, spare files included, which go beyond
  /// that.
  void allow(std::uint64_t bytes) noexcept { allowed_bytes_ = bytes; }
  [[nodiscard]] std::uint64_t allowed_bytes() const noexcept { return allowed_bytes_; }
  /// Returns how many the files of the last one take; a file that was refused is one of them.
  [[nodiscard]] std::uint64_t asked_bytes() const noexcept { return asked_bytes_; }
  /// A file of so many bytes is about to be made, and spare ones give way to it.
  ///
  /// Errors: ENOSPC beyond what is allowed.
  void reserve(const std::filesystem::path& file, std::uint64_t bytes);
  /// Creates a file that is filled where it lies: of a spare one, where there is one that is large enough. Where there
  /// is no memory left, spare files give theirs back first.
  ///
  /// Errors: ENOSPC beyond what is allowed; as io::DurableFile::create.
  [[nodiscard]] std::unique_ptr<io::NewFile> create_file(io::Engine& engine, const io::Directory& directory,
                                                         std::string_view relative,
                                                         io::NewFileOptions options);
  /// Maps the files of a checkpoint of this root, and the spare ones, before a save wants them. Takes its time.
  ///
  /// Errors: OS errors.
  void warm(const std::string& checkpoint);
  /// Makes spare files of these sizes, but for small ones, and maps them, likewise. Stops where there is no memory, and
  /// when `is_over`.
  ///
  /// Errors: OS errors, but for that.
  void prepare(std::span<const std::uint64_t> sizes, const std::function<bool()>& is_over);
  /// As io::MappedFiles::make_ready.
  void make_ready() { mappings_.make_ready(); }
  /// Lets go of spare files beyond these bytes: no save will want them.
  void trim(std::uint64_t most_bytes);
  void drop_spare();
  /// Gives back the memory of files that were removed, by whomever.
  void drop_removed() { mappings_.drop_removed(); }
  [[nodiscard]] std::uint64_t spare_bytes() const { return spare_.bytes(); }
  [[nodiscard]] std::size_t mapped_files() const { return mappings_.count(); }
  /// As ProgramClaim::end.
  void end(std::optional<std::uint64_t> left_step) { claim_->end(left_step); }

 private:
  struct Table;
  void map(const io::Directory& directory, const std::string& name);
  void ask(const std::filesystem::path& file, std::uint64_t bytes);
  void make_way();
  void drop_beyond(std::uint64_t most_bytes);

  using Key = std::pair<std::uint64_t, std::uint64_t>;  // Of a FileId.

  MemoryRoot(io::Directory root, Key key, std::unique_ptr<ProgramClaim> claim, io::Directory spare,
             std::uint64_t limit_bytes);

  const io::Directory root_;
  const Key key_;
  std::unique_ptr<ProgramClaim> claim_;  // Goes while the table is locked.
  SpareFiles spare_;
  io::MappedFiles mappings_;
  std::atomic<std::uint64_t> prepared_{0};  // Names the next one.
  std::atomic<std::uint64_t> allowed_bytes_{std::numeric_limits<std::uint64_t>::max()};
  std::atomic<std::uint64_t> asked_bytes_{0};
  Mutex making_;  // Held while a spare file is being made.
};

}  // namespace cairn::store
