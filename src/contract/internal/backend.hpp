// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "cairn/contract/any_value.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/observe/report.hpp"
#include "cairn/staging/pieces.hpp"

#include "async/internal/event.hpp"
#include "contract/internal/devices.hpp"
#include "contract/internal/kept_values.hpp"
#include "io/internal/chunk_hash.hpp"
#include "io/internal/new_file.hpp"
#include "staging/internal/data_plane.hpp"
#include "store/internal/source.hpp"

// What the contexts that handlers are given have of the operation that calls them. Operations implement it; contexts
// know no more of them, so that handlers can be built, and tested, without anything that runs them.
//
// Ownership: contexts share the operation, which lives until the last of them is gone.
// Threads:   the coroutines of one operation run one at a time; functions that block are called on threads that may.

namespace cairn::contract {

/// The resources that a save or a load has of its context, and how it reaches the disk.
struct Resources {
  staging::DataPlane& plane;
  coord::Coordinator& coordinator;
  const Devices& devices;
  const OptionSet& options;  ///< Of handlers, as the caller has set them.
};

/// A save, as the handlers of its checkpointables see it. Files have their paths in the checkpoint.
class SaveBackend {
 public:
  virtual ~SaveBackend() = default;

  [[nodiscard]] virtual Resources resources() noexcept = 0;
  [[nodiscard]] virtual Snapshot snapshot() const noexcept = 0;
  /// Returns whether handlers are given copies of the values, which nobody may touch in the background.
  [[nodiscard]] virtual bool gives_copies() const noexcept = 0;
  /// Returns what this save remembers of an option; null without it.
  [[nodiscard]] virtual OptionUse* option_use(std::type_index type) const noexcept = 0;
  [[nodiscard]] virtual KeptValues& kept() const noexcept = 0;
  [[nodiscard]] virtual std::shared_ptr<std::pmr::memory_resource> plan_memory() const = 0;
  /// Returns what the handlers of a checkpointable say to each other; nothing where only one of them is
  /// called.
  [[nodiscard]] virtual std::optional<coord::Channel> channel(const std::string& directory,
                                                              std::string_view what) const = 0;

  /// The directory being written, if there is one; its path is known from the start, it exists once `created` has
  /// happened.
  [[nodiscard]] virtual std::optional<std::filesystem::path> staged_path() const = 0;
  [[nodiscard]] virtual const async::Event& created() const noexcept = 0;
  /// Returns whether its files lie in memory, and may be filled there.
  [[nodiscard]] virtual io::Medium medium() const noexcept { return io::Medium::disk; }

  /// Reserves a file's name, and counts its bytes.
  ///
  /// Errors: Errc::already_exists.
  virtual void claim(const std::string& relative, std::uint64_t bytes) = 0;
  /// Counts bytes of a file that were not known when its name was claimed.
  virtual void grow(std::uint64_t bytes) noexcept = 0;
  /// Creates a file of the new checkpoint. Blocks.
  ///
  /// Errors: Errc::cancelled when the save was given up, and its directory is being removed.
  [[nodiscard]] virtual std::unique_ptr<io::NewFile> create_file(const std::string& relative,
                                                                 const io::NewFileOptions& options) = 0;
  /// Enters a file that is written, hashed and synced.
  virtual void add(io::FileDigest digest) = 0;
  /// Hashes and syncs a file that was written past the context, and enters it. Blocks.
  ///
  /// Errors: as `create_file`; Errc::not_found; Errc::handler_failed when it is still being written.
  virtual void adopt_file(const std::string& relative) = 0;

  /// Records an id in place of the handler's own, for the checkpointable in `directory`.
  ///
  /// Errors: Errc::invalid_argument for one that is not the handler's.
  virtual void record_id(const std::string& directory, std::string_view id) = 0;

  /// Keeps a problem that does not harm the checkpoint, for the result.
  virtual void add_problem(const std::string& problem) noexcept = 0;
  /// Adds to the count of a problem that is told once.
  virtual void count_problem(const std::string& words, std::uint64_t count) noexcept = 0;
  /// Tells the program of a problem aloud, too, which may not look at the result.
  virtual void tell(const std::string& problem) noexcept { add_problem(problem); }
  /// Returns whether values that are not sharded must be the same on all ranks.
  [[nodiscard]] virtual bool ranks_must_agree() const noexcept { return false; }
  /// Returns the patterns of leaves that may differ between ranks.
  [[nodiscard]] virtual std::span<const std::string> may_differ() const noexcept { return {}; }
  /// Adds to what a sharding policy has made.
  virtual void add_policy(const std::string& description, const WorkFigures& figures) noexcept = 0;
  /// Adds to what rank 0 writes alone.
  virtual void note_alone(std::uint64_t bytes) noexcept = 0;
};

/// A load, or a question for metadata, as handlers see it.
class LoadBackend {
 public:
  virtual ~LoadBackend() = default;

  [[nodiscard]] virtual Resources resources() noexcept = 0;
  [[nodiscard]] virtual const store::Source& source() const noexcept = 0;
  /// Returns whether what is read is compared with the checkpoint's hashes.
  [[nodiscard]] virtual bool verifies() const noexcept = 0;
  /// Returns what ranks say to each other about what handlers read of a checkpointable next; nothing where
  /// each rank reads for itself.
  [[nodiscard]] virtual std::optional<coord::Channel> next_reading(const std::string& directory) = 0;
  /// Returns the ranks among which each byte is read once, this one included; none: all ranks.
  [[nodiscard]] virtual std::span<const std::uint32_t> group() const noexcept = 0;
  /// Returns what the handlers of a checkpointable say to each other; nothing where each rank loads alone.
  [[nodiscard]] virtual std::optional<coord::Channel> channel(const std::string& directory,
                                                              std::string_view what) const = 0;
  /// Enters a file that is read from.
  virtual void count_file(const std::string& relative) = 0;
  /// Keeps a problem for the result, where there will be one.
  virtual void add_problem(const std::string& problem) noexcept = 0;
  /// Keeps what a checkpointable lacks, and has more than was wanted, for the result.
  virtual void add_differences(const std::string& name, std::vector<std::string> missing,
                               std::vector<std::string> unexpected) = 0;
};

}  // namespace cairn::contract
