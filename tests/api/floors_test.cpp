// SPDX-License-Identifier: Apache-2.0
// The table of floors in the guide: with that little everything works; with one less a program hears why, and loses
// nothing.
#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/cairn.hpp"

#include "support/process.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::list_tree;
using ::testing::StartsWith;

constexpr std::size_t kWorkers = 2;
constexpr std::size_t kModelFiles = 80;  // As many as the program saves and loads.
constexpr int kTimes = 3;                // Threads take turns as they like.
constexpr std::size_t kDescriptorsOfAFewFiles = 8;
constexpr std::size_t kMemoryOfFewThreads = 40;  // MiB: of the stacks of fewer threads than a context has.

/// Of what there may be little: a row of the table, and how a message names the limit.
struct Scarce {
  const char* row;
  const char* limit;
  std::size_t of_workers;  ///< What the table does not count.
};

constexpr Scarce kThreads = {"threads", "RLIMIT_NPROC", kWorkers};
constexpr Scarce kDescriptors = {"descriptors", "RLIMIT_NOFILE", 0};
constexpr Scarce kMemory = {"memory", "RLIMIT_DATA", 0};

/// The number in the table, of the column of the engine.
std::size_t floor_of(const Scarce& scarce, bool is_ring) {
  std::ifstream guide(CAIRN_GUIDE);
  for (std::string line; std::getline(guide, line);) {
    if (line.starts_with(fmt::format("| {}", scarce.row))) {
      std::array<std::string, 4> cells;
      std::istringstream row(line);
      for (std::string& cell : cells) {
        std::getline(row, cell, '|');
      }
      return std::stoul(cells[is_ring ? 3 : 2]) + scarce.of_workers;
    }
  }
  throw std::runtime_error(fmt::format("the guide has no row for {}", scarce.row));
}

struct Program {
  bool is_ring;
  const char* work;
};

void PrintTo(const Program& program, std::ostream* out) {
  *out << program.work << (program.is_ring ? " on io_uring" : " on threads");
}

class Floor : public ::testing::TestWithParam<Program> {
 protected:
  void SetUp() override {
    if (GetParam().is_ring && !Context().engine_reason().empty()) {
      GTEST_SKIP() << "no io_uring here";
    }
    std::filesystem::permissions(directory_.path(), std::filesystem::perms::all);  // For other users.
    write_model();
    const std::string plain = said_with("none", 0);
    if (plain.starts_with("skipped")) {
      GTEST_SKIP() << plain;
    }
    ASSERT_EQ(plain, "done");
    before_ = list_tree(directory_.path());
  }

  void write_model() const {
    std::filesystem::create_directory(directory_ / "model");
    for (std::size_t i = 0; i < kModelFiles; ++i) {
      std::string header =
          fmt::format(R"({{"tensor{}":{{"dtype":"F32","shape":[10],"data_offsets":[0,40]}}}})", i);
      header.resize((header.size() + 7) / 8 * 8, ' ');
      std::string text(8, '\0');
      text[0] = static_cast<char>(header.size());
      testing::write_text(directory_ / fmt::format("model/{:04}.safetensors", i),
                          text + header + std::string(40, 'x'));
    }
  }

  /// The last word of a program that had so much.
  std::string said_with(const char* what, std::size_t amount) const {
    testing::Process process(CAIRN_AT_FLOOR,
                             {directory_.path(), GetParam().work, GetParam().is_ring ? "io_uring" : "threads",
                              std::to_string(kWorkers), what, std::to_string(amount)});
    const std::vector<std::string> lines = process.finish();
    return lines.empty() ? "nothing" : lines.back();
  }

  void expect_enough(const Scarce& scarce) const {
    for (int i = 0; i < kTimes; ++i) {
      EXPECT_EQ(said_with(scarce.row, floor_of(scarce, GetParam().is_ring)), "done");
    }
  }

  /// `fewer`: more than one where what is missing is often free again in time.
  void expect_too_little(const Scarce& scarce, std::size_t fewer = 1) const {
    const std::size_t too_little = floor_of(scarce, GetParam().is_ring) - fewer;

    std::string said = "done";
    for (int i = 0; i < kTimes && said == "done"; ++i) {
      said = said_with(scarce.row, too_little);
    }
    EXPECT_THAT(said, AllOf(StartsWith("error: "), HasSubstr(scarce.limit)));

    expect_nothing_lost();
  }

  /// Whatever there is less than the floor, it is enough or an error that names the limit.
  void expect_nothing_lost_down_to_none(const Scarce& scarce) const {
    for (std::size_t amount = floor_of(scarce, GetParam().is_ring); amount > 0; amount /= 2) {
      const std::string said = said_with(scarce.row, amount - 1);
      if (said != "done") {
        EXPECT_THAT(said, AllOf(StartsWith("error: "), HasSubstr(scarce.limit))) << amount - 1;
      }
      expect_nothing_lost();
    }
  }

  void expect_nothing_lost() const {
    EXPECT_EQ(list_tree(directory_.path()), before_);
    EXPECT_EQ(said_with("none", 0), "done");
  }

  testing::TempDir directory_;
  std::vector<std::string> before_;
};

using FloorOfManyFiles = Floor;

TEST_P(Floor, OfThreadsIsEnough) {
  expect_enough(kThreads);
}

TEST_P(Floor, OfThreadsIsNeeded) {
  expect_too_little(kThreads);
}

TEST_P(Floor, OfDescriptorsIsEnough) {
  expect_enough(kDescriptors);
}

/// One file needs fewer than several at once.
TEST_P(FloorOfManyFiles, OfDescriptorsIsNeeded) {
  expect_too_little(kDescriptors, kDescriptorsOfAFewFiles);
}

TEST_P(Floor, OfMemoryIsEnough) {
  expect_enough(kMemory);
}

TEST_P(Floor, LosesNothingBelowThatOfThreads) {
  expect_nothing_lost_down_to_none(kThreads);
}

TEST_P(Floor, LosesNothingBelowThatOfDescriptors) {
  expect_nothing_lost_down_to_none(kDescriptors);
}

/// What is refused later is an error that names the limit or std::bad_alloc; the fault tests tell more of that.
TEST_P(Floor, OfMemoryIsNeededForTheThreads) {
  EXPECT_THAT(said_with(kMemory.row, kMemoryOfFewThreads),
              AllOf(StartsWith("error: "), HasSubstr(kMemory.limit)));

  expect_nothing_lost();
}

std::string name_of(const ::testing::TestParamInfo<Program>& program) {
  return std::string(program.param.work) + (program.param.is_ring ? "_ring" : "_threads");
}

INSTANTIATE_TEST_SUITE_P(Programs, Floor,
                         ::testing::Values(Program{false, "tree"}, Program{false, "files"},
                                           Program{false, "folder"}, Program{true, "tree"},
                                           Program{true, "files"}, Program{true, "folder"}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Programs, FloorOfManyFiles,
                         ::testing::Values(Program{false, "files"}, Program{true, "files"}), name_of);

}  // namespace
}  // namespace cairn
