// SPDX-License-Identifier: Apache-2.0
#include "store/internal/written_files.hpp"

#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"

namespace cairn::store {

void WrittenFiles::claim(const std::string& path, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (!claimed_.insert(path).second) {
    throw Error(Errc::already_exists, fmt::format("the file '{}' is written twice", path));
  }
  bytes_ += bytes;
}

void WrittenFiles::add(io::FileDigest digest) {
  const MutexLock lock(mutex_);
  std::string path = digest.path;
  CAIRN_ASSERT(digest.chunks.size() == io::chunk_count(digest.size_bytes),
               "a file that is written has a hash for each chunk");
  digests_.emplace(std::move(path), std::move(digest));
}

void WrittenFiles::require_complete(const std::string& prefix, std::string_view remark) const {
  const MutexLock lock(mutex_);
  for (auto path = claimed_.lower_bound(prefix); path != claimed_.end() && path->starts_with(prefix);
       ++path) {
    if (!digests_.contains(*path)) {
      throw Error(Errc::handler_failed, fmt::format("the file '{}' was begun, but its background part was "
                                                    "never awaited, or its stream not finished{}",
                                                    *path, remark));
    }
  }
}

WrittenFiles::Digests WrittenFiles::take_digests() {
  const MutexLock lock(mutex_);
  return std::exchange(digests_, {});
}

}  // namespace cairn::store
