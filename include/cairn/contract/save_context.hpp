// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/device.hpp"
#include "cairn/contract/any_value.hpp"
#include "cairn/contract/file_stream.hpp"
#include "cairn/contract/handler_work.hpp"
#include "cairn/observe/report.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn::coord {
class Channel;
class Coordinator;
}  // namespace cairn::coord

namespace cairn {

class DeviceCopier;
namespace contract {
class SaveBackend;
}

/// Given to a handler to save one checkpointable: a directory of its own and the means to fill it.
///
/// A context is a value that may be kept until the background phase ends. What its members return can be
/// returned from a handler as it is: it owns all it needs.
/// Threads: all coroutines of one save run one at a time; so may calls on a context.
class SaveContext {
 public:
  SaveContext(std::shared_ptr<contract::SaveBackend> save, std::string name, std::string directory);
  SaveContext(const SaveContext&);
  SaveContext(SaveContext&&) noexcept;
  SaveContext& operator=(const SaveContext&);
  SaveContext& operator=(SaveContext&&) noexcept;
  ~SaveContext();

  /// The checkpointable's name.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The directory that its files go to; nothing where the checkpoint is not written in a directory. It may not exist
  /// before `directory_created` has finished. A handler may write regular files there itself, also in
  /// sub-directories; when its background phase ends, they must be complete. They are read once more, hashed and
  /// synced before the commit; one whose size changes then fails the save.
  [[nodiscard]] std::optional<std::filesystem::path> directory() const;
  [[nodiscard]] Background<> directory_created() const;

  [[nodiscard]] Snapshot snapshot() const noexcept;
  [[nodiscard]] coord::Coordinator& coordinator() const noexcept;
  /// A handler that saves on all ranks (Participation::all) talks to itself on the others here: every rank begins the
  /// same channels. Nothing in a job of one rank, and where rank 0 saves alone. A failure of any rank fails its
  /// rounds.
  ///
  /// Errors: Errc::invalid_argument for a channel that was begun before.
  [[nodiscard]] std::optional<coord::Channel> channel(std::string_view name) const;
  /// Returns the copier that reaches the memory of a device; null when the context has none for it.
  [[nodiscard]] DeviceCopier* copier(Device device) const noexcept;

  /// The caller's options of this type, or null.
  template <class T>
  [[nodiscard]] const T* option() const {
    return options().find<T>();
  }

  /// Returns what this save remembers of the caller's options of this type; null without such options. All
  /// handlers of the save have the same, one after the other.
  template <class T>
  [[nodiscard]] typename T::Use* use() const {
    return static_cast<typename T::Use*>(use(typeid(T)));
  }

  /// Writes a whole file, checksummed on the way. `file` is relative to the checkpointable: sub-directories in it are
  /// made.
  ///
  /// Phase:  call it in either; the returned part belongs to the background, and must be awaited there: a save whose
  ///         handler forgets one fails with Errc::handler_failed.
  /// Errors: Errc::already_exists when the file was written before; Errc::invalid_argument for a name that is not a
  ///         plain relative path, or lies more than 100 directories deep, and above 4 GiB, which
  ///         LoadContext::read_file does not read (write_pieces has no such limit); OS errors.
  [[nodiscard]] Background<> write_file(std::string_view file, std::string text) const;
  [[nodiscard]] Background<> write_file(std::string_view file, std::vector<std::byte> bytes) const;
  /// The same for bytes that `owner` keeps alive.
  [[nodiscard]] Background<> write_file(std::string_view file, std::span<const std::byte> bytes,
                                        std::shared_ptr<const void> owner) const;

  /// Writes a file whose bytes lie in many places: large arrays without an extra copy, small ones in large
  /// writes. Bytes that no piece covers are zero.
  ///
  /// Phase:     the outer awaitable is for the blocking phase; with Snapshot::copy it has read all pieces when it is
  ///            done, but for those that say otherwise (SourcePiece::snapshot). It returns the background part, to be
  ///            awaited as that of write_file.
  /// Ownership: pieces keep their memory alive through `owner`, or the caller does until `staged` (copy) or
  ///            `committed` (borrow, share).
  /// Errors:    Errc::invalid_argument when pieces overlap or reach beyond the file.
  [[nodiscard]] Awaitable<Background<>> write_pieces(std::string_view file, std::vector<SourcePiece> pieces,
                                                     std::uint64_t file_bytes) const;

