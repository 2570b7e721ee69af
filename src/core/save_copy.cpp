// SPDX-License-Identifier: Apache-2.0
// A save that copies a checkpoint, instead of asking handlers for what is in it.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"

#include "core/save_job.hpp"
#include "store/internal/assembly.hpp"
#include "store/internal/manifest.hpp"

namespace cairn::core {

bool SaveJob::look_for_copy() {
  io::Syscalls& syscalls = services().disk.engine().syscalls();
  original_ = std::make_unique<store::HeldCheckpoint>(services().checkpoint_store(), syscalls, copied_);
  if (is_there()) {
    original_.reset();
    const MutexLock lock(mutex_);
    result_.path = path_;
    return false;
  }
  target_ = services().checkpoint_store().look(syscalls, path_, options_.overwrite, options_.create_parents);
  for (const store::FileEntry& file : original_->manifest().files) {
    files_.claim(file.path, file.size_bytes);
  }
  return true;
}

bool SaveJob::is_there() const {
  try {
    io::Syscalls& syscalls = services().disk.engine().syscalls();
    return services().checkpoint_store().open_committed(syscalls, path_)->manifest()->uuid ==
           original_->manifest().uuid;
  } catch (const Error&) {  // The look at the target says what is there.
    return false;
  }
}

Awaitable<> SaveJob::copy_all() {
  std::vector<Awaitable<>> sharers;
  const std::size_t files = original_->manifest().files.size();
  while (sharers.size() < std::min(files, plane().sharers())) {
    sharers.push_back(copy_files());
  }
  co_await run_phase(background_lane(), std::move(sharers));
  meter().end_step(Step::background);
}

Awaitable<> SaveJob::copy_files() {
  const std::vector<store::FileEntry>& files = original_->manifest().files;
  while (next_copied_ < files.size()) {
    const std::string& path = files[next_copied_++].path;
    store::CreateFile create = [this](const std::string& relative, const io::NewFileOptions& options) {
      return create_file(relative, options);
    };
    std::shared_ptr<staging::DataPlane> own(shared_from_this(), &plane());
    Background<io::FileDigest> copied =
        store::copy_file(std::move(own), original_->source(), path, std::move(create), true);
    files_.add(co_await std::move(copied));
  }
}

}  // namespace cairn::core
