// SPDX-License-Identifier: Apache-2.0
// Every damage that is known, done to every file of a small checkpoint. Prints one line with the counts.
//
// Of bytes and lengths one in sixteen is taken, and CAIRN_SEED says which; CAIRN_SEED=all takes each.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "damage/victim.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"

namespace cairn::damage {
namespace {

namespace fs = std::filesystem;
using testing::write_text;

struct Counts {
  std::size_t flips = 0, truncations = 0, swaps = 0, replacements = 0, missed = 0;
};

ContextOptions small() {
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  options.worker_threads = 1;
  options.staging_bytes = std::size_t{64} << 20;
  return options;
}

/// One in sixteen, of 64 where a sanitizer watches.
constexpr std::size_t kOneIn = testing::kHasSanitizer ? 64 : 16;

/// Which bytes or lengths of so many are tried: the first, the last, and one in kOneIn, or a quarter of a few.
class Tried {
 public:
  explicit Tried(std::size_t count) : count_(count), sample_(std::clamp<std::size_t>(count / 4, 1, kOneIn)) {}
  [[nodiscard]] bool operator()(std::size_t at) const {
    return at == 0 || at + 1 == count_ || sample_.takes(at);
  }

 private:
  std::size_t count_;
  testing::Sample sample_;
};

class Damage : public ::testing::Test {
 protected:
  static void TearDownTestSuite() {
    fmt::print("damage: {} flips, {} truncations, {} swaps, {} replacements: {} missed (seed {})\n",
               counts_.flips, counts_.truncations, counts_.swaps, counts_.replacements, counts_.missed,
               testing::seed());
  }

  /// What the test has just done to the checkpoint must be found, and `culprits` blamed.
  void expect_found(const std::string& damage, const std::vector<std::string>& culprits,
                    Load load = Load::fails) {
    const std::string problem = victim_.misjudged(culprits, load);
    counts_.missed += problem.empty() ? 0 : 1;
    EXPECT_EQ(problem, "") << damage;
  }

  /// Puts something in the file's place, with `make`; then the file is back.
  template <class Make>
  void replace(const std::string& name, const std::string& damage, const Make& make) {
    const fs::path file = victim_.path() / name;
    fs::rename(file, directory_ / "aside");
    make(file);
    ++counts_.replacements;
    expect_found(name + " " + damage, {name, fs::path(name).filename().string()});
    fs::remove_all(file);
    fs::rename(directory_ / "aside", file);
  }

  static Counts counts_;
  testing::TempDir directory_;
  Context context_{small()};
  const Victim victim_{directory_ / "checkpoint", 7, context_};
};

Counts Damage::counts_;

TEST_F(Damage, NoneIsFoundWhereThereIsNone) {
  EXPECT_EQ(victim_.load_complaint(), "");
  EXPECT_EQ(victim_.verify_complaint(), "");
}

TEST_F(Damage, OfOneByteIsFound) {
  for (const auto& [name, text] : victim_.files()) {
    std::fstream file(victim_.path() / name, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&file](std::size_t at, int value) {
      file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(value)).flush();
    };
    const Tried is_tried(text.size());
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (!is_tried(at)) {
        continue;
      }
      for (const int mask : {1 << (at % 8), 0xff}) {
        put(at, text[at] ^ mask);
        ++counts_.flips;
        expect_found(fmt::format("{} byte {} xor {}", name, at, mask), {name});
      }
      put(at, text[at]);
    }
  }
}

TEST_F(Damage, OfTheLengthIsFound) {
  for (const auto& [name, text] : victim_.files()) {
    const Tried is_tried(text.size());
    for (std::size_t size = text.size(); size-- > 0;) {
      if (!is_tried(size)) {
        continue;
      }
      fs::resize_file(victim_.path() / name, size);
      ++counts_.truncations;
      expect_found(fmt::format("{} cut to {}", name, size), {name});
    }
    write_text(victim_.path() / name, text);
    for (const std::size_t more : {1, 8, 4096}) {
      fs::resize_file(victim_.path() / name, text.size() + more);
      ++counts_.truncations;
      expect_found(fmt::format("{} longer by {}", name, more), {name});
    }
    write_text(victim_.path() / name, text);
  }
}

