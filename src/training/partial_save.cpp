// SPDX-License-Identifier: Apache-2.0
#include "cairn/training/partial_save.hpp"

#include <system_error>

#include <charconv>
#include <exception>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/maintain.hpp"
#include "cairn/api/save.hpp"
#include "cairn/base/error.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "base/internal/utf8.hpp"
#include "io/internal/engine.hpp"
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
using store::PartsDirectory;

std::string part_name(std::size_t number) {
  return fmt::format("part-{:05}", number);
}

/// The number of a part that is called so; nothing for what is none.
std::optional<std::size_t> part_number(std::string_view name) {
  const std::string_view prefix = "part-";
  std::size_t number = 0;
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && part_name(number) == name ? std::optional(number) : std::nullopt;
}

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
      : target(std::filesystem::absolute(store::target_path(where))), options(std::move(how)), context(in) {}

  [[nodiscard]] io::Syscalls& syscalls() const { return training::syscalls_of(context); }

  [[nodiscard]] std::optional<PartsDirectory> open() const {
    std::optional<store::SaveTarget> opened = store::open_target_if_made(syscalls(), target, 1);
    return opened ? PartsDirectory::open(std::move(*opened)) : std::nullopt;
  }

  [[nodiscard]] CommittedDirectory open_part(const PartsDirectory& parts, std::size_t number) const {
    return CommittedDirectory::open(syscalls(), parts.directory().path() / part_name(number));
  }

  /// Takes in parts that others have added, or have taken away with all the rest.
  void refresh(const PartsDirectory& parts) {
    const std::size_t count = count_parts(parts.directory());
    if (!uuids.empty() &&
        !(parts.directory().status(part_name(0)) && open_part(parts, 0).manifest().uuid == uuids.front())) {
      forget();
    }
    while (uuids.size() < count) {
      const CommittedDirectory part = open_part(parts, uuids.size());
      require_part(part, uuids.size(), options.run);
      if (!take_in(part, uuids.size() + 1 == count)) {
        return;
      }
    }
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

  /// Whatever they are.
  void remove_parts() const {
    if (std::optional<PartsDirectory> parts = open()) {
      parts->remove(random());
    }
  }

  void forget() {
    contents = {};
    uuids.clear();
  }

  /// What stands at the target; nothing when it is not a sound checkpoint: publishing deals with that.
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

  /// Whether it is made of the parts that there are.
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
    if (store::open_target_if_made(syscalls(), target, 1)) {
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
    if (is_closed) {
      throw Error(Errc::closed, fmt::format("the partial save of {}", target.string()));
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

  /// Removes the directory of the parts when the first one could not be saved. If that fails, later parts remove what is left.
  void remove_empty(PartsDirectory& parts) const noexcept {
    try {
      if (count_parts(parts.directory()) == 0) {
        parts.remove(random());
      }
    } catch (...) {
    }
  }

  void publish(const PartsDirectory& parts) const {
    io::EngineOptions few;
    few.threads = 1;
    few.syscalls = &syscalls();
    const io::EngineChoice files = io::make_engine(io::EngineKind::threads, few);
    store::StagedOptions how;
    how.overwrite = options.overwrite;
    how.random = random();
    store::StagedDirectory staged = store::StagedDirectory::create(*files.engine, target, std::move(how));
    training::PartMerge merge(staged);
    store::Manifest manifest;
    for (std::size_t number = 0; number < uuids.size(); ++number) {
      const CommittedDirectory part = open_part(parts, number);
      manifest.started = number == 0 ? part.manifest().started : manifest.started;
      merge.add(part);
    }
    store::set_committed(manifest, training::clock_of(context).now());
    training::JsonMembers annotations;
    training::enter(annotations, {options.run, std::nullopt, store::to_string(uuids.front())});
    manifest.annotations = training::object_of(annotations);
    merge.publish(std::move(manifest));
  }

  [[nodiscard]] store::RandomSource random() const {
    return context.options().random ? context.options().random : store::system_random;
  }

  const std::filesystem::path target;
  const PartialSaveOptions options;
  const Context& context;
  training::PartContents contents;
  std::vector<store::Uuid> uuids;  // Of the parts, in their order.
  bool is_closed = false;
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
    state_->refresh(*parts);
  }
  state_->require_replaceable();
}

PartialSave::~PartialSave() = default;

SaveResult PartialSave::add(const Checkpointables& items, const SaveOptions& options) {
  state_->require_open();
  static_cast<void>(
      training::members_of(options.custom_metadata, "SaveOptions::custom_metadata", Errc::invalid_argument));
  training::JsonMembers annotations =
      training::members_of(options.annotations, "SaveOptions::annotations", Errc::invalid_argument);
  store::SaveTarget target =
      store::look_at_target(state_->syscalls(), state_->target, true, options.create_parents);
  const std::shared_ptr<store::ParentUse> use = target.use;
  PartsDirectory parts = PartsDirectory::make(std::move(target));
  use->sync();
  use->keep();
  state_->refresh(parts);
  const std::size_t number = state_->uuids.size();
  training::enter(annotations, {state_->options.run, number, ""});
  SaveOptions how = options;
  how.overwrite = false;
  how.create_parents = 0;
  how.annotations = training::object_of(annotations);
  how.handler_options.set(FileNumber{static_cast<std::uint32_t>(number)});
  try {
    state_->require_unfinished();
    return state_->save_part(parts, number, items, how);
  } catch (...) {
    if (number == 0) {
      state_->remove_empty(parts);
    }
    throw;
  }
}

void PartialSave::finalize() {
  state_->require_open();
  std::optional<PartsDirectory> parts = state_->open();
  if (parts) {
    state_->refresh(*parts);
  }
  if (!parts || state_->uuids.empty()) {
    throw Error(Errc::not_found, fmt::format("a part of {}", state_->target.string()));
  }
  if (!state_->is_finalized()) {
    state_->publish(*parts);
  }
  parts->remove(state_->random());
  state_->is_closed = true;
}

void PartialSave::abandon(const std::filesystem::path& target, const Context& context) {
  State(target, {}, context).remove_parts();
}

void PartialSave::abandon() {
  state_->require_open();
  state_->remove_parts();
  state_->is_closed = true;
  state_->forget();
}

std::size_t PartialSave::parts() const noexcept {
  return state_->uuids.size();
}

}  // namespace cairn
