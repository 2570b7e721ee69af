// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <sys/ioctl.h>
#include <system_error>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <numeric>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::size_t kPieceBytes = 1 << 16;
constexpr std::size_t kMostColumnWidth =
    80;  // One name that is longer must not push all others' columns away.

constexpr std::size_t kGap = 2;               // Blanks between columns.
constexpr std::size_t kLeastColumnWidth = 8;  // A text that is shortened to less says nothing.

void pad(std::string& line, std::size_t blanks) {
  line.append(blanks, ' ');
}

std::size_t width_of(std::FILE* file) {
  const char* const columns = std::getenv("COLUMNS");
  const std::string_view text = columns == nullptr ? "" : columns;
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count > 0) {
    return count;
  }
  winsize size{};
  return ::ioctl(::fileno(file), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// Returns whether the environment asks for no colours. Source: no-color.org.
bool refuses_colours() {
  const char* const asked = std::getenv("NO_COLOR");
  return asked != nullptr && *asked != '\0';
}

/// Which of the columns fit into `most`, 0 for no bound. Their widths shrink where leaving some out does not do.
std::vector<std::size_t> fit(std::span<const Column> columns, std::vector<std::size_t>& widths,
                             std::size_t most, std::size_t indent) {
  std::vector<std::size_t> shown(columns.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  const auto excess = [&] {
    std::size_t total = indent;
    for (const std::size_t i : shown) {
      total += widths[i] + (i == shown.front() ? 0 : kGap);
    }
    return most == 0 || total <= most ? 0 : total - most;
  };
  while (excess() != 0) {
    const auto first = std::max_element(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
      return columns[a].expendable < columns[b].expendable;
    });
    if (columns[*first].expendable == 0) {
      break;
    }
    shown.erase(first);
  }
  const auto spare = [&](std::size_t i) {
    return columns[i].is_number ? 0 : widths[i] - std::min(widths[i], kLeastColumnWidth);
  };
  for (std::size_t left = excess(); left != 0; --left) {
    const auto widest = std::max_element(shown.begin(), shown.end(),
                                         [&](std::size_t a, std::size_t b) { return spare(a) < spare(b); });
    if (spare(*widest) == 0) {
      break;
    }
    --widths[*widest];
  }
  return shown;
}

}  // namespace

Output::Output(std::FILE* file)
    : file_(file), width_(width_of(file)), has_colour_(::isatty(::fileno(file)) == 1 && !refuses_colours()) {}

void Output::write(std::string_view text) {
  pending_ += text;
  if (pending_.size() >= kPieceBytes) {
    flush();
  }
}

void Output::flush() {
  const std::string text = std::exchange(pending_, {});
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0) {
    throw Error(std::error_code(errno, std::system_category()), "write standard output");
  }
}

JsonWriter json_to(Output& out) {
  return {[&out](std::string_view piece) { out.write(piece); },
          {JsonLayout::block, 2, JsonEscapes::unprintable}};
}

void complain(std::string_view what) {
  std::fprintf(stderr, "cairn: %s\n", printable(what).c_str());
}

void print_table(Output& out, std::string_view indent, std::span<const Column> columns,
                 const std::function<void(const RowVisitor&)>& rows) {
  Row titles;
  std::vector<std::size_t> widths;
  for (const Column& column : columns) {
    titles.push_back(column.title);
    widths.push_back(display_width(column.title));
  }
  rows([&widths](const Row& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], std::min(display_width(row[i]), kMostColumnWidth));
    }
  });
  const std::vector<std::size_t> shown = fit(columns, widths, out.width(), indent.size());
  std::string line;
  const auto print_row = [&](const Row& row, std::string_view colour) {
    line = indent;
    for (const std::size_t i : shown) {
      if (i >= row.size()) {
        break;
      }
      const std::string cell = out.width() == 0 ? row[i] : shortened(row[i], widths[i]);
      const std::size_t width = display_width(cell);
      const std::size_t blanks = widths[i] - std::min(width, widths[i]);
      if (columns[i].is_number) {
        pad(line, blanks);
      }
      line += cell;
      if (i != shown.back() && i + 1 < row.size()) {
        pad(line, (columns[i].is_number ? 0 : blanks) + kGap);
      }
    }
    if (out.width() != 0) {
      line = shortened(line, out.width());  // Columns of numbers alone may be too wide.
    }
    const bool is_coloured = out.has_colour() && !colour.empty();
    out.write(is_coloured ? fmt::format("\033[{}m{}\033[0m\n", colour, line) : line + '\n');
  };
  print_row(titles, "1");
  rows([&print_row](const Row& row) { print_row(row, row.is_bad ? "31" : ""); });
}

}  // namespace cairn::cli
