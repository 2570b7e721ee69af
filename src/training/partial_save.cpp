// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/partial_save.hpp"

#include <system_error>

#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/maintain.hpp"
#include "cairn/api/save.hpp"
#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "base/internal/utf8.hpp"
#include "core/internal/paths.hpp"
#include "core/internal/saves_part.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/parts_directory.hpp"
#include "store/internal/save_target.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/internal/timestamp.hpp"
#include "training/part_contents.hpp"
#include "training/part_merge.hpp"
#include "training/part_notes.hpp"
#include "training/remover.hpp"

namespace cairn {
namespace {

using store::CommittedDirectory;
using store::part_name;
using store::part_number;
using store::PartsDirectory;
using Check = store::PartsDirectory::Check;

/// Looks for parts look at any depth: what is missing above a target holds none.
constexpr unsigned kAnyLevels = std::numeric_limits<unsigned>::max();

/// How many parts there are.
///
/// Errors: Errc::malformed_metadata when one is missing: what the others hold would be left out, or removed.
std::size_t count_parts(const io::Directory& directory) {
  std::set<std::size_t> numbers;
  for (const io::DirectoryEntry& entry : directory.list()) {
    if (const std::optional<std::size_t> number = part_number(entry.name)) {
      numbers.insert(*number);
    }
  }
  std::size_t expected = 0;
  for (const std::size_t number : numbers) {
    if (number != expected) {
      throw Error(Errc::malformed_metadata,
                  fmt::format("{}: {} is missing, but {} is there", directory.path().string(),
                              part_name(expected), part_name(number)));
    }
    ++expected;
  }
  return numbers.size();
}

std::optional<training::PartNotes> notes_of(const CommittedDirectory& checkpoint) {
  const std::string path = (checkpoint.path() / store::kManifestName).string();
  training::JsonMembers annotations =
      training::members_of(checkpoint.manifest().annotations, path, Errc::malformed_metadata);
  return training::take_notes(annotations, path);
}

/// Refuses a part that is not what its name says, or of another run.
void require_part(const CommittedDirectory& part, std::size_t number, const std::string& run) {
  const std::optional<training::PartNotes> notes = notes_of(part);
  const std::string path = part.path().string();
  if (!notes || notes->part != number) {
    throw Error(Errc::malformed_metadata, fmt::format("{} is not part {} of a checkpoint", path, number));
  }
  if (notes->run != run) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} is of the run '{}', not '{}'", path, notes->run, run));
  }
  if (part.manifest().world_size != 1) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} was saved by {} ranks, not by one", path, part.manifest().world_size));
  }
}

}  // namespace

struct PartialSave::State {
  State(const std::filesystem::path& where, PartialSaveOptions how, const Context& in)
      : target(core::absolute_path(store::target_path(where))), options(std::move(how)), context(in) {
    context.require_own_process();
    store::require_outside_parts(target);
  }

  [[nodiscard]] io::Syscalls& syscalls() const { return training::syscalls_of(context); }

  [[nodiscard]] std::optional<store::SaveTarget> find_target() const {
    return store::open_target_if_made(syscalls(), target, kAnyLevels);
  }

  /// What is known to be ours is not looked through again.
  [[nodiscard]] std::optional<PartsDirectory> open() const {
    std::optional<store::SaveTarget> opened = find_target();
    return opened ? PartsDirectory::open(std::move(*opened), uuids.empty() ? Check::everything : Check::mark)
                  : std::nullopt;
  }

  /// Opens the directory for one more part; the first one makes it.
  [[nodiscard]] PartsDirectory open_to_add(unsigned create_parents) {
    if (!uuids.empty()) {
      std::optional<PartsDirectory> parts = open();
      if (!parts) {
        throw_gone("");
      }
      return std::move(*parts);
    }
    store::SaveTarget found = store::look_at_target(syscalls(), target, true, create_parents);
    const std::shared_ptr<store::ParentUse> use = found.use;
    PartsDirectory parts = PartsDirectory::make(std::move(found));
    use->sync();
    use->keep();
    return parts;
  }

