// SPDX-License-Identifier: Apache-2.0
// Random damage to a checkpoint of 100 MiB: prints one line with the counts.
//
// CAIRN_DAMAGE_CASES: how many damages (24 when unset); CAIRN_DAMAGE_SEED: where the random ones begin.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cairn/cairn.hpp"

#include "io/internal/syscalls.hpp"
#include "store/internal/verify.hpp"
#include "support/number_from.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kArrays = 4;
constexpr std::size_t kElements = std::size_t{25} << 18;  // Four times 25 MiB.

std::vector<Array> large() {
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < kArrays; ++i) {
    std::vector<std::uint32_t> values(kElements);
    std::iota(values.begin(), values.end(), static_cast<std::uint32_t>(i));
    arrays.push_back(Array::adopt(std::move(values)));
  }
  return arrays;
}

/// Flips the bits `mask` of `count` bytes from `begin` on; the same call again undoes it.
void damage(const fs::path& path, std::uint64_t begin, std::uint64_t count, int mask) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::string bytes(count, '\0');
  file.seekg(static_cast<std::streamoff>(begin)).read(bytes.data(), static_cast<std::streamsize>(count));
  for (char& byte : bytes) {
    byte = static_cast<char>(byte ^ mask);
  }
  file.seekp(static_cast<std::streamoff>(begin)).write(bytes.data(), static_cast<std::streamsize>(count));
}

/// Returns whether a load of everything fails and names `file`.
bool load_blames(const fs::path& checkpoint, const std::string& file) {
  try {
    static_cast<void>(load_checkpointables(checkpoint));
    return false;
  } catch (const Error& error) {
    return std::string(error.what()).find(file) != std::string::npos;
  }
}

bool verify_blames(const fs::path& checkpoint, const std::string& file) {
  try {
    for (const store::VerifyProblem& problem : store::verify(io::posix_syscalls(), checkpoint).problems) {
      if (problem.file == file) {
        return true;
      }
    }
    return false;
  } catch (const Error& error) {
    return std::string(error.what()).find(file) != std::string::npos;
  }
}

TEST(DamageOfALargeCheckpoint, IsAlwaysFound) {
  const std::uint64_t cases = testing::number_from("CAIRN_DAMAGE_CASES", 24);
  const std::uint64_t seed = testing::number_from("CAIRN_DAMAGE_SEED", 1);
  const testing::TempDir directory;
  const fs::path checkpoint = directory / "checkpoint";
  const std::vector<Array> arrays = large();
  save_checkpointables(checkpoint, {{"0", arrays[0]}, {"1", arrays[1]}, {"2", arrays[2]}, {"3", arrays[3]}});
  std::vector<std::string> files = testing::list_tree(checkpoint);
  std::erase_if(files, [&](const std::string& file) { return !fs::is_regular_file(checkpoint / file); });
  std::mt19937_64 random(seed);

  std::uint64_t missed = 0;
  for (std::uint64_t i = 0; i < cases; ++i) {
    const std::string& file = files[random() % files.size()];
    const std::uint64_t size = fs::file_size(checkpoint / file);
    const std::uint64_t begin = random() % size;
    const std::uint64_t count = 1 + random() % std::min<std::uint64_t>(size - begin, 4096);
    const int mask = 1 + static_cast<int>(random() % 255);
    damage(checkpoint / file, begin, count, mask);
    const bool is_found = load_blames(checkpoint, file) && verify_blames(checkpoint, file);
    missed += is_found ? 0 : 1;
    EXPECT_TRUE(is_found) << file << " [" << begin << ", " << begin + count << ") xor " << mask;
    damage(checkpoint / file, begin, count, mask);
  }

  fmt::print("damage: {} cases in a checkpoint of 100 MiB: {} missed (seed {})\n", cases, missed, seed);
  EXPECT_TRUE(store::verify(io::posix_syscalls(), checkpoint).is_sound());
}

}  // namespace
}  // namespace cairn
