// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/internal/json_writer.hpp"

namespace cairn::cli {

/// Text on its way to standard output, written in large pieces.
///
/// Threads: not safe.
class Output {
 public:
  /// Takes the width of the environment's COLUMNS, else of the terminal; anything but a terminal has none. Colours are
  /// for a terminal, unless the environment has NO_COLOR.
  explicit Output(std::FILE* file);

  /// How many columns a line may take; 0: as many as it has.
  [[nodiscard]] std::size_t width() const noexcept { return width_; }
  void set_width(std::size_t columns) noexcept { width_ = columns; }
  [[nodiscard]] bool has_colour() const noexcept { return has_colour_; }

  /// Errors: what the operating system says when it does not take the text.
  void write(std::string_view text);

  template <class... Values>
  void print(fmt::format_string<Values...> format, Values&&... values) {
    write(fmt::format(format, std::forward<Values>(values)...));
  }

  /// Writes what is still held.
  /// Errors: as write.
  void flush();

 private:
  std::FILE* file_;
  std::size_t width_ = 0;
  bool has_colour_ = false;
  std::string pending_;
};

/// Writes a document to `out`, which must outlive it. No text in it drives a terminal.
[[nodiscard]] JsonWriter json_to(Output& out);

/// Says on standard error, in one line, what is wrong.
void complain(std::string_view what);

struct Column {
  std::string title;
  bool is_number = false;  ///< Aligned to the right.
  std::string key = {};    ///< Of a Report: the member of JSON; empty: none.
  unsigned expendable =
      0;  ///< Where the width does not do, the column with the highest falls out first; 0: never.
};

struct Row : std::vector<std::string> {
  using std::vector<std::string>::vector;

  bool is_bad = false;  ///< Shown red where there are colours.
};

using RowVisitor = std::function<void(const Row&)>;

/// Prints rows below titles, in columns that are as wide as their widest cell. Where the output has a width no row is
/// wider: columns fall out, then texts are shortened in their middle.
///
/// `rows` gives every row to the visitor. It is called twice, to measure and to print: so nothing is held in
/// memory, however many rows there are.
void print_table(Output& out, std::string_view indent, std::span<const Column> columns,
                 const std::function<void(const RowVisitor&)>& rows);

}  // namespace cairn::cli
