// SPDX-License-Identifier: Apache-2.0
#include "flash/memory.hpp"

#include <sys/statvfs.h>
#include <system_error>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "flash/memory_directory.hpp"
#include "io/internal/check.hpp"
#include "io/internal/file.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "training/internal/annotations.hpp"

namespace cairn::flash {
namespace {

/// With no limit that was given: one is complete while the other is filled.
constexpr std::size_t kTwoImages = 2;

std::string name_of(std::uint64_t step) {
  return StepFormat().name(step);
}

/// What the files below a directory take.
std::uint64_t bytes_below(const io::Directory& directory) {
  std::uint64_t bytes = 0;
  for (const io::DirectoryEntry& entry : directory.list()) {
    if (entry.kind == io::FileKind::directory) {
      bytes += bytes_below(directory.open_directory(entry.name));
    } else if (const auto status = directory.status(entry.name)) {
      bytes += status->allocated_bytes;
    }
  }
  return bytes;
}

bool is_of(const Image& image, std::uint64_t step) {
  return image.step == step;
}

}  // namespace

std::optional<std::size_t> image_to_retire(std::span<const Image> images, bool has_room_for_one,
                                           bool may_lose_the_only_one) {
  const auto damaged = std::find_if(images.begin(), images.end(),
                                    [](const Image& image) { return image.is_damaged && !image.is_wanted; });
  if (damaged != images.end()) {
    return static_cast<std::size_t>(damaged - images.begin());
  }
  const auto is_sound = [](const Image& image) { return !image.is_damaged; };
  const auto newest = std::find_if(images.rbegin(), images.rend(), is_sound);
  const auto oldest = std::find_if(images.begin(), images.end(), [&](const Image& image) {
    const bool may_go = has_room_for_one && (image.is_on_disk || may_lose_the_only_one);
    return is_sound(image) && !image.is_wanted && (may_go || image.step != newest->step);
  });
  return oldest == images.end() ? std::nullopt
                                : std::optional(static_cast<std::size_t>(oldest - images.begin()));
}

Memory::Memory(Options options, io::Syscalls& syscalls, store::RandomSource random)
    : options_(std::move(options)),
      syscalls_(syscalls),
      random_(std::move(random)),
      path_(options_.memory / kRankName),
      root_(claim_memory(options_, syscalls_, random_)) {
  const MutexLock lock(mutex_);
  find_images();
  allow_rest();
  root_->trim(root_->allowed_bytes());
}

/// Who has the claim knows that all that is not finished has lost its writer.
void Memory::find_images() {
  for (const io::DirectoryEntry& entry : root_->directory().list()) {
    if (entry.kind != io::FileKind::directory) {
      continue;
    }
    if (entry.name.starts_with(".tmp-") || entry.name.starts_with(".trash-")) {
      store::remove_whole(root_->directory(), entry.name, random_);
      continue;
    }
    const std::optional<std::uint64_t> step = StepFormat().parse(entry.name);
    if (!step) {
      continue;
    }
    Image image;
    image.step = *step;
    try {
      image.bytes = bytes_below(root_->directory().open_directory(entry.name));
      const auto opened = store::CommittedDirectory::open(syscalls_, path_ / entry.name);
      image.line = training::notes_of(opened.manifest().annotations, entry.name).line;
    } catch (const Error&) {
      image.is_damaged = true;
    }
    images_.push_back(std::move(image));
  }
  std::sort(images_.begin(), images_.end(), [](const Image& a, const Image& b) { return a.step < b.step; });
}

std::optional<Error> refusal_of(const training::StepLines& lines, std::uint64_t line, std::uint64_t step,
                                const std::filesystem::path& path) {
  switch (lines.standing(line, step)) {
    case training::StepLines::Standing::kept:
      return std::nullopt;
    case training::StepLines::Standing::given_up:
      return Error(
          Errc::superseded,
          fmt::format("{} belongs to steps that were given up: a rewind went back below it (its line is "
                      "{}, and the run is in line {})",
                      path.string(), line, lines.newest()));
    case training::StepLines::Standing::unknown:
      break;
  }
  return Error(
      Errc::invalid_argument,
      fmt::format("{} is of line {} of the steps, and {}/{} in the directory of steps knows none after {}; "
                  "cairn agent clean --all gives the image up",
                  path.string(), line, training::kFlashName, training::kLineName, lines.newest()));
}

std::vector<std::string> Memory::enter(const training::StepLines& lines) {
  std::vector<std::string> told;
  const MutexLock lock(mutex_);

  std::vector<Image> given_up;
  for (const Image& image : images_) {
    const std::optional<Error> refusal =
        image.is_damaged ? std::nullopt : refusal_of(lines, image.line, image.step, path(image.step));
    if (refusal && refusal->code() != Errc::superseded) {
      throw *refusal;
    }
    if (refusal) {
      given_up.push_back(image);
      told.emplace_back(refusal->detail());
    }
  }
  lines_ = lines;
  for (const Image& image : given_up) {
    if (!try_retire(image.step)) {
      mark(image.step, &Image::is_damaged, true);
      mark(image.step, &Image::is_given_up, true);
    }
  }
  return told;
}

std::uint64_t Memory::line() const {
  const MutexLock lock(mutex_);
  return lines_.newest();
}

void Memory::renew_mark() const {
  const io::Directory memory = io::Directory::open(syscalls_, options_.memory);
  const std::optional<store::MemoryMark> found = store::read_mark_above(root_->directory());
  if (!found) {
    return;
  }
  const store::MemoryMark wanted = mark_of(options_, found->run);
  if (*found != wanted) {
    const std::string made =
        fmt::format("{}.{}", store::kMemoryMarkName, store::to_string(store::make_uuid(random_)));
    io::write_small_file(memory, made, store::encode_mark(wanted), 0600);
    memory.rename(made, memory, store::kMemoryMarkName, io::RenameMode::replace);
  }
}

std::filesystem::path Memory::path(std::uint64_t step) const {
  return path_ / name_of(step);
}

std::vector<Image> Memory::images() const {
  const MutexLock lock(mutex_);
  return images_;
}

std::optional<std::uint64_t> Memory::latest() const {
  const MutexLock lock(mutex_);
  const auto newest =
      std::find_if(images_.rbegin(), images_.rend(), [](const Image& image) { return !image.is_damaged; });
  return newest == images_.rend() ? std::nullopt : std::optional(newest->step);
}

bool Memory::has(std::uint64_t step) const {
  const MutexLock lock(mutex_);
  return std::any_of(images_.begin(), images_.end(),
                     [step](const Image& image) { return is_of(image, step); });
}

bool Memory::has_sound(std::uint64_t step) const {
  const MutexLock lock(mutex_);
  return std::any_of(images_.begin(), images_.end(),
                     [step](const Image& image) { return is_of(image, step) && !image.is_damaged; });
}

std::size_t Memory::most_images(std::uint64_t wanted) const {
  if (has_room_for_one_) {
    return 1;
  }
  const std::uint64_t largest =
      std::accumulate(images_.begin(), images_.end(), wanted,
                      [](std::uint64_t most, const Image& image) { return std::max(most, image.bytes); });
  if (options_.limit_bytes == 0 || largest == 0) {
    return kTwoImages;
  }
  return static_cast<std::size_t>(std::max<std::uint64_t>(options_.limit_bytes / largest, 1));
}

bool Memory::is_there() const {
  const io::Directory& root = root_->directory();
  if (!root.is_replaced()) {
    return true;
  }
  io::FileStatus status;
  io::require(io::uninterrupted([&] { return syscalls_.status(root.fd(), status); }), "stat", path_);
  if (status.links == 0) {
    return false;
  }
  throw Error(
      Errc::invalid_argument,
      fmt::format("{} is another directory than the one that this program fills, which was moved away",
                  path_.string()));
}

void Memory::look_for_room() {
  root_->drop_removed();  // No save may begin that would do it.
  const MutexLock lock(mutex_);
  struct statvfs figures {};
  if (!has_room_for_one_ || ::fstatvfs(root_->directory().fd(), &figures) != 0) {
    return;
  }
  const std::uint64_t free = std::uint64_t{figures.f_bavail} * figures.f_frsize + root_->spare_bytes();
  has_room_for_one_ =
      std::any_of(images_.begin(), images_.end(), [free](const Image& image) { return image.bytes > free; });
}

bool Memory::make_room(std::uint64_t step, std::uint64_t wanted) {
  const MutexLock lock(mutex_);
  const bool is_taken =
      std::any_of(images_.begin(), images_.end(), [step](const Image& image) { return is_of(image, step); });
  if (is_taken && !try_retire(step)) {
    return false;
  }
  std::vector<Image> left = images_;  // Those that nobody is known to read.
  while (images_.size() >= most_images(wanted)) {
    const std::optional<std::size_t> index =
        image_to_retire(left, most_images(wanted) == 1, options_.may_lose_the_only_image);
    if (!index) {
      return false;
    }
    if (try_retire(left[*index].step)) {
      left = images_;
    } else {
      left[*index].is_wanted = true;
    }
  }
  allow_rest();
  return true;
}

/// What the images leave of the limit is for the next one, and for spare files.
void Memory::allow_rest() {
  if (options_.limit_bytes != 0) {
    const std::uint64_t taken =
        std::accumulate(images_.begin(), images_.end(), std::uint64_t{0},
                        [](std::uint64_t sum, const Image& image) { return sum + image.bytes; });
    root_->allow(options_.limit_bytes - std::min(options_.limit_bytes, taken));
  }
}

bool Memory::may_fit_yet(std::uint64_t& wanted) {
  const std::uint64_t asked = root_->asked_bytes();
  const MutexLock lock(mutex_);
  if (asked <= root_->allowed_bytes()) {
    return !std::exchange(has_room_for_one_, true);
  }
  return asked > std::exchange(wanted, asked) && asked <= options_.limit_bytes;
}

bool Memory::try_retire(std::uint64_t step) {
  store::CheckpointLock lock(root_->directory(), name_of(step));
  if (!lock.is_held() || lock.is_in_use()) {
    return false;
  }
  remove(step);
  return true;
}

/// Its lock is held.
void Memory::remove(std::uint64_t step) {
  const io::Directory& root = root_->directory();
  const std::string name = name_of(step);
  try {
    store::remove_checkpoint(root, name, random_, nullptr, store::Surroundings::alone);
  } catch (const Error& error) {
    if (error.code().category() != cairn_category()) {
      throw;
    }
    if (root.status(name)) {  // Damaged, so that nobody can tell what is its own: here all is.
      store::remove_whole(root, name, random_);
    }
  }
  std::erase_if(images_, [step](const Image& image) { return is_of(image, step); });
}

void Memory::warm() noexcept {
  for (const Image& image : images()) {
    try {
      root_->warm(name_of(image.step));
    } catch (const Error&) {  // The save that wants it maps it, or says why not.
    }
  }
}

void Memory::prepare(std::span<const std::uint64_t> sizes, const std::function<bool()>& is_over) noexcept {
  std::size_t left = 0;
  {
    const MutexLock lock(mutex_);
    left = most_images() - std::min(most_images(), images_.size());
  }
  try {
    for (; left > 0; --left) {
      root_->prepare(sizes, is_over);
    }
  } catch (const Error&) {  // As above.
  }
}

void Memory::add(std::uint64_t step, std::uint64_t bytes) {
  Image image;
  image.step = step;
  image.line = line();
  try {
    image.bytes = bytes_below(root_->directory().open_directory(name_of(step)));
  } catch (const Error&) {
    image.bytes = bytes;
  }
  const MutexLock lock(mutex_);
  const auto place = std::upper_bound(images_.begin(), images_.end(), step,
                                      [](std::uint64_t a, const Image& b) { return a < b.step; });
  images_.insert(place, std::move(image));
  // What the next image may want stays; the rest would be memory that nobody uses.
  root_->trim(images_.size() >= most_images() ? 0 : bytes);
}

void Memory::set(std::uint64_t step, bool Image::*what, bool is_so) {
  const MutexLock lock(mutex_);
  mark(step, what, is_so);
}

void Memory::mark(std::uint64_t step, bool Image::*what, bool is_so) {
  for (Image& image : images_) {
    if (is_of(image, step)) {
      image.*what = is_so;
    }
  }
}

std::optional<std::uint64_t> Memory::newest_there() const {
  const std::optional<std::uint64_t> newest = latest();
  return newest && root_->directory().status(name_of(*newest)) ? newest : std::nullopt;
}

bool Memory::want(std::uint64_t step) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(images_.begin(), images_.end(), [step](const Image& image) {
    return is_of(image, step) && !image.is_damaged;
  });
  if (found == images_.end()) {
    return false;
  }
  found->is_wanted = true;
  return true;
}

