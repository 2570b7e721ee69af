// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/device.hpp"
#include "cairn/contract/any_value.hpp"
#include "cairn/contract/handler_work.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn::coord {
class Channel;
class Coordinator;
}  // namespace cairn::coord

namespace cairn {

class DeviceCopier;
namespace contract {
class LoadBackend;
}

/// Given to a handler to load or describe one checkpointable: the files that it wrote.
///
/// Everything read is verified against the checkpoint's hashes; files of foreign folders have none.
/// A context is a value that may be kept until the background phase ends. What its members return owns all
/// it needs.
/// Threads: all coroutines of one load run one at a time; so may calls on a context.
class LoadContext {
 public:
  LoadContext(std::shared_ptr<contract::LoadBackend> load, std::string name, std::string directory,
              std::string handler_id);
  LoadContext(const LoadContext&);
  LoadContext(LoadContext&&) noexcept;
  LoadContext& operator=(const LoadContext&);
  LoadContext& operator=(LoadContext&&) noexcept;
  ~LoadContext();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The id of the handler that wrote the files, as the checkpoint records it: one that is registered with aliases
  /// learns which version it reads. Empty for a foreign folder.
  [[nodiscard]] const std::string& handler_id() const noexcept { return handler_id_; }
  /// The place of its files, for messages; nothing need lie there.
  [[nodiscard]] std::filesystem::path path() const;
  /// The directory that they lie in, if they do. Files read past this class are not verified.
  [[nodiscard]] std::optional<std::filesystem::path> directory() const;
  [[nodiscard]] coord::Coordinator& coordinator() const noexcept;
  /// Where all ranks load together (LoadOptions::together) a handler talks to itself on the others here: every rank
  /// begins the same channels. Nothing where a rank loads alone, and for questions for metadata. A failure of any rank
  /// fails its rounds.
  ///
  /// Errors: Errc::invalid_argument for a channel that was begun before.
  [[nodiscard]] std::optional<coord::Channel> channel(std::string_view name) const;
  /// Returns the copier that reaches the memory of a device; null when the context has none for it.
  [[nodiscard]] DeviceCopier* copier(Device device) const noexcept;

  template <class T>
  [[nodiscard]] const T* option() const {
    return options().find<T>();
  }

  /// The files of this checkpointable, relative to it, sorted.
  [[nodiscard]] std::vector<std::string> files() const;
  /// The size of one, or nothing when there is none of that name.
  [[nodiscard]] std::optional<std::uint64_t> file_bytes(std::string_view file) const;
  /// The one whose path the caller gave; empty for a checkpoint, a checkpointable of one, and a folder.
  [[nodiscard]] const std::string& named_file() const noexcept;

  /// Reads a whole file.
  ///
  /// Errors: Errc::not_found, Errc::checksum_mismatch (naming file and chunk), OS errors.
  [[nodiscard]] Background<std::string> read_file(std::string_view file) const;

  /// Reads ranges of a file to where the pieces want them, in large parallel reads. When it fails, the
  /// destinations hold anything.
  ///
  /// Ownership: destinations are kept alive by their `owner`, or by the caller until the task has finished.
  /// Errors:    as read_file; Errc::invalid_argument when pieces overlap or reach beyond the file.
  [[nodiscard]] Background<> read_pieces(std::string_view file, std::vector<DestinationPiece> pieces) const;

  /// Reads ranges of several files, all at once. With LoadOptions::together all ranks call it for this
  /// checkpointable, in the same order, each with what it wants itself, which may be nothing: then each byte is read
  /// by one of the ranks that want it, and passed on.
  ///
  /// Ownership and Errors: as read_pieces; Errc::peer_failed when another rank has failed. Those about a missing or
  /// damaged file say what
  ///                       is noted of it.
  [[nodiscard]] Background<> read_files(PiecesByFile pieces, NotesByFile notes) const;
  [[nodiscard]] Background<> read_files(PiecesByFile pieces) const;

  /// Maps a file into memory: nothing is read before it is looked at, and nothing is verified. Null where files cannot
  /// be mapped: they are read then. Blocks for as long as opening a file takes. Who makes the file shorter while the
  /// result lives ends the program (SIGBUS).
  ///
  /// Errors: Errc::not_found; Errc::io_failure when the file is shorter than recorded; OS errors.
  [[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map_file(std::string_view file) const;

  /// Runs `work` on a worker thread, concurrently with the other coroutines of this load: for long computations.
  [[nodiscard]] Background<> run(HandlerWork work) const;

  /// Tells the user, in LoadResult::problems, what should be known of a load that succeeds. A question for metadata
  /// tells nobody.
  void add_problem(const std::string& problem) const;
  /// Tells the user, in LoadResult::missing and unexpected, what was wanted and is not stored, and what is stored and
  /// was left out: by their paths in this checkpointable. For differences that an option allows.
  void add_differences(std::vector<std::string> missing, std::vector<std::string> unexpected) const;

 private:
  [[nodiscard]] const OptionSet& options() const noexcept;

  std::shared_ptr<contract::LoadBackend> load_;
  std::string name_;
  std::string directory_;  // Relative to the checkpoint; empty for a foreign folder.
  std::string handler_id_;
};

}  // namespace cairn
