// SPDX-License-Identifier: Apache-2.0
#include "flash/internal/run_images.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/api/copy.hpp"
#include "cairn/base/error.hpp"

#include "core/internal/disk_calls.hpp"
#include "flash/memory.hpp"
#include "io/internal/check.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/damage.hpp"
#include "store/internal/listing.hpp"
#include "store/internal/recovery.hpp"
#include "training/internal/annotations.hpp"
#include "training/internal/damaged_aside.hpp"

namespace cairn::flash {
namespace {

/// How steps are called. Older versions say only what step 0 is: a prefix, and as many digits as names have; one stands
/// for as many as it takes.
std::vector<StepFormat> names_of(const store::MemoryMark& mark) {
  std::vector<StepFormat> names;
  for (const store::StepNames& each : mark.names) {
    names.emplace_back(each.prefix, each.width);
  }
  if (names.empty()) {
    const std::string& zero = mark.step_zero;
    const std::size_t digits = zero.size() - std::min(zero.size(), zero.find_last_not_of('0') + 1);
    names.emplace_back(zero.substr(0, zero.size() - digits), digits == 1 ? 0 : digits);
  }
  return names;
}

/// The steps in a directory by their names, and what their directories are called; the newest first. Directories that
/// have no COMMIT are left out.
std::vector<std::pair<std::uint64_t, std::string>> steps_in(const io::Directory& directory,
                                                            const std::vector<StepFormat>& names) {
  std::vector<std::pair<std::uint64_t, std::string>> steps;
  for (const store::NamedCheckpoint& each : store::list_names(directory)) {
    for (const StepFormat& format : names) {
      if (const auto step = format.parse(each.name)) {
        steps.emplace_back(*step, each.entry);
        break;
      }
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

/// Returns whether a checkpoint is whole, as far as its manifest and the sizes of its files tell, and says of no other
/// step than its name that it is that.
bool is_sound_step(const io::Directory& root, std::uint64_t step, const std::string& entry) {
  const store::CommitCheck check = store::check_commit(root, entry, true);
  try {
    return check.is_committed &&
           training::notes_of(check.facts->annotations, entry).step.value_or(step) == step;
  } catch (const Error&) {
    return false;
  }
}

std::optional<std::uint64_t> newest_sound_step(const io::Directory& root,
                                               const std::vector<StepFormat>& names) {
  const std::vector<std::pair<std::uint64_t, std::string>> steps = steps_in(root, names);
  const auto newest = std::find_if(steps.begin(), steps.end(), [&root](const auto& each) {
    return is_sound_step(root, each.first, each.second);
  });
  return newest == steps.end() ? std::nullopt : std::optional(newest->first);
}

constexpr std::uint32_t kOpenToOthers = 0077;

[[noreturn]] void throw_unmarked(const std::filesystem::path& memory) {
  throw Error(Errc::invalid_argument, fmt::format("{} is not the memory of a run: it has no {} of this user",
                                                  memory.string(), store::kMemoryMarkName));
}

io::Directory open_images(io::Syscalls& syscalls, const std::filesystem::path& path) {
  const io::Directory memory = io::Directory::open(syscalls, path);
  if (!memory.status(kRankName)) {
    throw_unmarked(path);
  }
  return memory.open_directory(kRankName);
}

store::MemoryMark mark_of(const io::Directory& images) {
  std::optional<store::MemoryMark> mark = store::read_mark_above(images);
  if (!mark) {
    throw_unmarked(images.path().parent_path());
  }
  require_one_rank(*mark, images.path().parent_path());
  return *std::move(mark);
}

SaveResult wait_unless(const AsyncResponse& copy, const CopyWatch& is_to_stop) {
  constexpr std::chrono::milliseconds kLook{50};
  for (;;) {
    try {
      return copy.wait(kLook);
    } catch (const Error& error) {
      if (error.code() != Errc::still_running) {
        throw;
      }
    }
    if (is_to_stop && is_to_stop(copy.progress())) {
      copy.cancel();
    }
  }
}

}  // namespace

void refuse_memory(const std::filesystem::path& path, const std::string& why) {
  throw Error(Errc::invalid_argument,
              fmt::format("{} cannot be the memory of a run: {}", path.string(), why));
}

void require_memory(const io::Directory& directory) {
  const std::filesystem::path& path = directory.path();
  io::Syscalls& syscalls = directory.syscalls();
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return syscalls.status(directory.fd(), status); }), "stat", path);
  if (!store::lies_in_memory(syscalls, directory.fd())) {
    refuse_memory(path, "it is not on a tmpfs");
  }
  if (status.user != ::geteuid()) {
    refuse_memory(path, fmt::format("it is that of user {}", status.user));
  }
  if ((status.permissions & kOpenToOthers) != 0) {
    refuse_memory(path, fmt::format("it is open to others (mode {:04o})", status.permissions));
  }
}

void require_one_rank(const store::MemoryMark& mark, const std::filesystem::path& memory) {
  if (mark.ranks != 1) {
    refuse_memory(memory, fmt::format("it is that of {} ranks, and this is 1 process", mark.ranks));
  }
}

Persisted look_whether_persisted(io::Syscalls& syscalls, const std::filesystem::path& image,
                                 const std::filesystem::path& on_disk) {
  try {
    const auto there = store::CommittedDirectory::open(syscalls, on_disk);
    const io::Directory root = io::Directory::open(syscalls, on_disk.parent_path());
    if (!store::check_commit(root, there.path().filename().string(), true).is_committed) {
      return Persisted::unknown;
    }
    const bool is_same =
        there.manifest().uuid == store::CommittedDirectory::open(syscalls, image).manifest().uuid;
    return is_same ? Persisted::yes : Persisted::no;
  } catch (const Error& error) {
    const bool is_gone = error.code() == Errc::not_found;
    return is_gone ? Persisted::no : Persisted::unknown;
  }
}

void remove_left_on_disk(const io::Directory& root, const std::vector<StepFormat>& names) noexcept {
  try {
    store::remove_left_by_dead_processes(root, [&names](std::string_view name) {
      return std::any_of(names.begin(), names.end(),
                         [name](const StepFormat& format) { return format.parse(name).has_value(); });
    });
  } catch (...) {  // Nobody waits for that.
  }
}

RunImages::RunImages(const std::filesystem::path& memory, const std::filesystem::path& root,
                     const Context& context)
    : context_(context),
      syscalls_(core::DiskCalls(context).syscalls()),
      memory_(io::named_path(std::filesystem::absolute(memory))),
      images_(open_images(syscalls_, memory_)),
      mark_(mark_of(images_)),
      root_(root.empty() ? mark_.root : io::named_path(std::filesystem::absolute(root))),
      names_(names_of(mark_)) {
  const std::string run = run_in(io::Directory::open(syscalls_, root_)).value_or("none");
  if (mark_.run != run) {
    throw Error(Errc::invalid_argument, fmt::format("{} is the memory of run {}; {} has run {}",
                                                    memory_.string(), mark_.run, root_.string(), run));
  }
}

std::filesystem::path RunImages::image(std::uint64_t step) const {
  return images_.path() / std::to_string(step);
}

std::filesystem::path RunImages::on_disk(std::uint64_t step) const {
  const std::size_t digits = std::to_string(step).size();
  for (const StepFormat& format : names_) {
    std::error_code ignored;
    const bool has_name = format.width() == 0 || digits <= format.width();
    const std::filesystem::path path = has_name ? root_ / format.name(step) : std::filesystem::path();
    if (has_name && std::filesystem::exists(path, ignored)) {
      return path;
    }
  }
  return root_ / names_.front().name(step);
}

std::optional<std::uint64_t> RunImages::newest() const {
  for (const auto& [step, entry] : steps_in(images_, {StepFormat()})) {
    if (!refusal(step)) {
      return step;
    }
  }
  return std::nullopt;
}

std::optional<Error> RunImages::refusal(std::uint64_t step) const {
  const auto lines = training::StepLines::read(io::Directory::open(syscalls_, root_));
  try {
    const auto opened = store::CommittedDirectory::open(syscalls_, image(step));
    const training::StepNotes notes =
        training::notes_of(opened.manifest().annotations, opened.path().string());
    return refusal_of(lines, notes.line, step, image(step));
  } catch (const Error& error) {
    if (!store::is_damage(syscalls_, error.code(), image(step))) {
      throw;
    }
    return std::nullopt;  // The copy tells.
  }
}

Persisted RunImages::persisted(std::uint64_t step) const {
  return look_whether_persisted(syscalls_, image(step), on_disk(step));
}

SaveResult RunImages::persist(std::uint64_t step, const CopyWatch& is_to_stop) const {
  if (const std::optional<Error> why = refusal(step)) {
    throw *why;
  }
  if (persisted(step) == Persisted::unknown) {  // What is there and not damaged is for the copy to refuse.
    training::set_any_damaged_aside(syscalls_, root_, on_disk(step).filename(), context_.options().random);
  }
  try {
    return wait_unless(copy_checkpoint_async(image(step), on_disk(step), {}, context_), is_to_stop);
  } catch (const Error& error) {
    if (error.code() != Errc::already_exists || persisted(step) != Persisted::yes) {
      throw;
    }
  }
  SaveResult result;  // Its program was faster.
  result.path = on_disk(step);
  return result;
}

std::optional<std::uint64_t> RunImages::persist_newest(
    const std::function<void(const std::exception& why)>& on_passed_over, const CopyWatch& is_to_stop) const {
  const io::Directory root = io::Directory::open(syscalls_, root_);
  remove_left_on_disk(root, names_);
  const std::optional<std::uint64_t> newest = newest_sound_step(root, names_);
  for (const auto& [step, entry] : steps_in(images_, {StepFormat()})) {
    if (newest && step <= *newest) {
      break;
    }
    if (const std::optional<Error> why = refusal(step)) {
      on_passed_over(*why);
      continue;
    }
    try {
      persist(step, is_to_stop);
      return step;
    } catch (const Error& error) {
      if (!store::is_damage(syscalls_, error.code(), image(step))) {
        throw;
      }
      on_passed_over(error);
    }
  }
  return std::nullopt;
}

RunImages::Cleaned RunImages::clean(bool all) const {
  Memory::Options options;
  options.memory = memory_;
  options.root = root_;
  Memory memory(options, syscalls_, context_.options().random);
  const io::Directory root = io::Directory::open(syscalls_, root_);
  const std::optional<std::uint64_t> newest = newest_sound_step(root, names_);
  const auto lines = training::StepLines::read(root);
  Cleaned cleaned;
  std::optional<std::uint64_t> unsaved;
  for (const Image& each : memory.images()) {
    const bool is_given_up =
        !each.is_damaged && lines.standing(each.line, each.step) == training::StepLines::Standing::given_up;
    const bool may_go =
        is_given_up || (newest && each.step < *newest) || persisted(each.step) == Persisted::yes;
    if ((all || may_go) && memory.retire(each.step)) {
      cleaned.retired.push_back(each.step);
      continue;
    }
    cleaned.left.push_back(each.step);
    if (!may_go && !each.is_damaged) {
      unsaved = each.step;
    }
  }
  memory.drop_spare();
  memory.end(unsaved);  // An agent that serves persists it, as it would have for the program before.
  return cleaned;
}

}  // namespace cairn::flash
