// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/step_directory.hpp"

#include <system_error>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "api/internal/look.hpp"
#include "api/internal/remove.hpp"
#include "base/internal/mutex.hpp"
#include "core/internal/disk_calls.hpp"
#include "core/internal/paths.hpp"
#include "io/internal/file.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/listing.hpp"
#include "store/internal/manifest.hpp"
#include "store/internal/trash.hpp"
#include "training/internal/annotations.hpp"
#include "training/internal/pins.hpp"
#include "training/remover.hpp"
#include "training/root.hpp"

namespace cairn {
namespace {

/// A step that was found or saved.
struct Known {
  std::string name;         ///< What it is opened by.
  std::string entry;        ///< What its directory is called.
  bool is_alone = false;    ///< As NamedCheckpoint; not once this process has saved it again.
  std::uint64_t inode = 0;  ///< As NamedCheckpoint.
  std::optional<store::ManifestFacts> facts;  ///< Once they were read.
  Metrics metrics;                            ///< Likewise.
  std::string problem;                        ///< Likewise.
  [[nodiscard]] bool is_read() const { return facts.has_value() || !problem.empty(); }

  void forget_manifest() {
    facts.reset();
    metrics.clear();
    problem.clear();
  }
};

using Names = std::vector<store::NamedCheckpoint>;
using KnownSteps = std::map<std::uint64_t, Known>;
using SteadyTime = std::chrono::steady_clock;

void read_manifest(const io::Directory& root, Known& known) {
  store::CommitCheck check = store::check_commit(root, known.entry, false);
  if (!check.is_committed || !check.facts) {
    known.problem = check.problem.empty() ? fmt::format("{}: its manifest cannot be read", known.name)
                                          : std::move(check.problem);
    return;
  }
  const std::string path = (root.path() / known.entry / store::kManifestName).string();
  try {
    known.metrics = training::notes_of(check.facts->annotations, path).metrics;
    known.facts = std::move(check.facts);
  } catch (const Error& error) {
    known.problem = error.what();
  }
}

StepInfo info_of(const std::filesystem::path& root, std::uint64_t step, const Known& known, bool is_pinned) {
  StepInfo info;
  info.step = step;
  info.path = root / known.name;
  info.is_pinned = is_pinned;
  info.problem = known.problem;
  if (known.facts) {
    info.committed = known.facts->commit_time;
    info.bytes = known.facts->bytes;
    info.metrics = known.metrics;
  }
  return info;
}

/// Takes the lock of a checkpoint, for which it waits a while; not held where somebody else kept it for longer.
store::CheckpointLock wait_for_lock(const io::Directory& root, const std::string& entry, const Clock& clock) {
  for (store::LockWait waiting(clock);;) {
    store::CheckpointLock checkpoint_lock(root, entry);
    if (checkpoint_lock.is_held() || !root.status(entry) || !waiting.wait()) {
      return checkpoint_lock;
    }
  }
}

/// Returns what tells a checkpoint from another one in the same place; empty where it has no COMMIT, or none to read.
///
/// Errors: OS errors, which say nothing of the checkpoint.
std::string identity_of(const io::Directory& root, const std::string& entry) {
  constexpr std::size_t kMostBytes = 4096;
  try {
    return io::read_small_file(root.open_directory(entry), store::kCommitName, kMostBytes);
  } catch (const Error& error) {
    if (error.code().category() != cairn_category() && error.code() != Errc::not_found &&
        error.code() != std::errc::permission_denied) {
      throw;
    }
    return "";
  }
}

}  // namespace

struct StepDirectory::State {
  State(const std::filesystem::path& where, StepDirectoryOptions how, const Context& context)
      : root(core::absolute_path(where)),
        held_root(std::make_shared<const training::Root>(root, context.options().syscalls)),
        options(std::move(how)),
        clock(training::clock_of(context)) {}

  /// Nothing when it is yet to be made.
  [[nodiscard]] std::optional<io::Directory> open_root() const { return held_root->open(); }

  [[nodiscard]] std::optional<std::uint64_t> parse(std::string_view name) const {
    std::optional<std::uint64_t> step = options.format.parse(name);
    for (auto other = options.also_read.begin(); !step && other != options.also_read.end(); ++other) {
      step = other->parse(name);
    }
    return step;
  }

  /// Returns the names on the disk now. `before`: what it has returned before, of which only what has changed since is
  /// looked at.
  [[nodiscard]] Names list_names(const Names& before) const {
    const std::optional<io::Directory> directory = open_root();
    return directory ? store::list_names(*directory, before) : Names();
  }