void Memory::set_on_disk(std::uint64_t step) {
  const MutexLock lock(mutex_);
  for (Image& image : images_) {
    image.is_on_disk = image.is_on_disk || image.step <= step;
    image.is_wanted = image.is_wanted && image.step != step;
  }
}

bool Memory::retire(std::uint64_t step) {
  const MutexLock lock(mutex_);
  return try_retire(step);
}

void Memory::drop_spare() {
  root_->begin();  // Nobody else may be making any.
  root_->drop_spare();
}

Memory::HeldImages Memory::hold_above(std::uint64_t step) const {
  HeldImages held;
  const MutexLock lock(mutex_);
  for (const Image& image : images_) {
    if (image.step <= step) {
      continue;
    }
    store::CheckpointLock& each =
        held.try_emplace(image.step, root_->directory(), name_of(image.step)).first->second;
    if (!each.is_held() || each.is_in_use()) {
      throw Error(std::error_code(EBUSY, std::system_category()),
                  fmt::format("{} is being read", path(image.step).string()));
    }
  }
  return held;
}

void Memory::retire(HeldImages held) {
  const MutexLock lock(mutex_);
  for (auto last = held.rbegin(); last != held.rend(); ++last) {
    remove(last->first);
  }
}

}  // namespace cairn::flash