  [[nodiscard]] CommittedDirectory open_part(const PartsDirectory& parts, std::size_t number) const {
    return CommittedDirectory::open(syscalls(), parts.directory().path() / part_name(number));
  }

  /// Returns whether a part is the one that was taken in, without a list of all of them.
  [[nodiscard]] bool is_known(const PartsDirectory& parts, std::size_t number) const {
    const store::CommitCheck check = store::check_commit(parts.directory(), part_name(number), false);
    return check.is_committed ? check.uuid == uuids[number]
                              : open_part(parts, number).manifest().uuid == uuids[number];
  }

  /// How much a look at the parts takes: of all of them, or of those that tell whether the rest is as it was.
  enum class Look : std::uint8_t { at_all, at_the_ends };

  /// Takes in parts that others have added.
  ///
  /// Errors: Errc::closed: parts that were there are gone. Errc::malformed_metadata: one is missing below others.
  void refresh(const PartsDirectory& parts, Look look) {
    const io::Directory& directory = parts.directory();
    const auto is_there = [&](std::size_t number) { return directory.status(part_name(number)).has_value(); };
    const bool has_gap = !is_there(uuids.size()) && is_there(uuids.size() + 1);
    const bool has_ends = uuids.empty() || (is_there(0) && is_there(uuids.size() - 1));
    if (look == Look::at_all || has_gap || !has_ends) {
      static_cast<void>(count_parts(directory));
    }
    for (const std::size_t number : {std::size_t{0}, uuids.size() - 1}) {
      if (!uuids.empty() && !(has_ends && is_known(parts, number))) {
        throw_gone(parts.worked_before());
      }
    }
    while (is_there(uuids.size())) {
      const std::size_t number = uuids.size();
      const CommittedDirectory part = open_part(parts, number);
      require_part(part, number, options.run);
      if (!take_in(part, !is_there(number + 1))) {
        return;
      }
    }
  }

  /// Parts that this object counts on were taken away, by `who` where the mark tells: for good, whatever is added by
  /// others.
  [[noreturn]] void throw_gone(const std::string& who) {
    const std::string what = is_finalized() ? "they were finalized: the checkpoint is made of them"
                                            : "they were abandoned, or removed by hand";
    gone =
        fmt::format("{}: {} part{} that this PartialSave had found or added {} gone: {}{}", target.string(),
                    uuids.size(), uuids.size() == 1 ? "" : "s", uuids.size() == 1 ? "is" : "are", what,
                    who.empty() ? "" : fmt::format("; the last to work there was {}", who));
    throw Error(Errc::closed, gone);
  }

  /// False: the part, which is the last, contradicts others: the program that added it ended before it was told.
  bool take_in(const CommittedDirectory& part, bool is_last) {
    try {
      contents.add(part, static_cast<std::uint32_t>(uuids.size()));
    } catch (const Error& error) {
      if (!is_last || error.code() != Errc::already_exists) {
        throw;
      }
      remove_checkpoint(part.path(), {}, context);
      return false;
    }
    uuids.push_back(part.manifest().uuid);
    return true;
  }

  /// Whatever is wrong with them; but nothing that is not theirs.
  [[nodiscard]] store::RemovalReport remove_parts() const {
    store::RemovalReport report;
    const std::optional<store::SaveTarget> found = find_target();
    std::string others = found ? PartsDirectory::in_the_way(*found) : "";
    if (!others.empty()) {
      report.kept.push_back(std::move(others));
    } else if (std::optional<PartsDirectory> parts = open()) {
      report = parts->remove(random());
    }
    return report;
  }

  /// Ends what has been published: by the first part it is known that these are the parts, and not those of another
  /// checkpoint to come.
  [[nodiscard]] store::RemovalReport remove_published() const {
    std::optional<PartsDirectory> parts = open();
    const bool is_there = parts && parts->directory().status(part_name(0)).has_value();
    return is_there && open_part(*parts, 0).manifest().uuid == uuids.front() ? parts->remove(random())
                                                                             : store::RemovalReport();
  }