  [[nodiscard]] KnownSteps steps_of(const Names& listing) const {
    KnownSteps found;
    for (const store::NamedCheckpoint& each : listing) {
      const std::optional<std::uint64_t> step = parse(each.name);
      if (!step) {
        continue;
      }
      Known one;
      one.name = each.name;
      one.entry = each.entry;
      one.is_alone = each.is_alone;
      one.inode = each.inode;
      const auto [other, is_first] = found.try_emplace(*step, std::move(one));
      if (!is_first) {
        throw Error(Errc::already_exists, fmt::format("step {} of {} exists twice: '{}' and '{}'", *step,
                                                      root.string(), other->second.name, one.name));
      }
    }
    return found;
  }

  /// A list that is older than a change which this process has made is not believed: it may lack what was saved, or
  /// hold what was removed.
  void list_again(bool keeps_manifests) {
    for (;;) {
      std::uint64_t before = 0;
      auto listed_before = std::make_shared<const Names>();
      {
        const MutexLock lock(mutex);
        before = changes;
        listed_before = keeps_manifests ? names : listed_before;
      }
      auto now = std::make_shared<const Names>(list_names(*listed_before));
      KnownSteps found = steps_of(*now);
      const MutexLock lock(mutex);
      names = std::move(now);
      if (changes != before) {
        continue;
      }
      for (auto& [step, one] : found) {
        const auto same = known.find(step);
        if (keeps_manifests && same != known.end() && same->second.entry == one.entry &&
            same->second.inode == one.inode && same->second.problem.empty()) {
          const bool is_alone = one.is_alone;
          one = std::move(same->second);
          one.is_alone = is_alone;
        }
      }
      known = std::move(found);
      listed = SteadyTime::now();
      publish_numbers();
      return;
    }
  }

  /// Returns what the directory of a step is called; empty when it is not known.
  [[nodiscard]] std::string entry_of(std::uint64_t step) const {
    const MutexLock lock(mutex);
    const auto found = known.find(step);
    return found == known.end() ? "" : found->second.entry;
  }

  [[nodiscard]] bool pin(const io::Directory& directory, std::uint64_t step, const std::string& entry) const;

  /// Returns what the last list has said of what lies beside a step, if it was made a moment ago.
  [[nodiscard]] store::Surroundings surroundings_of(std::uint64_t step) const {
    constexpr std::chrono::seconds kMoment{60};
    const MutexLock lock(mutex);
    const auto found = known.find(step);
    const bool is_alone =
        found != known.end() && found->second.is_alone && SteadyTime::now() - listed < kMoment;
    return is_alone ? store::Surroundings::alone : store::Surroundings::unknown;
  }

  /// Returns what the directory of a step is called that was overwritten: another one, where names cannot be
  /// exchanged. Empty when nobody can tell now; then the next list does.
  [[nodiscard]] std::string look_for_entry(const std::string& name) const {
    try {
      const std::optional<io::Directory> directory = open_root();
      return directory ? store::CommittedDirectory::open(directory->syscalls(), root / name).path().filename()
                       : std::filesystem::path();
    } catch (const Error&) {
      return "";
    }
  }

  /// Describes steps, whose manifests are read without the lock: a disk that does not answer keeps nobody else waiting.
  [[nodiscard]] std::vector<StepInfo> look(const io::Directory& directory, KnownSteps steps,
                                           bool with_manifests, const std::set<std::uint64_t>& pins) {
    std::vector<StepInfo> infos;
    infos.reserve(steps.size());
    for (auto& [step, each] : steps) {
      if (with_manifests && !each.is_read()) {
        read_manifest(directory, each);
      }
      infos.push_back(info_of(root, step, each, pins.contains(step)));
    }
    if (with_manifests) {
      const MutexLock lock(mutex);
      for (auto& [step, each] : steps) {
        const auto now = known.find(step);
        if (now != known.end() && now->second.entry == each.entry && !now->second.is_read()) {
          now->second = std::move(each);
        }
      }
    }
    return infos;
  }

  void publish_numbers() CAIRN_REQUIRES(mutex) {
    auto all = std::make_shared<std::vector<std::uint64_t>>();
    all->reserve(known.size());
    for (const auto& [step, ignored] : known) {
      all->push_back(step);
    }
    numbers = std::move(all);
  }

  const std::filesystem::path root;
  const std::shared_ptr<const training::Root> held_root;
  const StepDirectoryOptions options;
  const Clock& clock;
  const std::shared_ptr<store::Trash> trash = std::make_shared<store::Trash>();

