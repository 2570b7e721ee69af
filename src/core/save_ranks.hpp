// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/some_ranks.hpp"

#include "core/operation.hpp"
#include "core/response.hpp"
#include "core/save_files.hpp"
#include "io/internal/chunk_hash.hpp"
#include "joint/internal/joint_save.hpp"
#include "joint/internal/save_protocol.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::core {

/// Does what a save owes other ranks that save the same checkpoint. This class serves a process that saves alone: it is
/// rank 0, and does nothing.
///
/// With others, rank 0 publishes; the rest make durable what they have written, say so, and wait for its verdict. From
/// the moment at which a rank has said so rank 0 may publish, whatever happens here: this rank says nothing else than
/// rank 0, or than the disk.
///
/// Threads: `refuse`, `missing` and what is noexcept may be called from any thread; the rest by the coroutines of the
/// save. `announce_directory`, `join_directory` and `require_announced` block.
class SaveRanks {
 public:
  /// The parts of the save; they outlive this.
  struct Parts {
    Operation& operation;
    SaveFiles& files;
    joint::SaveProtocol& protocol;
  };

  /// Null `joint`: this process saves alone.
  static std::unique_ptr<SaveRanks> make(std::unique_ptr<joint::JointSave> joint, Parts parts);

  SaveRanks() = default;
  virtual ~SaveRanks() = default;
  SaveRanks(const SaveRanks&) = delete;
  SaveRanks& operator=(const SaveRanks&) = delete;

  [[nodiscard]] virtual bool is_primary() const noexcept { return true; }

  /// Stops the save when another rank fails.
  virtual void listen() {}
  /// Begins to agree with the others on what is saved, on the strand of the helpers.
  virtual void begin_to_agree() {}
  /// Returns when all save the same.
  [[nodiscard]] virtual Awaitable<> agreed() { return nothing(); }

  /// Rank 0: the directory is there.
  virtual void announce_directory() {}
  /// Returns when it is; at rank 0 at once.
  [[nodiscard]] virtual Awaitable<> hear_of_directory() { return nothing(); }
  /// The others: opens it here.
  virtual void join_directory() {}

  /// Rank 0: returns when every other rank is prepared.
  [[nodiscard]] virtual Awaitable<> collect_votes() { return nothing(); }
  /// The files of the other ranks, which they have announced.
  [[nodiscard]] virtual std::span<const store::FileEntry> others() const noexcept { return {}; }
  /// The directories in which a rank does not look for files that nobody has announced.
  [[nodiscard]] virtual std::set<std::string, std::less<>> shared_directories() const { return {}; }
  /// Rank 0: refuses files of handlers that work on all ranks which nobody has announced: they would be lost.
  virtual void require_announced(std::span<const io::FileDigest> /*digests*/) const {}
  /// Rank 0: adds to the problems that it writes most of it alone.
  virtual void judge_division() {}
  /// Rank 0: the checkpoint is durable.
  virtual void send_committed() noexcept {}

  /// The others: have made these files durable.
  virtual void prepared(std::vector<store::FileEntry> /*files*/) {}
  /// The others: does what the protocol says from `hand_over` to `fail`, and tells it how that went.
  ///
  /// Errors: when the checkpoint is not committed.
  [[nodiscard]] virtual Awaitable<> take_part() { return nothing(); }

  /// Tells the others that this rank could not begin.
  virtual void fail(const std::exception_ptr& /*why*/) noexcept {}
  /// Tells the others of a failure; returns the failure of another rank where this one is only its consequence.
  [[nodiscard]] virtual Awaitable<std::exception_ptr> end(std::exception_ptr failure);
  /// Returns whether all ranks are told this failure alike.
  [[nodiscard]] virtual bool is_of_all(const std::exception_ptr& /*failure*/) const noexcept { return false; }
  /// The save was stopped on this rank, and its commit is in this state.
  virtual void refuse(joint::CommitState::State /*state*/) noexcept {}
  /// The ranks for which this one waits, as far as it knows.
  [[nodiscard]] virtual SomeRanks missing() const { return {}; }
  virtual void stop_listening() noexcept {}
  virtual void leave() noexcept {}
};

}  // namespace cairn::core
