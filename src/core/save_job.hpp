// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/checkpoint_copy.hpp"
#include "core/handler_checks.hpp"
#include "core/operation.hpp"
#include "core/save_files.hpp"
#include "core/save_ranks.hpp"
#include "core/save_turn.hpp"
#include "joint/internal/joint_save.hpp"
#include "joint/internal/save_protocol.hpp"

namespace cairn::core {

class HandlerCalls;

/// A save in flight: the order of its steps. What handlers see of it is SaveFiles, and how they are called,
/// HandlerCalls; what it copies instead of asking them, CheckpointCopy; what it does because of other ranks, SaveRanks;
/// what it tells of itself, SaveReport.
class SaveJob final : public Operation {
 public:
  /// A save before it begins.
  struct Plan {
    Plan(std::filesystem::path where, std::vector<SaveItem> what, SaveOptions how, Kind who)
        : path(std::move(where)), items(std::move(what)), options(std::move(how)), kind(who) {}

    std::filesystem::path path;  ///< Absolute, as store::target_path gives it.
    std::vector<SaveItem> items;
    SaveOptions options;
    Kind kind;
    bool is_waited_for = false;  ///< By the call itself, to the end: then nothing yields to the program.
    std::unique_ptr<joint::JointSave> joint;  ///< Null: this process saves alone.
    std::filesystem::path copied;  ///< The checkpoint of which a copy is saved; empty: `items` are.
  };

  /// `begin` is when the caller called.
  SaveJob(std::shared_ptr<Services> services, Plan plan, observe::Meter::TimePoint begin);

  ~SaveJob() override;

  /// Starts the whole save, steps 1 to 8 of docs/reliability.md: the look at its target now, the rest when it is its
  /// turn.
  ///
  /// Errors: Errc::closed.
  void start();

  /// Happens when it has its place among the saves of its target and of its context, or fails: was refused after the
  /// look at its target, or ended before that.
  [[nodiscard]] const async::Event& accepted() const noexcept { return turn_.accepted(); }

  [[nodiscard]] const SaveOptions& options() const noexcept { return files_.options(); }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return files_.path(); }
  [[nodiscard]] SaveResult result() const noexcept { return files_.report().result(); }
  [[nodiscard]] SaveProgress progress() const { return files_.progress(); }

  /// Stops with Errc::superseded, unless it commits already: to end that early would only make its verdict uncertain.
  void yield_to(const SaveJob& newer);

  /// Hands its failure to the context, when nobody has waited for it: from now on nobody can.
  void let_go() noexcept override;

 private:
  // Coroutines that are members are awaited by `work`, which keeps the save.
  /// Does what the protocol says, until it has ended.
  Awaitable<> work();
  /// Looks at the target once, and takes the ticket and the place in the queue that the save has from then on. Returns
  /// when it is its turn; false for a copy that is there already.
  Awaitable<bool> take_turn();
  [[nodiscard]] Awaitable<> perform(joint::SaveProtocol::Act act);
  Awaitable<> write();
  Awaitable<> collect_votes();
  /// Also closes the checkpoint, and delivers the trace: a cancellation between them would fail a save that has
  /// committed.
  Awaitable<> publish_and_close();
  /// Makes durable what this rank has written.
  Awaitable<> prepare();
  Awaitable<> tell_failure();
  Awaitable<> abandon();
  Awaitable<> stage_all(HandlerCalls* calls);
  static Awaitable<> create_directory(std::shared_ptr<SaveJob> self);
  void make_directory();
  void ask_before_replacing() const;

  /// Returns the digests of all files, when no handler was caught after the end of its background phase.
  [[nodiscard]] std::vector<io::FileDigest> digest_files();
  void publish();
  void end_publish_step(store::PublishStep step);

  /// Cleans up after a save that has failed, once nobody works in its directory any more. Adds to its failure what
  /// went wrong here.
  void clean_up();
  /// Closes what is open, once nobody works in it any more: here, where that may take its time.
  void close_directory() noexcept;
  void count_end(const std::exception_ptr& failure) override;
  void refuse_effect() noexcept override { ranks_->refuse(protocol_.commit().stop()); }
  [[nodiscard]] SomeRanks missing_ranks() const override { return ranks_->missing(); }
  [[nodiscard]] std::exception_ptr verdict_without_end(const Error& reason) override;
  void make_way() noexcept override { turn_.leave_context(*this); }
  void clear_up() noexcept override;

  [[nodiscard]] std::shared_ptr<SaveJob> self();

  SaveTurn turn_;
  SaveFiles files_;
  joint::SaveProtocol protocol_;
  std::exception_ptr failure_;  // The first; then what it is told as.
  const std::unique_ptr<SaveRanks> ranks_;
  const std::unique_ptr<CheckpointCopy> copy_;  // Null: handlers are asked.
  std::unique_ptr<HandlerChecks> checks_;       // Null: handlers are trusted.
  std::string leftover_;  // What it could not remove, in words; set at its end, before the following.
  bool has_reported_leftover_ = false;
};

}  // namespace cairn::core