  mutable Mutex mutex;
  KnownSteps known CAIRN_GUARDED_BY(mutex);
  std::shared_ptr<const Names> names CAIRN_GUARDED_BY(mutex) =
      std::make_shared<const Names>();  // As the last list has found them.
  SteadyTime::time_point listed CAIRN_GUARDED_BY(mutex);
  std::uint64_t changes CAIRN_GUARDED_BY(mutex) = 0;  // That `add` and `forget` have made.
  Steps numbers CAIRN_GUARDED_BY(mutex) = std::make_shared<const std::vector<std::uint64_t>>();
};

StepDirectory::StepDirectory(const std::filesystem::path& root, StepDirectoryOptions options,
                             const Context& context)
    : state_(std::make_unique<State>(root, std::move(options), context)) {
  reload();
}

StepDirectory::~StepDirectory() = default;
StepDirectory::StepDirectory(StepDirectory&&) noexcept = default;

const std::filesystem::path& StepDirectory::root() const noexcept {
  return state_->root;
}

const std::shared_ptr<const training::Root>& StepDirectory::held_root() const noexcept {
  return state_->held_root;
}

void StepDirectory::reload() {
  state_->list_again(false);
}

void StepDirectory::refresh() {
  state_->list_again(true);
}

StepDirectory::Steps StepDirectory::steps() const {
  const MutexLock lock(state_->mutex);
  return state_->numbers;
}

bool StepDirectory::has(std::uint64_t step) const {
  const MutexLock lock(state_->mutex);
  return state_->known.contains(step);
}

std::optional<std::uint64_t> StepDirectory::latest() const {
  const MutexLock lock(state_->mutex);
  return state_->known.empty() ? std::nullopt : std::optional(state_->known.rbegin()->first);
}

std::filesystem::path StepDirectory::path(std::uint64_t step) const {
  const MutexLock lock(state_->mutex);
  const auto found = state_->known.find(step);
  return state_->root /
         (found == state_->known.end() ? state_->options.format.name(step) : found->second.name);
}

std::filesystem::path StepDirectory::entry(std::uint64_t step) const {
  const std::string entry = state_->entry_of(step);
  return entry.empty() ? path(step) : state_->root / entry;
}

StepInfo StepDirectory::info(std::uint64_t step) const {
  const std::optional<io::Directory> directory = state_->open_root();
  KnownSteps known;
  {
    const MutexLock lock(state_->mutex);
    if (const auto found = state_->known.find(step); found != state_->known.end()) {
      known.insert(*found);
    }
  }
  if (known.empty() || !directory) {
    throw Error(Errc::not_found, fmt::format("step {} of {}", step, state_->root.string()));
  }
  std::set<std::uint64_t> pins;
  if (training::is_pinned(*directory, step)) {
    pins.insert(step);
  }
  return state_->look(*directory, std::move(known), true, pins).front();
}

std::vector<StepInfo> StepDirectory::infos(bool with_manifests) const {
  const std::optional<io::Directory> directory = state_->open_root();
  if (!directory) {
    return {};
  }
  const std::set<std::uint64_t> pins = training::read_pins(*directory);
  KnownSteps known;
  {
    const MutexLock lock(state_->mutex);
    known = state_->known;
  }
  return state_->look(*directory, std::move(known), with_manifests, pins);
}

std::vector<std::string> StepDirectory::others() const {
  std::vector<std::string> others;
  const MutexLock lock(state_->mutex);
  for (const store::NamedCheckpoint& each : *state_->names) {
    if (!state_->parse(each.name)) {
      others.push_back(each.name);
    }
  }
  return others;
}

std::optional<std::uint64_t> StepDirectory::parse(std::string_view name) const {
  return state_->parse(name);
}

/// Pins what lies in `entry`, which was there a moment ago. Returns whether it was.
bool StepDirectory::State::pin(const io::Directory& directory, std::uint64_t step,
                               const std::string& entry) const {
  const store::CheckpointLock checkpoint_lock = wait_for_lock(directory, entry, clock);
  if (!directory.status(entry)) {  // A removal was faster, or it has another name by now.
    return false;
  }
  const auto fail = [&](std::string_view why) {
    throw Error(std::error_code(EBUSY, std::system_category()),
                fmt::format("step {} of {} cannot be pinned: {}", step, root.string(), why));
  };
  if (!checkpoint_lock.is_held()) {
    fail("it is being removed or replaced");
  }
  const std::string before = identity_of(directory, entry);
  const bool was_pinned = training::is_pinned(directory, step);
  try {
    training::add_pin(directory, step);
    // Without locks nothing keeps it in its place.
    if (!directory.status(entry)) {
      training::remove_pin(directory, step);  // It would be that of a later step of this number.
      return false;
    }
    if (identity_of(directory, entry) != before) {
      fail("it was replaced meanwhile; pin it again to keep the one that is there now");
    }
  } catch (...) {
    if (!was_pinned) {
      training::remove_pin(directory, step);
    }
    throw;
  }
  return true;
}

void StepDirectory::pin(std::uint64_t step) const {
  const std::optional<io::Directory> directory = state_->open_root();
  const auto is_there = [&](const std::string& entry) {
    return directory && !entry.empty() && directory->status(entry).has_value();
  };
  for (bool is_listed_anew = false;; is_listed_anew = true) {
    const std::string entry = state_->entry_of(step);
    if (is_there(entry) && state_->pin(*directory, step, entry)) {
      return;
    }
    if (is_listed_anew) {
      throw Error(Errc::not_found,
                  fmt::format("step {} of {} cannot be pinned", step, state_->root.string()));
    }
    state_->list_again(true);  // Where names cannot be exchanged, what replaces a step has another name.
  }
}

void StepDirectory::unpin(std::uint64_t step) const {
  if (const std::optional<io::Directory> directory = state_->open_root()) {
    training::remove_pin(*directory, step);
  }
}

bool StepDirectory::is_pinned(std::uint64_t step) const {
  const std::optional<io::Directory> directory = state_->open_root();
  return directory && training::is_pinned(*directory, step);
}

bool StepDirectory::remove_unless_pinned(std::uint64_t step, const RemoveOptions& options,
                                         const Context& context, std::optional<std::uint64_t> newer) {
  const std::optional<io::Directory> directory = state_->open_root();
  const std::string entry = state_->entry_of(step);
  if (!directory || entry.empty()) {
    return true;
  }
  store::CheckpointLock checkpoint_lock(*directory, entry);
  // While it is held nobody goes back to it.
  const bool is_old = !newer || directory->status(this->entry(*newer).filename().string());
  if (!checkpoint_lock.is_held() || !is_old || training::is_pinned(*directory, step) ||
      checkpoint_lock.is_in_use()) {
    return false;
  }
  const std::filesystem::path where = path(step);
  const store::Surroundings surroundings = state_->surroundings_of(step);
  forget(step);  // First: who asks for it from here on is told that it is not there.
  RemoveOptions own = options;
  own.even_if_held = true;  // It is held, by this.
  try {
    api::remove_into(where, own, context, state_->trash, surroundings);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found) {  // Else another process was faster.
      throw;
    }
  }
  forget(step);  // Again: it may have been listed before it was gone.
  return true;
}

