// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/load.hpp"
#include "cairn/api/maintain.hpp"
#include "cairn/base/error.hpp"

#include "flash/state.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/damage.hpp"
#include "store/internal/uuid.hpp"

namespace cairn {

using flash::Image;

flash::Persisted FlashCheckpointer::State::persisted_as(std::uint64_t step) {
  try {
    return flash::look_whether_persisted(syscalls, memory.path(step), disk.info(step).path);
  } catch (const Error& error) {
    return error.code() == Errc::not_found ? flash::Persisted::no : flash::Persisted::unknown;
  }
}

training::StepLines FlashCheckpointer::State::lines_on_disk() const {
  return training::StepLines::read(io::Directory::open(syscalls, root));
}

std::vector<std::string> FlashCheckpointer::State::enter(const training::StepLines& lines) {
  std::vector<std::string> told = memory.enter(lines);
  for (const std::string& each : told) {
    report(std::make_exception_ptr(Error(Errc::superseded, each)));
  }
  return told;
}

void FlashCheckpointer::State::enter_if_rewound() {
  const std::optional<training::StepLines> lines = copies.lines();
  if (lines && lines->newest() > memory.line()) {
    enter(*lines);
  }
}

/// Where there is room for one image, it may go when it, or a newer step, is on disk.
void FlashCheckpointer::State::look_what_is_on_disk() {
  const std::optional<std::uint64_t> newest = copies.newest(true);
  for (const Image& image : memory.images()) {
    const bool is_older = newest && image.step < *newest;
    memory.set(image.step, &Image::is_on_disk,
               is_older || (!image.is_damaged && persisted_as(image.step) == flash::Persisted::yes));
  }
}

Loaded FlashCheckpointer::State::load_image(std::uint64_t step, const Requests& requests,
                                            const LoadOptions& how) {
  return load_checkpointables(memory.path(step), requests, how, context);
}

bool FlashCheckpointer::State::is_damage(const std::filesystem::path& path,
                                         const std::exception_ptr& why) const {
  const std::optional<std::error_code> code = code_of(why);
  try {
    return code && store::is_damage(syscalls, *code, path);
  } catch (const Error&) {
    return false;
  }
}

/// The newest image that is as new as `on_disk`. What is damaged is passed over, and not tried twice.
std::optional<FlashResumed> FlashCheckpointer::State::resume_from_memory(
    const Requests& requests, const ResumeOptions& how, const std::optional<std::uint64_t>& on_disk,
    std::vector<PassedOver>& passed_over) {
  std::vector<Image> images = memory.images();
  std::reverse(images.begin(), images.end());
  for (const Image& image : images) {
    if (on_disk && (image.step < *on_disk ||
                    (image.step == *on_disk && persisted_as(image.step) == flash::Persisted::no))) {
      break;
    }
    const std::filesystem::path path = memory.path(image.step);
    if (image.is_given_up || std::any_of(passed_over.begin(), passed_over.end(),
                                         [&path](const PassedOver& each) { return each.path == path; })) {
      continue;
    }
    try {
      FlashResumed resumed;
      resumed.step = image.step;
      resumed.loaded = load_image(image.step, requests, how.load);
      if (how.accept && !how.accept(image.step, resumed.loaded)) {
        passed_over.push_back({path, make_error_code(Errc::invalid_argument),
                               fmt::format("{}: ResumeOptions::accept did not take it", path.string())});
        continue;
      }
      resumed.from = ResumedFrom::memory;
      return resumed;
    } catch (const Error& error) {
      if (!is_damage(path, std::current_exception())) {
        throw;
      }
      passed_over.push_back({path, error.code(), error.what()});
    }
    memory.set(image.step, &Image::is_damaged);  // It is the first to give way to the next save.
  }
  return std::nullopt;
}

/// What the disk has passed over may be newer than an image that is newer than what it would go on from.
std::optional<FlashResumed> FlashCheckpointer::State::resume_from_disk(const Requests& requests,
                                                                       const ResumeOptions& how,
                                                                       std::vector<PassedOver>& passed_over) {
  const std::optional<std::uint64_t> newest = disk.latest();
  std::optional<Resumed> from_disk;
  std::exception_ptr refusal;
  try {
    from_disk = disk.resume(requests, how);
  } catch (const Error&) {
    refusal = std::current_exception();
  }
  const bool has_fallen_back = refusal
                                   ? how.fall_back && newest && is_damage(disk.info(*newest).path, refusal)
                                   : from_disk && !from_disk->passed_over.empty();
  std::optional<FlashResumed> resumed;
  if (has_fallen_back) {
    const auto step = from_disk ? std::optional(from_disk->step) : std::nullopt;
    resumed = resume_from_memory(requests, how, step, passed_over);
    if (resumed && from_disk) {
      resumed->passed_over = std::move(from_disk->passed_over);
    }
  }
  if (refusal && !resumed) {
    std::rethrow_exception(refusal);
  }
  if (from_disk && !resumed) {
    resumed.emplace();
    static_cast<Resumed&>(*resumed) = *std::move(from_disk);
  }
  return resumed;
}

/// Has the memory made and mapped that the saves to come want, so that the first is as fast as any.
void FlashCheckpointer::State::make_ready(const FlashResumed& resumed) {
  std::vector<std::uint64_t> sizes;
  try {
    const bool is_here = resumed.from == ResumedFrom::memory;
    const auto path = is_here ? memory.path(resumed.step) : disk.info(resumed.step).path;
    const auto opened = store::CommittedDirectory::open(syscalls, path);
    for (const store::FileEntry& file : opened.manifest().files) {
      sizes.push_back(file.size_bytes);
    }
  } catch (const Error&) {  // The saves make what they need.
  }
  preparer.post([this, sizes = std::move(sizes)] {
    memory.warm();
    memory.prepare(sizes, [this] {
      const MutexLock lock(mutex);
      return in_flight != nullptr || persisted != nullptr || is_closed;  // They make what they need.
    });
  });
}

std::optional<FlashResumed> FlashCheckpointer::State::resume(const Requests& requests,
                                                             const ResumeOptions& how) {
  settle_in_flight();
  if (how.recover) {  // Also where it goes on from memory.
    recover(root, how.recovery, context);
  }
  disk.reload();
  std::vector<std::string> not_taken = enter(lines_on_disk());
  not_taken.insert(not_taken.begin(), not_taken_at_start.begin(), not_taken_at_start.end());
  std::vector<PassedOver> passed_over;
  std::optional<FlashResumed> resumed = resume_from_memory(requests, how, disk.latest(), passed_over);
  if (!resumed) {
    resumed = resume_from_disk(requests, how, passed_over);
  }
  if (!resumed) {
    if (!passed_over.empty()) {  // To begin anew is a decision.
      throw Error(passed_over.front().code, passed_over.front().why);
    }
    return std::nullopt;
  }
  const std::optional<std::uint64_t> in_memory = memory.latest();
  const std::optional<std::uint64_t> on_disk = disk.latest();
  const auto text_of = [](const std::optional<std::uint64_t>& step) {
    return step ? fmt::format("step {}", *step) : std::string("nothing");
  };
  resumed->why = fmt::format("{} is in memory, {} on disk", text_of(in_memory), text_of(on_disk));
  for (const PassedOver& each : passed_over) {
    not_taken.push_back(each.why);
  }
  for (const std::string& each : not_taken) {
    resumed->why += fmt::format("; {}", each);
  }
  has_gone_on = true;
  make_ready(*resumed);
  resumed->passed_over.insert(resumed->passed_over.begin(), passed_over.begin(), passed_over.end());
  return resumed;
}

}  // namespace cairn
