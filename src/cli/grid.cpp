// SPDX-License-Identifier: Apache-2.0
#include "cli/grid.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cairn::cli {
namespace {

constexpr std::size_t kMostColumns = 96;
constexpr std::string_view kGap = "...";

class Grid {
 public:
  Grid(Output& out, const Window& window, std::span<const std::string> cells) : out_(out), cells_(cells) {
    for (const WindowSide& side : window.sides) {
      if (!side.is_index) {
        sides_.push_back(&side);
      }
    }
    for (const std::string& cell : cells) {
      width_ = std::max(width_, cell.size());
    }
  }

  void print() {
    if (sides_.empty()) {
      out_.write(cells_.front());
    } else {
      print_level(0);
    }
    out_.write("\n");
  }

 private:
  void print_level(std::size_t level) {
    if (level + 1 == sides_.size()) {
      print_row(*sides_[level]);
      return;
    }
    // Between matrices there are empty lines, one more for each dimension above.
    std::string separator(",");
    separator.append(sides_.size() - 1 - level, '\n').append(level + 1, ' ');
    out_.write("[");
    for (std::size_t i = 0; i < sides_[level]->shown.size(); ++i) {
      if (i != 0) {
        out_.write(separator);
      }
      if (i != 0 && i == sides_[level]->gap) {
        out_.write(kGap);
        out_.write(separator);
      }
      print_level(level + 1);
    }
    out_.write("]");
  }

  void print_row(const WindowSide& side) {
    const std::size_t indent = sides_.size();
    std::string row = "[";
    std::size_t column = indent;
    const auto add = [&](std::string_view cell, std::size_t blanks, bool is_first) {
      if (!is_first) {
        row += ',';
        const bool is_full = column + blanks + cell.size() + 3 > kMostColumns;
        row.append(1, is_full ? '\n' : ' ').append(is_full ? indent : 0, ' ');
        column = is_full ? indent : column + 2;
      }
      row.append(blanks, ' ');
      row += cell;
      column += blanks + cell.size();
    };
    for (std::size_t i = 0; i < side.shown.size(); ++i) {
      if (i != 0 && i == side.gap) {
        add(kGap, 0, false);
      }
      const std::string& cell = cells_[next_++];
      add(cell, width_ - cell.size(), i == 0);
    }
    row += ']';
    out_.write(row);
  }

  Output& out_;
  std::span<const std::string> cells_;
  std::vector<const WindowSide*> sides_;  ///< Those that are shown.
  std::size_t width_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

void print_grid(Output& out, const Window& window, std::span<const std::string> cells) {
  if (cells.empty()) {
    out.write("[]\n");
    return;
  }
  Grid(out, window, cells).print();
}

}  // namespace cairn::cli
