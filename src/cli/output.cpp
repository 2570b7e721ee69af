// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <system_error>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::size_t kPieceBytes = 1 << 16;
constexpr std::size_t kMostColumnWidth =
    80;  // One name that is longer must not push all others' columns away.

void pad(std::string& line, std::size_t blanks) {
  line.append(blanks, ' ');
}

}  // namespace

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
  std::string line;
  const auto print_row = [&](const Row& row) {
    line = indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::size_t width = display_width(row[i]);
      const std::size_t blanks = widths[i] - std::min(width, widths[i]);
      if (columns[i].is_number) {
        pad(line, blanks);
      }
      line += row[i];
      if (i + 1 < row.size()) {
        pad(line, (columns[i].is_number ? 0 : blanks) + 2);
      }
    }
    line += '\n';
    out.write(line);
  };
  print_row(titles);
  rows(print_row);
}

}  // namespace cairn::cli
