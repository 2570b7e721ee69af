// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_bar.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::milliseconds kInterval{100};  // Nobody reads faster.
constexpr std::size_t kBarWidth = 30;
constexpr std::size_t kLeastBarWidth = 10;  // A terminal of 80 columns has room for 20 or so.
constexpr std::size_t kAroundBar = 4;       // "[", "]" and two blanks.

std::size_t terminal_columns(int fd) noexcept {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col : 80;
}

}  // namespace

std::string progress_line(std::uint64_t done_bytes, std::uint64_t total_bytes,
                          std::chrono::duration<double> elapsed, std::size_t columns) {
  const double share =
      total_bytes == 0 ? 1.0
                       : std::min(static_cast<double>(done_bytes) / static_cast<double>(total_bytes), 1.0);
  std::string line = fmt::format("{:3.0f} %  {} of {}", std::floor(share * 100), size_text(done_bytes),
                                 size_text(total_bytes));
  const double rate = elapsed.count() > 0 ? static_cast<double>(done_bytes) / elapsed.count() : 0;
  if (rate >= 1 && done_bytes < total_bytes) {
    line += fmt::format("  {}/s  {:.0f} s left", size_text(static_cast<std::uint64_t>(rate)),
                        std::ceil(static_cast<double>(total_bytes - done_bytes) / rate));
  }
  const std::size_t used = std::min(line.size() + kAroundBar, columns);
  const std::size_t width = std::min(columns - used, kBarWidth);
  if (width >= kLeastBarWidth) {
    const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
    line = fmt::format("[{}{}]  {}", std::string(filled, '#'), std::string(width - filled, '.'), line);
  }
  return line.substr(0, columns);
}

ProgressBar::ProgressBar(std::FILE* terminal, const Clock& clock)
    : terminal_(terminal), is_terminal_(::isatty(::fileno(terminal)) == 1), clock_(clock) {}

ProgressBar::~ProgressBar() {
  if (is_shown_) {
    std::fputs("\r\033[K", terminal_);
    std::fflush(terminal_);
  }
}

void ProgressBar::update(std::uint64_t done_bytes, std::uint64_t total_bytes) {
  const auto now = clock_.steady_now();
  const auto elapsed = now - begin_;
  if (!is_terminal_ || elapsed < kPatience || (is_shown_ && now - drawn_ < kInterval)) {
    return;
  }
  is_shown_ = true;
  drawn_ = now;
  // One column stays free: a terminal that wraps there would leave lines behind.
  const std::string line =
      progress_line(done_bytes, total_bytes, elapsed, terminal_columns(::fileno(terminal_)) - 1);
  std::fprintf(terminal_, "\r\033[K%s", line.c_str());
  std::fflush(terminal_);
}

}  // namespace cairn::cli
