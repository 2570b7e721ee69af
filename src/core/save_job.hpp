// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "cairn/contract/checkpointable.hpp"
#include "cairn/core/save.hpp"

#include "base/internal/mutex.hpp"
#include "contract/internal/backend.hpp"
#include "core/handler_checks.hpp"
#include "core/internal/commit_state.hpp"
#include "core/operation.hpp"
#include "io/internal/chunk_hash.hpp"
#include "joint/internal/joint_save.hpp"
#include "store/internal/held_checkpoint.hpp"
#include "store/internal/new_checkpoint.hpp"
#include "store/internal/publication_order.hpp"
#include "store/internal/store.hpp"
#include "store/internal/written_files.hpp"

namespace cairn::core {

/// One checkpointable with the handler that was found for it.
struct SaveItem {
  SaveItem(Checkpointable what, Registration who);

  Checkpointable checkpointable;
  Registration registration;
  std::string handler_id;  ///< That is recorded.
  std::string directory;
};

/// A save in flight.
class SaveJob final : public Operation, public contract::SaveBackend {
 public:
  /// A save before it begins.
  struct Plan {
    Plan(std::filesystem::path where, std::vector<SaveItem> what, SaveOptions how, Kind who)
        : path(std::move(where)), items(std::move(what)), options(std::move(how)), kind(who) {}

    std::filesystem::path path;  ///< Absolute, as store::target_path gives it.
    std::vector<SaveItem> items;
    SaveOptions options;
    Kind kind;
    bool is_waited_for =
        false;  ///< By the call itself, to the end: then nothing of it yields to the program.
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
  [[nodiscard]] const async::Event& accepted() const noexcept { return accepted_; }

  [[nodiscard]] const SaveOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  [[nodiscard]] contract::Resources resources() noexcept override;
  [[nodiscard]] Snapshot snapshot() const noexcept override { return options_.snapshot; }
  [[nodiscard]] bool gives_copies() const noexcept override { return services().options.check_handlers; }
  [[nodiscard]] OptionUse* option_use(std::type_index type) const noexcept override;
  [[nodiscard]] contract::KeptValues& kept() const noexcept override { return services().kept; }
  [[nodiscard]] std::shared_ptr<std::pmr::memory_resource> plan_memory() const override;
  [[nodiscard]] std::optional<coord::Channel> channel(const std::string& directory,
                                                      std::string_view what) const override;
  [[nodiscard]] std::optional<std::filesystem::path> staged_path() const override {
    return services().checkpoint_store().staged_path(path_, uuid_);
  }
  [[nodiscard]] const async::Event& created() const noexcept override { return created_; }
  [[nodiscard]] bool is_in_memory() const noexcept override { return is_in_memory_; }
  void claim(const std::string& relative, std::uint64_t bytes) override { files_.claim(relative, bytes); }
  void grow(std::uint64_t bytes) noexcept override { files_.grow(bytes); }
  [[nodiscard]] std::unique_ptr<io::NewFile> create_file(const std::string& relative,
                                                         const io::NewFileOptions& options) override;
  void add(io::FileDigest digest) override { files_.add(std::move(digest)); }
  void adopt_file(const std::string& relative) override;
  void record_id(const std::string& directory, std::string_view id) override;
  void add_problem(const std::string& problem) noexcept override;
  void count_problem(const std::string& words, std::uint64_t count) noexcept override;
  void add_policy(const std::string& description, const WorkFigures& figures) noexcept override;
  void note_alone(std::uint64_t bytes) noexcept override { alone_bytes_ += bytes; }

  /// Returns what a committed save has done. Does not throw, because that would say that it has not
  /// committed; without memory for a copy the process ends.
  [[nodiscard]] SaveResult result() const noexcept;
  [[nodiscard]] SaveProgress progress() const;

  /// Stops with Errc::superseded, unless it commits already: to end that early would only make its verdict uncertain.
  void yield_to(const SaveJob& newer);