bool StepDirectory::has_unfinished_removals() const {
  return !state_->trash->is_empty();
}

void StepDirectory::finish_removals(const RemoveOptions& options, const Context& context) const {
  if (!has_unfinished_removals()) {
    return;
  }
  const core::DiskCalls calls(context);
  std::function<void(core::CommitState&)> remove = [held_root = state_->held_root,
                                                    trash = state_->trash](core::CommitState& commit) {
    const std::optional<io::Directory> directory = held_root->open();
    if (directory && commit.begin_commit()) {
      trash->remove(*directory);
    }
  };
  calls.change(fmt::format("removal of what is left of steps of {}", state_->root.string()), options.deadline,
               std::move(remove));
}

void StepDirectory::doubt(std::uint64_t step) {
  const MutexLock lock(state_->mutex);
  const auto found = state_->known.find(step);
  if (found != state_->known.end()) {
    found->second.forget_manifest();
  }
}

void StepDirectory::add(std::uint64_t step) {
  const std::string entry = has(step) ? state_->look_for_entry(path(step).filename()) : "";
  const MutexLock lock(state_->mutex);
  Known& known = state_->known[step];
  known.is_alone = false;
  if (known.name.empty()) {
    known.name = state_->options.format.name(step);
    known.entry = known.name;
  } else {  // It was overwritten.
    known.forget_manifest();
    known.entry = entry.empty() ? known.entry : entry;
  }
  ++state_->changes;
  state_->publish_numbers();
}

void StepDirectory::forget(std::uint64_t step) {
  const MutexLock lock(state_->mutex);
  ++state_->changes;
  if (state_->known.erase(step) == 0) {
    return;
  }
  auto all = std::make_shared<std::vector<std::uint64_t>>(*state_->numbers);
  all->erase(std::lower_bound(all->begin(), all->end(), step));
  state_->numbers = std::move(all);
}

}  // namespace cairn
