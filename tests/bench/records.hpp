// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

namespace cairn::bench {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Numbers that do not pack.
class Noise {
 public:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

  void fill(std::string& bytes) {
    for (std::size_t i = 0; i + sizeof(std::uint64_t) <= bytes.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t number = next();
      std::memcpy(bytes.data() + i, &number, sizeof number);
    }
  }

 private:
  std::uint64_t state_ = 88172645463325252U;
};

/// Reads a file, so that it is in the page cache.
void read_once(const std::filesystem::path& path);

/// So many MiB of records of 1 KiB in chunks of 1 MiB, read and verified; and what zstd takes by itself.
void run_records(const std::filesystem::path& directory, std::size_t mebibytes);

}  // namespace cairn::bench