  void forget() {
    contents = {};
    uuids.clear();
  }

  /// Returns what stands at the target; nothing when it is not a sound checkpoint: publishing deals with
  /// that.
  [[nodiscard]] std::optional<CommittedDirectory> open_standing() const {
    try {
      return CommittedDirectory::open(syscalls(), target);
    } catch (const Error& error) {
      if (error.code().category() != cairn_category()) {
        throw;
      }
      return std::nullopt;
    }
  }

  /// Returns whether it is made of the parts that there are.
  [[nodiscard]] bool is_finalized() const {
    const std::optional<CommittedDirectory> standing = open_standing();
    const std::optional<training::PartNotes> notes = standing ? notes_of(*standing) : std::nullopt;
    return notes && !uuids.empty() && notes->first == store::to_string(uuids.front());
  }

  /// Refuses a target that `finalize` would refuse.
  void require_replaceable() const {
    if (options.overwrite || is_finalized()) {
      return;
    }
    if (const std::optional<CommittedDirectory> standing = open_standing()) {
      const std::optional<training::PartNotes> notes = notes_of(*standing);
      throw Error(Errc::already_exists,
                  notes && notes->run == options.run
                      ? fmt::format("{}: it was made of parts{}, and is finished", target.string(),
                                    notes->run.empty() ? "" : fmt::format(" of the run '{}'", notes->run))
                      : target.string());
    }
    if (find_target()) {
      static_cast<void>(store::look_at_target(syscalls(), target, false));
    }
  }

  /// The same for one more part.
  void require_unfinished() const {
    require_replaceable();
    if (is_finalized()) {
      throw Error(Errc::already_exists,
                  fmt::format("{}, made of the parts that are there: finalize them", target.string()));
    }
  }

  void require_open() const {
    context.require_own_process();
    if (is_closed) {
      throw Error(Errc::closed, fmt::format("the partial save of {}", target.string()));
    }
    if (!gone.empty()) {
      throw Error(Errc::closed, gone);
    }
  }

  /// Saves part `number`, and removes it again if it contradicts others.
  SaveResult save_part(const PartsDirectory& parts, std::size_t number, const Checkpointables& items,
                       const SaveOptions& how) {
    const std::filesystem::path path = parts.directory().path() / part_name(number);
    SaveResult result = save_checkpointables(path, items, how, context);
    try {
      const CommittedDirectory part = CommittedDirectory::open(syscalls(), path);
      contents.add(part, static_cast<std::uint32_t>(number));
      uuids.push_back(part.manifest().uuid);
    } catch (...) {
      const std::exception_ptr failure = std::current_exception();
      remove_checkpoint(path, {}, context);
      std::rethrow_exception(failure);
    }
    return result;
  }

  /// Removes the directory of the parts when the first one could not be saved. If that fails, later parts remove what
  /// is left.
  void remove_empty(PartsDirectory& parts) const noexcept {
    try {
      if (count_parts(parts.directory()) == 0) {
        static_cast<void>(parts.remove(random()));
      }
    } catch (...) {
    }
  }

  void publish(const PartsDirectory& parts) {
    staging::OwnPlane own(syscalls(), 1);
    store::StagedOptions how;
    how.overwrite = options.overwrite;
    how.random = random();
    store::StagedDirectory staged =
        store::StagedDirectory::create(own.plane().engine, target, std::move(how));
    training::PartMerge merge(own, staged);
    store::Manifest manifest;
    for (std::size_t number = 0; number < uuids.size(); ++number) {
      CommittedDirectory part = open_part(parts, number);
      if (part.manifest().uuid != uuids[number]) {
        throw_gone(parts.worked_before());
      }
      manifest.started = number == 0 ? part.manifest().started : manifest.started;
      merge.add(std::move(part));
    }
    store::set_committed(manifest, training::clock_of(context).now());
    training::JsonMembers annotations;
    training::enter(annotations, {options.run, std::nullopt, store::to_string(uuids.front())});
    manifest.annotations = training::object_of(annotations);
    merge.publish(std::move(manifest));
  }

