// SPDX-License-Identifier: Apache-2.0
#include "disk/cached_disk.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <random>
#include <utility>

namespace cairn::disk {
namespace {

/// Zeros; the system gives a page of them when it is first touched, so that an empty disk costs nothing.
std::byte* zeros(std::uint64_t bytes) {
  void* memory = std::calloc(bytes, 1);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

CachedDisk::CachedDisk(std::uint64_t bytes) : bytes_(bytes), seen_(zeros(bytes)), durable_(zeros(bytes)) {}

bool CachedDisk::fails(Request request, std::uint64_t offset, std::uint64_t size) {
  bool is_hit = false;
  for (Fault& fault : faults_) {
    const bool touches = request == Request::sync || (offset < fault.end && fault.begin < offset + size);
    if (fault.request != request || !touches) {
      continue;
    }
    if (fault.skipped > 0) {
      --fault.skipped;
    } else if (fault.times > 0) {
      --fault.times;
      is_hit = true;
    }
  }
  hits_ += is_hit ? 1 : 0;
  return is_hit || !is_on_;
}

std::uint64_t CachedDisk::heal() {
  faults_.clear();
  return std::exchange(hits_, 0);
}

bool CachedDisk::read(std::uint64_t offset, std::span<std::byte> data) {
  if (offset > bytes_ || data.size() > bytes_ - offset || fails(Request::read, offset, data.size())) {
    return false;
  }
  std::memcpy(data.data(), seen_.get() + offset, data.size());
  return true;
}

bool CachedDisk::write(std::uint64_t offset, std::span<const std::byte> data) {
  if (offset > bytes_ || data.size() > bytes_ - offset || fails(Request::write, offset, data.size())) {
    return false;
  }
  std::memcpy(seen_.get() + offset, data.data(), data.size());
  unsynced_.push_back({offset, {data.begin(), data.end()}});
  return true;
}

bool CachedDisk::sync() {
  if (fails(Request::sync, 0, bytes_)) {
    return false;
  }
  for (const Write& write : unsynced_) {
    keep(write, 0, write.data.size());
  }
  unsynced_.clear();
  return true;
}

void CachedDisk::keep(const Write& write, std::size_t begin, std::size_t end) {
  std::memcpy(durable_.get() + write.offset + begin, write.data.data() + begin, end - begin);
}

CachedDisk::Remains CachedDisk::cut(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  // Anything between a disk that has not begun to empty its cache (often) and one that had just done so.
  const double share = std::uniform_real_distribution<double>(-0.2, 1.0)(random);
  std::bernoulli_distribution survives(std::max(share, 0.0));
  Remains remains;
  for (const Write& write : unsynced_) {
    const bool is_torn = random() % 4 == 0;
    bool stays = survives(random);
    std::size_t end = 0;
    for (std::size_t begin = 0; begin < write.data.size(); begin = end) {
      end = std::min(begin + kSectorBytes - (write.offset + begin) % kSectorBytes, write.data.size());
      stays = is_torn ? survives(random) : stays;
      if (stays) {
        keep(write, begin, end);
      }
      ++(stays ? remains.kept_sectors : remains.lost_sectors);
    }
  }
  for (const Write& write : unsynced_) {
    std::memcpy(seen_.get() + write.offset, durable_.get() + write.offset, write.data.size());
  }
  unsynced_.clear();
  is_on_ = false;
  return remains;
}

}  // namespace cairn::disk
