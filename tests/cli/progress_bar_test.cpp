// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_bar.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <pty.h>

#include "support/manual_clock.hpp"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr std::chrono::milliseconds kLongerThanPatience{1100};
constexpr const char* kErase = "\r\033[K";

/// A pseudo-terminal: what is written to `terminal` comes out as a terminal's user would see it.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short columns) {
    winsize size{};
    size.ws_col = columns;
    int terminal = -1;
    if (::openpty(&screen_, &terminal, nullptr, nullptr, &size) != 0) {
      throw std::runtime_error("there is no pseudo-terminal to be had");
    }
    ::fcntl(screen_, F_SETFL, O_NONBLOCK);
    terminal_ = ::fdopen(terminal, "w");
  }

  ~PseudoTerminal() {
    std::fclose(terminal_);
    ::close(screen_);
  }

  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  [[nodiscard]] std::FILE* terminal() const { return terminal_; }

  /// What was written since the last call.
  [[nodiscard]] std::string seen() const {
    std::string text(4096, '\0');
    const ssize_t bytes = ::read(screen_, text.data(), text.size());
    text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return text;
  }

 private:
  int screen_ = -1;
  std::FILE* terminal_ = nullptr;
};

class ProgressBarOfATerminal : public ::testing::Test {
 protected:
  void SetUp() override {
    int screen = -1;
    int terminal = -1;
    if (::openpty(&screen, &terminal, nullptr, nullptr, nullptr) != 0) {
      GTEST_SKIP() << "there is no pseudo-terminal to be had (/dev/pts)";
    }
    ::close(screen);
    ::close(terminal);
  }
};

TEST_F(ProgressBarOfATerminal, SaysNothingToWhoWaitsLessThanASecond) {
  const testing::ManualClock clock;
  const PseudoTerminal screen(80);
  {
    ProgressBar bar(screen.terminal(), clock);
    bar.update(1, 4);
  }

  EXPECT_THAT(screen.seen(), IsEmpty());
}

TEST_F(ProgressBarOfATerminal, DrawsItselfOverItsLastLineAndGoesAtTheEnd) {
  testing::ManualClock clock;
  const PseudoTerminal screen(120);
  {
    ProgressBar bar(screen.terminal(), clock);
    clock.advance(kLongerThanPatience);
    bar.update(1 << 20, 4 << 20);
    EXPECT_THAT(screen.seen(), AllOf(StartsWith(kErase), HasSubstr("[#######......................."),
                                     HasSubstr("25 %  1.0 MiB of 4.0 MiB")));
    bar.update(2 << 20, 4 << 20);
    EXPECT_THAT(screen.seen(), IsEmpty()) << "it was drawn just now";
    clock.advance(std::chrono::milliseconds(100));
    bar.update(2 << 20, 4 << 20);
    EXPECT_THAT(screen.seen(), AllOf(StartsWith(kErase), HasSubstr("50 %")));
  }

  EXPECT_EQ(screen.seen(), kErase);
}

TEST_F(ProgressBarOfATerminal, ShowsABarWithRateAndTimeLeftAt80Columns) {
  testing::ManualClock clock;
  const PseudoTerminal screen(80);
  ProgressBar bar(screen.terminal(), clock);
  clock.advance(std::chrono::seconds(2));

  bar.update(std::uint64_t{1000} << 30, std::uint64_t{2000} << 30);

  const std::string seen = screen.seen();
  EXPECT_THAT(seen,
              AllOf(HasSubstr("[##########"), HasSubstr(" 50 %"), HasSubstr("/s"), HasSubstr("2 s left")));
  EXPECT_LE(seen.size(), std::string(kErase).size() + 79);
}

TEST_F(ProgressBarOfATerminal, LeavesTheLastColumnOfANarrowTerminalFree) {
  testing::ManualClock clock;
  const PseudoTerminal screen(12);
  ProgressBar bar(screen.terminal(), clock);
  clock.advance(kLongerThanPatience);

  bar.update(1 << 20, 4 << 20);

  EXPECT_THAT(screen.seen(), SizeIs(std::string(kErase).size() + 11));
}

TEST(ProgressBar, SaysNothingWhereThereIsNoTerminal) {
  testing::ManualClock clock;
  std::FILE* file = std::tmpfile();
  {
    ProgressBar bar(file, clock);
    clock.advance(kLongerThanPatience);
    bar.update(1, 4);
  }

  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace cairn::cli
