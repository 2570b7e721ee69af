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

namespace cairn::flash {
namespace {

/// The format of which this is step 0: a prefix, and as many digits as names have; one stands for as many as it takes.
StepFormat format_of(const std::string& step_zero) {
  const std::size_t digits =
      step_zero.size() - std::min(step_zero.size(), step_zero.find_last_not_of('0') + 1);
  return StepFormat(step_zero.substr(0, step_zero.size() - digits), digits == 1 ? 0 : digits);
}

/// The steps in a directory, the newest first.
std::vector<std::uint64_t> steps_in(const io::Directory& directory, const StepFormat& format) {
  std::vector<std::uint64_t> steps;
  for (const io::DirectoryEntry& entry : directory.list()) {
    if (const auto step = format.parse(entry.name); step && entry.kind == io::FileKind::directory) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

constexpr std::uint32_t kOpenToOthers = 0077;

store::MemoryMark mark_of(const io::Directory& images) {
  std::optional<store::MemoryMark> mark = store::read_mark_above(images);
  if (!mark) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} is not the memory of a run: it has no {} of this user",
                            images.path().parent_path().string(), store::kMemoryMarkName));
  }
  return *std::move(mark);
}

SaveResult wait_unless(const AsyncResponse& copy, const std::function<bool()>& is_to_stop) {
  constexpr std::chrono::milliseconds kLook{50};
  for (;;) {
    try {
      return copy.wait(kLook);
    } catch (const Error& error) {
      if (error.code() != Errc::still_running) {
        throw;
      }
    }
    if (is_to_stop && is_to_stop()) {
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

RunImages::RunImages(const std::filesystem::path& memory, const std::filesystem::path& root,
                     const Context& context)
    : context_(context),
      syscalls_(core::DiskCalls(context).syscalls()),
      memory_(io::named_path(std::filesystem::absolute(memory))),
      images_(io::Directory::open(syscalls_, memory_ / kRankName)),
      mark_(mark_of(images_)),
      root_(root.empty() ? mark_.root : io::named_path(std::filesystem::absolute(root))),
      format_(format_of(mark_.step_zero)) {
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
  return root_ / format_.name(step);
}

bool RunImages::is_persisted(std::uint64_t step) const {
  try {
    return store::CommittedDirectory::open(syscalls_, image(step)).manifest().uuid ==
           store::CommittedDirectory::open(syscalls_, on_disk(step)).manifest().uuid;
  } catch (const Error&) {
    return false;
  }
}

SaveResult RunImages::persist(std::uint64_t step, const std::function<bool()>& is_to_stop) const {
  try {
    return wait_unless(copy_checkpoint_async(image(step), on_disk(step), {}, context_), is_to_stop);
  } catch (const Error& error) {
    if (error.code() != Errc::already_exists || !is_persisted(step)) {
      throw;
    }
  }
  SaveResult result;  // Its program was faster.
  result.path = on_disk(step);
  return result;
}

std::optional<std::uint64_t> RunImages::persist_newest(
    const std::function<void(const std::exception& why)>& on_damage,
    const std::function<bool()>& is_to_stop) const {
  const std::vector<std::uint64_t> on_disk = steps_in(io::Directory::open(syscalls_, root_), format_);
  for (const std::uint64_t step : steps_in(images_, StepFormat())) {
    if (!on_disk.empty() && step <= on_disk.front()) {
      break;
    }
    try {
      persist(step, is_to_stop);
      return step;
    } catch (const Error& error) {
      if (!store::is_damage(syscalls_, error.code(), image(step))) {
        throw;
      }
      on_damage(error);
    }
  }
  return std::nullopt;
}

RunImages::Cleaned RunImages::clean(bool all) const {
  Memory::Options options;
  options.memory = memory_;
  options.root = root_;
  options.step_zero = mark_.step_zero;
  Memory memory(options, syscalls_, random_of(context_));
  Cleaned cleaned;
  std::optional<std::uint64_t> unsaved;
  for (const Image& each : memory.images()) {
    const bool is_on_disk = is_persisted(each.step);
    if ((all || is_on_disk) && memory.retire(each.step)) {
      cleaned.retired.push_back(each.step);
      continue;
    }
    cleaned.left.push_back(each.step);
    if (!is_on_disk && !each.is_damaged) {
      unsaved = each.step;
    }
  }
  memory.drop_spare();
  memory.end(unsaved);  // An agent that serves persists it, as it would have for the program before.
  return cleaned;
}

}  // namespace cairn::flash