  /// Begins a file whose size is not known yet; see FileStream.
  ///
  /// Phase:  either; what it is written with belongs to the background.
  /// Errors: Errc::already_exists and Errc::invalid_argument as write_file.
  [[nodiscard]] FileStream stream_file(std::string_view file) const;

  /// Announces a file that the handler has written itself, past this; it is hashed and synced. A handler that saves
  /// on all ranks must announce such files, each once, on the rank that wrote it; others may.
  ///
  /// Phase:  background; the file is complete.
  /// Errors: Errc::already_exists when it was announced, or written by this; Errc::not_found; Errc::handler_failed
  ///         when it grows or shrinks meanwhile; OS errors.
  [[nodiscard]] Background<> adopt_file(std::string_view file) const;

  /// Memory for what a handler must plan while the caller waits: large blocks are kept by the context and used again
  /// by the next save, which spares it the making of pages.
  ///
  /// Threads: may be used by several at once; what is allocated may outlive this context.
  [[nodiscard]] std::shared_ptr<std::pmr::memory_resource> plan_memory() const;

  /// Runs `work` on a worker thread, concurrently with the other coroutines of this save: for long computations.
  /// While it runs, memory of the caller's that the phase may use is not given back; afterwards it does not begin.
  [[nodiscard]] Background<> run(HandlerWork work) const;

  /// Returns what an earlier save of this checkpointable has left for later ones by `keep`, in the same
  /// context; null when nothing: what ranks have agreed on, say. It may be forgotten at any time.
  template <class T>
  [[nodiscard]] std::shared_ptr<const T> kept() const {
    return std::static_pointer_cast<const T>(kept(typeid(T)));
  }
  /// Leaves something for later saves; replaces what was kept of this type.
  template <class T>
  void keep(std::shared_ptr<const T> value) const {
    keep(typeid(T), std::move(value));
  }

  /// Has the checkpoint record this id, one of the handler's other_ids, in place of `id`; its own one undoes that. Of a
  /// handler that saves on all ranks, that of rank 0 counts.
  ///
  /// Phase:  either.
  /// Errors: Errc::invalid_argument for another id.
  void record_id(std::string_view id) const;

  /// Tells the user, in SaveResult::problems of this rank, what does not harm the checkpoint but should be known.
  void add_problem(const std::string& problem) const;
  /// The same for what is counted over the whole save: problems of the same words are one, with the sum of their
  /// counts behind it.
  void count_problem(const std::string& words, std::uint64_t count) const;
  /// As add_problem, and tells ContextOptions::on_problem: for what must be known once, and nobody may look for.
  void tell(const std::string& problem) const;
  /// As SaveOptions.
  [[nodiscard]] bool ranks_must_agree() const noexcept;
  [[nodiscard]] std::span<const std::string> may_differ() const noexcept;
  /// Counts bytes that rank 0 of several writes alone, of what all ranks have. Where they are more than half of the
  /// save, the problems of its result say so.
  void note_alone(std::uint64_t bytes) const;
  /// Adds what the handler has measured itself to the figures of this save (Report::works).
  void add_work(Work work, const WorkFigures& figures) const;
  /// Adds what a sharding policy has made, which describes itself so (SaveResult::policies), and counts it as
  /// Work::divide.
  void add_policy(const std::string& description, const WorkFigures& figures) const;

 private:
  [[nodiscard]] const OptionSet& options() const noexcept;
  [[nodiscard]] OptionUse* use(std::type_index type) const;
  [[nodiscard]] std::shared_ptr<const void> kept(std::type_index type) const;
  void keep(std::type_index type, std::shared_ptr<const void> value) const;
  /// Where a file lies in the checkpoint.
  ///
  /// Errors: Errc::invalid_argument.
  [[nodiscard]] std::string place_of(std::string_view file) const;
  /// Reserves the name of a text of that size; returns where it lies.
  [[nodiscard]] std::string claim(std::string_view file, std::size_t bytes) const;

  std::shared_ptr<contract::SaveBackend> save_;
  std::string name_;
  std::string directory_;  // Relative to the checkpoint.
};

}  // namespace cairn
