// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/output.hpp"

namespace cairn::cli {

/// A value of an answer: what people read, and what programs do.
struct Cell {
  std::string text = {};                       ///< That a terminal may show; empty: "-" in a table.
  std::function<void(JsonWriter&)> json = {};  ///< Writes the value; empty: programs are not told.
  bool is_bad = false;                         ///< Its row is shown red where there are colours.
};

/// A text that may hold what a terminal obeys; of an empty one programs are not told.
[[nodiscard]] Cell text_cell(std::string_view text);
[[nodiscard]] Cell count_cell(std::uint64_t count);
/// A number that is a name and no quantity, as that of a step.
[[nodiscard]] Cell number_cell(std::uint64_t number);
[[nodiscard]] Cell size_cell(std::uint64_t bytes);
/// `word` for people where it is true.
[[nodiscard]] Cell flag_cell(bool is_true, std::string_view word);
/// Whole seconds, as age_text; nothing for nothing.
[[nodiscard]] Cell age_cell(std::optional<std::chrono::seconds> age);
/// Seconds with their fractions, as duration_text; nothing for nothing.
[[nodiscard]] Cell duration_cell(std::optional<std::chrono::duration<double>> duration);

/// A row, which is an object in JSON.
struct ReportRow {
  std::string list;         ///< The key of the list that it is in; empty: for people only.
  std::vector<Cell> cells;  ///< As many as there are columns, or fewer.
  std::string name = {};    ///< Of a table `by_name`: the key of its object.
  bool is_shown = true;     ///< To people.
  bool is_total = false;    ///< What it has nothing for is blank.
};

/// Rows below each other for people, lists of objects for programs.
struct ReportTable {
  /// Those without a title are for programs only. Where a column has a title and no key, cells write whole members.
  std::vector<Column> columns;
  std::vector<std::string> lists;  ///< The keys of lists, in their order, also of those that stay empty.
  std::vector<ReportRow> rows = {};
  bool by_name = false;  ///< The list is an object that has the rows by their names.
  JsonLayout layout = JsonLayout::line;
};

/// The answer of a command. It is filled once; people get its lines and tables, programs its members and lists.
class Report {
 public:
  /// Adds a line for people.
  void line(std::string text);
  /// Adds a member for programs; nothing for a cell that has nothing for them.
  void member(std::string key, const Cell& cell);
  /// Adds members for programs, which `write` writes with their keys.
  void members(std::function<void(JsonWriter&)> write);
  /// A column that no row has anything for is left out, and so is a table without rows.
  void table(ReportTable table);

  /// Prints it for people: an empty line before and behind each table.
  void print(Output& out) const;
  /// Writes the members into an object that was begun.
  void write(JsonWriter& json) const;
  /// Gives it to people or, as one JSON document, to programs.
  void answer(Output& out, bool is_json) const;

 private:
  using Members = std::function<void(JsonWriter&)>;

  std::vector<std::variant<std::string, Members, ReportTable>> parts_;
};

}  // namespace cairn::cli
