// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint_copy.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "core/drop_later.hpp"
#include "store/internal/assembly.hpp"

namespace cairn::core {

CheckpointCopy::~CheckpointCopy() {
  if (original_) {
    drop_later(operation_.services_owner(), std::move(original_));
  }
}

bool CheckpointCopy::look() {
  const Services& services = operation_.services();
  CAIRN_ASSERT(!original_, "the checkpoint to copy is opened once");
  original_ = std::make_unique<store::HeldCheckpoint>(services.checkpoint_store(),
                                                      services.disk.engine().syscalls(), from_);
  if (is_there()) {
    original_.reset();
    files_.report().set_path(files_.path());
    return false;
  }
  files_.look(false);
  for (const store::FileEntry& file : manifest().files) {
    files_.claim(file.path, file.size_bytes);
  }
  return true;
}

bool CheckpointCopy::is_there() const {
  try {
    const Services& services = operation_.services();
    io::Syscalls& syscalls = services.disk.engine().syscalls();
    return services.checkpoint_store().open_committed(syscalls, files_.path())->manifest()->uuid ==
           manifest().uuid;
  } catch (const Error&) {  // The look at the target says what is there.
    return false;
  }
}

void CheckpointCopy::make_directories() const {
  for (const std::string& directory : store::directories_of(manifest())) {
    files_.staged().make_directory(directory);
  }
}

std::vector<Awaitable<>> CheckpointCopy::copy() {
  CAIRN_ASSERT(original_, "what is copied is held");
  std::vector<Awaitable<>> sharers;
  while (sharers.size() < std::min(manifest().files.size(), operation_.plane().sharers())) {
    sharers.push_back(copy_next());
  }
  return sharers;
}

Awaitable<> CheckpointCopy::copy_next() {
  const std::vector<store::FileEntry>& files = manifest().files;
  while (next_ < files.size()) {
    const std::string& path = files[next_++].path;
    store::CreateFile create = [this](const std::string& relative, const io::NewFileOptions& options) {
      return files_.create_file(relative, options);
    };
    std::shared_ptr<staging::DataPlane> own(operation_.shared_from_this(), &operation_.plane());
    Background<io::FileDigest> copied =
        store::copy_file(std::move(own), original_->source(), path, std::move(create), true);
    files_.add(co_await std::move(copied));
  }
}

}  // namespace cairn::core