TEST_F(Damage, BySwappingTwoFilesIsFound) {
  for (const auto& [first, first_text] : victim_.files()) {
    for (const auto& [second, second_text] : victim_.files()) {
      if (first < second) {
        write_text(victim_.path() / first, second_text);
        write_text(victim_.path() / second, first_text);
        ++counts_.swaps;
        expect_found(first + " and " + second, {first, second});
      }
      write_text(victim_.path() / first, first_text);
      write_text(victim_.path() / second, second_text);
    }
  }
}

TEST_F(Damage, ByAnotherKindOfFileIsFound) {
  for (const auto& [name, text] : victim_.files()) {
    replace(name, "removed", [](const fs::path&) {});
    replace(name, "a link to the file itself",
            [&](const fs::path& file) { fs::create_symlink(directory_ / "aside", file); });
    replace(name, "a FIFO", [](const fs::path& file) { ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0); });
    replace(name, "a directory", [](const fs::path& file) { fs::create_directory(file); });
  }
}

TEST_F(Damage, ByADeviceIsFound) {
  for (const auto& [name, text] : victim_.files()) {
    const fs::path node = directory_ / "node";
    if (::mknod(node.c_str(), S_IFCHR | 0600, ::makedev(1, 5)) != 0) {
      GTEST_SKIP() << "only root makes device nodes";
    }
    ASSERT_TRUE(fs::is_character_file(node));
    replace(name, "an endless device", [&](const fs::path& file) { fs::rename(node, file); });
  }
}

TEST_F(Damage, ByFilesOfAnotherCheckpointIsFound) {
  const Victim other(directory_ / "other", 8, context_);
  for (const auto& [name, text] : other.files()) {
    ASSERT_NE(text, victim_.files().at(name)) << name;
    // A COMMIT that is sound cannot be told from a checkpoint.json that is not.
    const std::string also = name == "COMMIT" ? "checkpoint.json" : name;
    write_text(victim_.path() / name, text);
    ++counts_.replacements;
    expect_found(name + " of another checkpoint", {name, also});
    write_text(victim_.path() / name, victim_.files().at(name));
  }
}

TEST_F(Damage, ByTheWholeChainOfAnotherCheckpointIsFound) {
  const Victim other(directory_ / "other", 8, context_);
  for (const std::string name : {"COMMIT", "checkpoint.json", "chunks.xxh3"}) {
    write_text(victim_.path() / name, other.files().at(name));
  }
  ++counts_.replacements;

  expect_found("COMMIT, checkpoint.json and chunks.xxh3 of another checkpoint",
               {"config", "counter", "tree"});
}

TEST_F(Damage, ByAFileTwiceIsFoundByVerifyAndHarmlessToALoad) {
  for (const auto& [name, text] : victim_.files()) {
    const fs::path copy = victim_.path() / (name + ".copy");
    write_text(copy, text);
    ++counts_.replacements;
    expect_found(name + " twice", {name + ".copy"}, Load::may_succeed);
    fs::remove(copy);
  }
}

TEST_F(Damage, WhileFilesAreReadNeverGivesOtherValues) {
  constexpr std::int64_t kOther = 8;
  const Victim other(directory_ / "other", kOther, context_);
  std::atomic<bool> is_over{false};
  std::thread vandal([&] {
    while (!is_over) {
      for (const auto& [name, text] : victim_.files()) {
        for (const std::string& bytes : {other.files().at(name), text}) {
          write_text(directory_ / "new", bytes);
          fs::rename(directory_ / "new", victim_.path() / name);
        }
      }
    }
  });

  std::size_t failures = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string complaint = victim_.load_complaint(kOther);
    failures += complaint.empty() ? 0 : 1;
    EXPECT_NE(complaint, Victim::kOtherValues);
    ++counts_.replacements;
  }
  is_over = true;
  vandal.join();

  EXPECT_GT(failures, 0u);
}

}  // namespace
}  // namespace cairn::damage