  /// Hands its failure to the context, when nobody has waited for it: from now on nobody can.
  void let_go() noexcept override;

 private:
  using Backgrounds = std::vector<std::optional<Background<>>>;

  // Coroutines that are members are awaited by `work`, which keeps the save.
  Awaitable<> work();
  /// Cleans up after a failure, tells other ranks, and throws what the save ends with.
  Awaitable<> end_after(std::exception_ptr failure);
  /// Looks at the target once, and takes the ticket and the place in the queue that the save has from then on.
  /// Returns its turn.
  Awaitable<async::Event> take_ticket();
  Awaitable<> stage_all(Backgrounds* backgrounds);
  Awaitable<> stage_item(std::size_t index, Backgrounds* backgrounds);
  Awaitable<> finish_all(Backgrounds* backgrounds);
  Awaitable<> finish_item(std::size_t index, Background<> background);
  /// Throws a failure of an item as one of its handler, unless it is that of what ranks say to each other.
  [[noreturn]] void rethrow_of_item(const std::exception_ptr& failure, const SaveItem& item,
                                    Asked asked) const;
  static Awaitable<> create_directory(std::shared_ptr<SaveJob> self);

  // The following are for copies of checkpoints.
  [[nodiscard]] bool is_copy() const noexcept { return !copied_.empty(); }
  /// Opens the checkpoint, and looks at the target. Returns false when the same checkpoint is there already.
  bool look_for_copy();
  [[nodiscard]] bool is_there() const;
  Awaitable<> copy_all();
  Awaitable<> copy_files();

  // The following are for saves of several ranks.
  [[nodiscard]] bool is_primary() const noexcept { return !joint_ || joint_->is_primary(); }
  [[nodiscard]] bool takes_part(const SaveItem& item) const;
  [[nodiscard]] joint::RankValues rank_values() const;
  static Awaitable<> agree(std::shared_ptr<SaveJob> self);
  void join_directory();
  /// Waits until every other rank is prepared.
  Awaitable<> collect_votes();
  /// Takes part in the commit, on a rank other than rank 0, instead of publishing.
  Awaitable<> take_part();
  std::vector<store::FileEntry> prepare_part();
  /// Errors: when the checkpoint is not committed.
  void apply_verdict(const joint::Verdict& verdict);
  [[nodiscard]] joint::Verdict decide_alone(const std::exception_ptr& silence);
  /// Refuses files of handlers that work on all ranks which nobody has announced: they would be lost.
  void require_announced(std::span<const io::FileDigest> digests) const;
  void take_peer_failure(const std::exception_ptr& why) noexcept;
  /// Returns whether a failure of this rank may be that it misses what rank 0 has removed, because another
  /// rank has failed.
  [[nodiscard]] bool may_follow(const std::exception_ptr& failure) const;
  /// Returns what the other ranks are told of a failure of this one.
  [[nodiscard]] std::exception_ptr for_others(const std::exception_ptr& failure) const;
  /// Returns the failure of another rank where `failure` is only its consequence; else `failure`. `is_of_all` says
  /// that all ranks are told that one alike.
  Awaitable<std::exception_ptr> attribute(std::exception_ptr failure, bool is_of_all);
  void send_committed() noexcept;
  [[nodiscard]] joint::Verdict committed() const;

