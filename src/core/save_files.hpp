// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "cairn/contract/checkpointable.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/core/save.hpp"

#include "async/internal/event.hpp"
#include "async/internal/gate.hpp"
#include "base/internal/mutex.hpp"
#include "contract/internal/backend.hpp"
#include "core/operation.hpp"
#include "core/save_report.hpp"
#include "io/internal/chunk_hash.hpp"
#include "joint/internal/joint_save.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/new_checkpoint.hpp"
#include "store/internal/store.hpp"
#include "store/internal/uuid.hpp"
#include "store/internal/written_files.hpp"

namespace cairn::core {

/// One checkpointable with the handler that was found for it.
struct SaveItem {
  SaveItem(Checkpointable what, Registration whose);

  /// Returns whether its handler is called on all ranks.
  [[nodiscard]] bool is_of_all_ranks() const noexcept;

  Checkpointable checkpointable;
  Registration registration;
  std::string handler_id;  ///< That is recorded.
  std::string directory;
};

/// Has what is saved, checkpointables and a path, and the files of it: handlers write them by this, and they lie in a
/// directory (or whatever the store has in its place) until that is published or abandoned.
///
/// Threads: as SaveBackend. What works in the directory enters it, and leaves it again: it is removed when all have
/// left.
class SaveFiles final : public contract::SaveBackend {
 public:
  /// `joint` is null where this process saves alone.
  SaveFiles(Operation& operation, std::filesystem::path path, std::vector<SaveItem> items,
            SaveOptions options, const joint::JointSave* joint);

  ~SaveFiles() override;
  SaveFiles(const SaveFiles&) = delete;
  SaveFiles& operator=(const SaveFiles&) = delete;

  /// Says what is saved, for failures of handlers: "/data/run/7", or "part 2 of /data/run/7".
  [[nodiscard]] std::string place() const;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const std::vector<SaveItem>& items() const noexcept { return items_; }
  [[nodiscard]] const SaveOptions& options() const noexcept { return options_; }
  [[nodiscard]] const store::Uuid& uuid() const noexcept { return uuid_; }
  [[nodiscard]] SaveReport& report() noexcept { return report_; }
  [[nodiscard]] const SaveReport& report() const noexcept { return report_; }
  [[nodiscard]] SaveProgress progress() const;
  /// Returns what rank 0 writes of what all ranks have.
  [[nodiscard]] std::uint64_t alone_bytes() const noexcept { return alone_bytes_; }
  /// Says what of a manifest publishing does not fill in; committed now.
  [[nodiscard]] store::Manifest describe() const;
  /// The options of handlers have been used for the last time.
  ///
  /// Errors: what OptionUse::end finds, such as a rule that matched nothing.
  void end_option_uses() const;

  [[nodiscard]] contract::Resources resources() noexcept override;
  [[nodiscard]] Snapshot snapshot() const noexcept override { return options_.snapshot; }
  [[nodiscard]] bool gives_copies() const noexcept override;
  [[nodiscard]] OptionUse* option_use(std::type_index type) const noexcept override;
  [[nodiscard]] contract::KeptValues& kept() const noexcept override;
  [[nodiscard]] std::shared_ptr<std::pmr::memory_resource> plan_memory() const override;
  [[nodiscard]] std::optional<coord::Channel> channel(const std::string& directory,
                                                      std::string_view what) const override;
  [[nodiscard]] std::optional<std::filesystem::path> staged_path() const override;
  [[nodiscard]] const async::Event& created() const noexcept override { return created_; }
  [[nodiscard]] io::Medium medium() const noexcept override { return medium_; }
  void claim(const std::string& relative, std::uint64_t bytes) override { written_.claim(relative, bytes); }
  void grow(std::uint64_t bytes) noexcept override { written_.grow(bytes); }
  [[nodiscard]] std::unique_ptr<io::NewFile> create_file(const std::string& relative,
                                                         const io::NewFileOptions& options) override;
  void add(io::FileDigest digest) override { written_.add(std::move(digest)); }
  void adopt_file(const std::string& relative) override;
  void record_id(const std::string& directory, std::string_view id) override;
  void add_problem(const std::string& problem) noexcept override { report_.add_problem(problem); }
  void count_problem(const std::string& words, std::uint64_t count) noexcept override {
    report_.count_problem(words, count);
  }
  void tell(const std::string& problem) noexcept override;
  [[nodiscard]] bool ranks_must_agree() const noexcept override { return options_.ranks_must_agree; }
  [[nodiscard]] std::span<const std::string> may_differ() const noexcept override {
    return options_.may_differ;
  }
  void add_policy(const std::string& description, const WorkFigures& figures) noexcept override {
    report_.add_policy(description, figures);
  }
  void note_alone(std::uint64_t bytes) noexcept override { alone_bytes_ += bytes; }

  // The following block.

  /// Looks whether the checkpoint may be saved to its path; `finds` on another rank than 0: whether it can be seen
  /// where rank 0 saves, which may still make it.
  void look(bool finds);
  /// Looks again where rank 0 saves, which has made it. Returns whether it can be seen here.
  [[nodiscard]] bool find();
  /// Null before the look; and later where rank 0 saves, and cannot be seen yet.
  [[nodiscard]] store::Destination* target() const noexcept { return target_.get(); }

  /// Keeps the directory from being removed while the visit lasts.
  ///
  /// Errors: Errc::cancelled when the save was given up, and the directory is being removed.
  [[nodiscard]] async::Gate::Visit enter() const;
  void create(store::StagedOptions options);
  void join(store::JoinOptions options);
  /// From `create` or `join` on.
  [[nodiscard]] store::NewCheckpoint& staged() const noexcept { return *staged_; }
  /// Returns the directory, if there is one, into which handlers may write past their contexts.
  [[nodiscard]] const io::Directory* directory() const noexcept { return staged_->directory(); }

  /// Errors: Errc::handler_failed when a file of the item was begun and not completed; `remark` ends the text.
  void require_complete(const SaveItem& item, std::string_view remark) const;
  /// Returns the digests of all files, sorted by path; with `finds_others` also of those that handlers have written
  /// without their context, where they do not lie in directories that `announced` names.
  [[nodiscard]] std::vector<io::FileDigest> take_digests(bool finds_others,
                                                         const std::set<std::string, std::less<>>& announced);

  /// Nobody enters any more. Returns what happens when all have left.
  const async::Event& shut() const noexcept;
  /// Removes what was made, once nobody works in it any more. May be called again.
  void abandon() noexcept;
  /// Returns what kept it from removing all; empty when nothing did.
  [[nodiscard]] std::string abandonment_problem();
  /// Closes what is open where nobody works in it any more: here, where that may take its time. Returns whether.
  bool close() noexcept;

 private:
  Operation& operation_;
  const std::chrono::system_clock::time_point started_at_;
  const std::filesystem::path path_;
  std::vector<SaveItem> items_;
  SaveOptions options_;
  const OptionSet::Uses uses_;           // Used by handlers, one at a time.
  const joint::JointSave* const joint_;  // Null: this process saves alone.
  const store::Uuid uuid_;
  SaveReport report_;
  store::WrittenFiles written_;
  std::atomic<std::uint64_t> alone_bytes_{0};
  async::Event created_;
  std::unique_ptr<store::Destination> target_;  // From the look at it on.
  io::Medium medium_ = io::Medium::disk;        // Likewise.
  async::Gate gate_;                            // Visited by what works in the directory.
  std::unique_ptr<store::NewCheckpoint> staged_;
  Mutex abandon_mutex_;  // One removes at a time.
};

}  // namespace cairn::core