  [[nodiscard]] const store::RandomSource& random() const { return context.options().random; }

  const std::filesystem::path target;
  const PartialSaveOptions options;
  const Context& context;
  training::PartContents contents;
  std::vector<store::Uuid> uuids;  // Of the parts, in their order.
  bool is_published = false;
  bool is_closed = false;
  std::string gone;  // What is told for ever once parts were taken away.
};

PartialSave::PartialSave(const std::filesystem::path& target, PartialSaveOptions options,
                         const Context& context)
    : state_(std::make_unique<State>(target, std::move(options), context)) {
  if (const auto& ranks = context.options().coordinator; ranks && ranks->size() > 1) {
    throw Error(Errc::invalid_argument, "a PartialSave is of one rank: let ranks save together instead");
  }
  if (!is_valid_utf8(state_->options.run)) {
    throw Error(Errc::invalid_argument, "PartialSaveOptions::run is not UTF-8");
  }
  if (const std::optional<PartsDirectory> parts = state_->open()) {
    recover(parts->directory().path(), {}, context);
    state_->refresh(*parts, State::Look::at_all);
  }
  state_->require_replaceable();
}

PartialSave::~PartialSave() = default;

SaveResult PartialSave::add(const Checkpointables& items, const SaveOptions& options) {
  state_->require_open();
  const training::JsonMembers custom_metadata =
      training::members_of(options.custom_metadata, "SaveOptions::custom_metadata", Errc::invalid_argument);
  training::JsonMembers annotations =
      training::members_of(options.annotations, "SaveOptions::annotations", Errc::invalid_argument);
  PartsDirectory parts = state_->open_to_add(options.create_parents);
  state_->refresh(parts, State::Look::at_the_ends);
  const std::size_t number = state_->uuids.size();
  training::JsonMembers of_all = annotations;
  training::enter(of_all, {state_->options.run, std::nullopt, store::to_string(store::Uuid())});
  training::enter(annotations, {state_->options.run, number, ""});
  SaveOptions how = options;
  how.overwrite = false;
  how.create_parents = 0;
  how.annotations = training::object_of(annotations);
  how.handler_options.set(FileNumber{static_cast<std::uint32_t>(number)});
  how.handler_options.set(core::SavesPart(number, state_->target));
  try {
    state_->contents.require_room(custom_metadata, of_all);
    state_->require_unfinished();
    return state_->save_part(parts, number, items, how);
  } catch (...) {
    if (number == 0) {
      state_->remove_empty(parts);
    }
    throw;
  }
}

store::RemovalReport PartialSave::finalize() {
  state_->require_open();
  store::RemovalReport report;
  if (state_->is_published) {  // It was called before, and has failed in removing the parts.
    report = state_->remove_published();
    state_->is_closed = true;
    return report;
  }
  std::optional<PartsDirectory> parts = state_->open();
  if (parts) {
    state_->refresh(*parts, State::Look::at_all);
  } else if (!state_->uuids.empty()) {
    state_->throw_gone("");
  }
  if (!parts || state_->uuids.empty()) {
    throw Error(Errc::not_found, fmt::format("a part of {}", state_->target.string()));
  }
  if (!state_->is_finalized()) {
    state_->publish(*parts);
  }
  state_->is_published = true;
  report = parts->remove(state_->random());
  state_->is_closed = true;
  return report;
}

store::RemovalReport PartialSave::abandon(const std::filesystem::path& target, const Context& context) {
  return State(target, {}, context).remove_parts();
}

store::RemovalReport PartialSave::abandon() {
  state_->require_open();
  store::RemovalReport report = state_->remove_parts();
  state_->is_closed = true;
  state_->forget();
  return report;
}

std::size_t PartialSave::parts() const noexcept {
  return state_->uuids.size();
}

}  // namespace cairn
