// SPDX-License-Identifier: Apache-2.0
#include "training/internal/step_lines.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/uuid.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::training {
namespace {

using Standing = StepLines::Standing;
using testing::Fails;
using ::testing::HasSubstr;

class StepLinesOfARoot : public ::testing::Test {
 protected:
  StepLinesOfARoot() { std::filesystem::create_directory(root_ / ".cairn-flash"); }

  [[nodiscard]] io::Directory root() const { return io::Directory::open(io::posix_syscalls(), root_.path()); }
  [[nodiscard]] StepLines read() const { return StepLines::read(root()); }
  void write(const std::string& text) const { testing::write_text(root_ / ".cairn-flash/line", text); }

  testing::TempDir root_;
};

TEST_F(StepLinesOfARoot, BeginWithLineZero) {
  EXPECT_EQ(read().newest(), 0u);
  EXPECT_EQ(read().standing(0, 1'000), Standing::kept);
  EXPECT_EQ(read().standing(1, 0), Standing::unknown);
}

TEST_F(StepLinesOfARoot, AreDurableWhenAnotherOneHasBegun) {
  ASSERT_TRUE(begin_line(root(), 9, store::system_random));

  EXPECT_EQ(read().newest(), 1u);
  EXPECT_EQ(read().standing(0, 8), Standing::kept);
  EXPECT_EQ(read().standing(0, 9), Standing::given_up);
  EXPECT_EQ(read().standing(1, 9), Standing::kept);
}

TEST_F(StepLinesOfARoot, GiveUpWhatAnyLaterLineHasLeft) {
  std::mt19937_64 random(7);
  constexpr std::uint64_t kSteps = 40;
  StepLines lines;
  std::vector<std::uint64_t> from;
  for (std::uint64_t line = 0; line <= 60; ++line) {
    for (std::uint64_t of = 0; of <= line; ++of) {
      for (std::uint64_t step = 0; step <= kSteps; ++step) {
        const bool is_left = std::any_of(from.begin() + static_cast<std::ptrdiff_t>(of), from.end(),
                                         [step](std::uint64_t each) { return step >= each; });
        ASSERT_EQ(lines.standing(of, step), is_left ? Standing::given_up : Standing::kept)
            << "line " << of << " of " << line << ", step " << step;
      }
    }
    from.push_back(1 + random() % kSteps);
    lines.begin(from.back());
    lines.write(root(), store::system_random);
    lines = read();
  }
}

TEST_F(StepLinesOfARoot, OfWhichThereAreManyGiveUpTooMuchOfTheEarliestRatherThanTooLittle) {
  StepLines lines;
  for (std::uint64_t line = 1; line <= 5'000; ++line) {
    lines.begin(10 * line);
  }
  lines.write(root(), store::system_random);
  lines = read();
  EXPECT_EQ(lines.newest(), 5'000u);
  EXPECT_EQ(lines.standing(0, 10), Standing::given_up);
  EXPECT_EQ(lines.standing(0, 9), Standing::kept);
  EXPECT_EQ(lines.standing(4'999, 50'000), Standing::given_up);
  EXPECT_EQ(lines.standing(4'999, 49'999), Standing::kept);
}

TEST_F(StepLinesOfARoot, AreReadFromNoOtherText) {
  for (const char* const text :
       {"", "\n", "1", "-1\n", "x\n", "1\n1\n", "1\n1 5", "1\n0 5\n", "1\n2 5\n", "2\n1 5\n1 6\n",
        "2\n1 5\n2 5\n", "2\n1 6\n2 5\n", "1\n1 5\n\n", "18446744073709551616\n", " 1\n"}) {
    write(text);
    EXPECT_THAT([&] { static_cast<void>(read()); },
                Fails(Errc::malformed_metadata, HasSubstr(".cairn-flash/line")))
        << text;
  }
  write("2\n");
  EXPECT_EQ(read().newest(), 2u);
  write(std::string(100'000, '1'));
  EXPECT_THAT([&] { static_cast<void>(read()); }, Fails(Errc::malformed_metadata, HasSubstr("at most")));
}

}  // namespace
}  // namespace cairn::training
