// SPDX-License-Identifier: Apache-2.0
#include "support/document.hpp"

#include <fstream>
#include <stdexcept>

#include <fmt/format.h>

#include "support/test_data.hpp"

namespace cairn::testing {
namespace {

std::vector<std::string> cells_of(std::string_view row) {
  std::vector<std::string> cells;
  std::string cell;
  for (const char each : row.substr(1)) {  // A row begins with a bar, and ends with one.
    if (each == '|') {
      const auto begin = cell.find_first_not_of(' ');
      cells.push_back(
          begin == std::string::npos ? "" : cell.substr(begin, cell.find_last_not_of(' ') - begin + 1));
      cell.clear();
    } else if (each != '`') {
      cell += each;
    }
  }
  return cells;
}

}  // namespace

std::vector<std::vector<std::string>> documented(std::string_view page, std::string_view heading) {
  std::ifstream file(test_data() / "../../docs" / page);
  std::vector<std::vector<std::string>> rows;
  bool is_below = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) {
      is_below = line.substr(3) == heading;
    } else if (is_below && line.starts_with('|')) {
      rows.push_back(cells_of(line));
    } else if (rows.size() > 2) {
      break;
    }
  }
  if (rows.size() < 3) {
    throw std::runtime_error(fmt::format("docs/{} has no table below '## {}'", page, heading));
  }
  rows.erase(rows.begin(), rows.begin() + 2);  // The head, and the line below it.
  return rows;
}

std::vector<std::string> documented(std::string_view page, std::string_view heading, std::size_t column) {
  std::vector<std::string> cells;
  for (const std::vector<std::string>& row : documented(page, heading)) {
    cells.push_back(row.at(column));
  }
  return cells;
}

}  // namespace cairn::testing
