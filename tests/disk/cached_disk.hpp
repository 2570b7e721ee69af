// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace cairn::disk {

inline constexpr std::uint64_t kSectorBytes = 512;

enum class Request { read, write, sync };

/// Which requests fail: of those that touch [begin, end), the first `skipped` do not, the next `times` do.
struct Fault {
  Request request = Request::write;
  std::uint64_t skipped = 0;
  std::uint64_t times = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t begin = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
};

/// A disk with a cache that forgets: what is written is seen at once, and durable when a sync has come after it.
///
/// Threads: not safe.
class CachedDisk {
 public:
  explicit CachedDisk(std::uint64_t bytes);

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// Each returns false, and has done nothing, when the power is off or a fault has hit it.
  [[nodiscard]] bool read(std::uint64_t offset, std::span<std::byte> data);
  [[nodiscard]] bool write(std::uint64_t offset, std::span<const std::byte> data);
  [[nodiscard]] bool sync();

  struct Remains {
    std::uint64_t kept_sectors = 0;
    std::uint64_t lost_sectors = 0;
  };

  /// Switches the power off. Of what was written since the last sync some sectors stay, as `seed` says; a sector that
  /// was written twice may have either content, or neither.
  Remains cut(std::uint64_t seed);
  void power_on() { is_on_ = true; }

  void add(const Fault& fault) { faults_.push_back(fault); }
  /// Forgets all faults. Returns how many requests they have hit.
  std::uint64_t heal();

 private:
  struct Write {
    std::uint64_t offset;
    std::vector<std::byte> data;
  };
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte[], Free>;

  bool fails(Request request, std::uint64_t offset, std::uint64_t size);
  /// Puts the bytes [begin, end) of `write` where nothing gets lost.
  void keep(const Write& write, std::size_t begin, std::size_t end);

  std::uint64_t bytes_;
  Memory seen_;
  Memory durable_;
  std::vector<Write> unsynced_;
  std::vector<Fault> faults_;
  std::uint64_t hits_ = 0;
  bool is_on_ = true;
};

}  // namespace cairn::disk