  /// Keeps the directory from being removed while the visit lasts.
  ///
  /// Errors: Errc::cancelled when the save was given up, and the directory is being removed.
  [[nodiscard]] async::Gate::Visit enter_directory() const;
  void make_directory();
  /// The digests of all files, also of those that handlers wrote without their context.
  [[nodiscard]] std::vector<io::FileDigest> digest_files();
  /// Says what of a manifest publishing does not fill in.
  void describe(store::Manifest& manifest) const;
  void publish();
  /// Cleans up after a save that has failed, once nobody works in its directory any more. Returns its
  /// failure, with what went wrong here.
  [[nodiscard]] std::exception_ptr clean_up(std::exception_ptr failure);
  /// Removes what was made, once nobody works in it any more. May be called again.
  void abandon() noexcept;
  /// Returns what kept it from removing all; empty when nothing did.
  [[nodiscard]] std::string abandonment_problem();
  /// Reports what could not be removed, unless its error has said so.
  void report_leftover() noexcept;
  /// Closes what is open, once nobody works in it any more: here, where that may take its time.
  void close_directory() noexcept;
  /// Errors: Errc::handler_failed when a handler was caught after the end of its background phase.
  void judge_handlers();
  void end_publish_step(store::PublishStep step);
  void measure_result() noexcept;
  /// Adds what it could not remove of what it has replaced; nothing when there is none.
  void add_unremoved(const std::string& problem) noexcept;
  /// All of that; null when there is none.
  [[nodiscard]] std::exception_ptr unremoved() const;
  /// Of a save of several ranks: what rank 0 writes alone, where that is most of it; else empty.
  [[nodiscard]] std::string alone_problem(std::uint64_t bytes) const;
  /// Fills in what is known before the checkpoint becomes visible.
  void prepare_result(std::span<const io::FileDigest> digests);
  void count_end(const std::exception_ptr& failure) override;
  void refuse_effect() noexcept override;
  [[nodiscard]] SomeRanks missing_ranks() const override { return joint_ ? joint_->missing() : SomeRanks(); }
  [[nodiscard]] std::exception_ptr verdict_without_end(const Error& reason) override;
  void make_way() noexcept override { services().saves.leave(this); }
  void clear_up() noexcept override;

  std::filesystem::path path_;
  std::vector<SaveItem> items_;
  SaveOptions options_;
  const OptionSet::Uses uses_;                       // Used by handlers, one at a time.
  std::unique_ptr<joint::JointSave> joint_;          // Null: this process saves alone.
  std::unique_ptr<HandlerChecks> checks_;            // Null: handlers are trusted.
  const std::filesystem::path copied_;               // Of a copy: the checkpoint that it is made of,
  std::unique_ptr<store::HeldCheckpoint> original_;  // which is held while the copy is made.
  std::size_t next_copied_ = 0;                      // Of its files.
  std::string started_at_;
  store::Uuid uuid_;
  std::unique_ptr<store::Destination> target_;  // From the look at it on.
  bool is_in_memory_ = false;                   // Likewise.
  std::shared_ptr<store::PublicationOrder::Ticket> ticket_;
  CommitState commit_;
  std::atomic<bool> may_be_told_a_consequence_{false};  // Of what another rank was told to stop for.
  async::Event accepted_;
  async::Event created_;
  async::Event agreed_;                   // All ranks save the same.
  std::vector<store::FileEntry> others_;  // At rank 0: the files of other ranks.
  async::Gate
      directory_gate_;  // Visited while the directory is worked in; closed when that is to be removed.
  std::unique_ptr<store::NewCheckpoint> staged_;
  Mutex abandon_mutex_;   // One removes at a time.
  std::string leftover_;  // What it could not remove, in words; set at its end, before the following.
  bool has_reported_leftover_ = false;
  store::WrittenFiles files_;
  std::atomic<std::uint64_t> alone_bytes_{0};  // That rank 0 writes of what all ranks have.

  /// A problem of the result whose text ends with a count.
  struct CountedProblem {
    std::size_t place = 0;
    std::uint64_t count = 0;
  };

  mutable Mutex mutex_;
  SaveResult result_ CAIRN_GUARDED_BY(mutex_);
  std::map<std::string, CountedProblem> counted_problems_ CAIRN_GUARDED_BY(mutex_);  // By their words.
  std::string unremoved_
      CAIRN_GUARDED_BY(mutex_);  // Of what it has replaced, in words; among the problems of the result.
};

}  // namespace cairn::core
