// SPDX-License-Identifier: Apache-2.0
#include "cli/report.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "base/internal/printable.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

template <class Value>
Cell cell_of(std::string text, Value value) {
  return {std::move(text), [value = std::move(value)](JsonWriter& json) { json.value(value); }};
}

void write_rows(JsonWriter& json, const ReportTable& table, const std::string& list) {
  json.key(list);
  table.by_name ? json.begin_object() : json.begin_list();
  for (const ReportRow& row : table.rows) {
    if (row.list != list) {
      continue;
    }
    if (table.by_name) {
      json.key(row.name);
    }
    json.begin_object(table.layout);
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      if (row.cells[i].json && !table.columns[i].key.empty()) {
        json.key(table.columns[i].key);
      }
      if (row.cells[i].json) {
        row.cells[i].json(json);
      }
    }
    json.end();
  }
  json.end();
}

/// Returns which columns people see.
std::vector<std::size_t> shown_columns(const ReportTable& table) {
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const auto has_text = [i](const ReportRow& row) {
      return row.is_shown && i < row.cells.size() && !row.cells[i].text.empty();
    };
    if (!table.columns[i].title.empty() && std::any_of(table.rows.begin(), table.rows.end(), has_text)) {
      shown.push_back(i);
    }
  }
  return shown;
}

void print_rows(Output& out, const ReportTable& table) {
  std::vector<Column> columns;
  const std::vector<std::size_t> shown = shown_columns(table);
  for (const std::size_t i : shown) {
    columns.push_back(table.columns[i]);
  }
  print_table(out, "", columns, [&](const RowVisitor& visit) {
    for (const ReportRow& row : table.rows) {
      Row texts;
      for (const std::size_t i : shown) {
        const bool has_text = i < row.cells.size() && !row.cells[i].text.empty();
        texts.push_back(has_text ? row.cells[i].text : row.is_total ? "" : "-");
        texts.is_bad |= i < row.cells.size() && row.cells[i].is_bad;
      }
      if (row.is_shown) {
        visit(texts);
      }
    }
  });
}

}  // namespace

Cell text_cell(std::string_view text) {
  return text.empty() ? Cell() : cell_of(printable(text), std::string(text));
}

Cell count_cell(std::uint64_t count) {
  return cell_of(count_text(count), count);
}

Cell number_cell(std::uint64_t number) {
  return cell_of(fmt::to_string(number), number);
}

Cell size_cell(std::uint64_t bytes) {
  return cell_of(size_text(bytes), bytes);
}

Cell flag_cell(bool is_true, std::string_view word) {
  return cell_of(std::string(is_true ? word : ""), is_true);
}

Cell age_cell(std::optional<std::chrono::seconds> age) {
  return age ? cell_of(age_text(*age), static_cast<std::uint64_t>(age->count())) : Cell();
}

Cell duration_cell(std::optional<std::chrono::duration<double>> duration) {
  return duration ? cell_of(duration_text(*duration), duration->count()) : Cell();
}

void Report::line(std::string text) {
  parts_.emplace_back(std::move(text));
}

void Report::member(std::string key, const Cell& cell) {
  if (cell.json) {
    members([key = std::move(key), write = cell.json](JsonWriter& json) {
      json.key(key);
      write(json);
    });
  }
}

void Report::members(std::function<void(JsonWriter&)> write) {
  parts_.emplace_back(std::move(write));
}

void Report::table(ReportTable table) {
  parts_.emplace_back(std::move(table));
}

void Report::print(Output& out) const {
  bool has_printed = false;
  bool needs_gap = false;  // Behind a table.
  for (const auto& part : parts_) {
    const auto* const line = std::get_if<std::string>(&part);
    const auto* const table = std::get_if<ReportTable>(&part);
    const bool has_rows = table != nullptr && std::any_of(table->rows.begin(), table->rows.end(),
                                                          [](const ReportRow& row) { return row.is_shown; });
    if (line == nullptr && !has_rows) {
      continue;
    }
    if (needs_gap || (table != nullptr && has_printed)) {
      out.write("\n");
    }
    if (line != nullptr) {
      out.print("{}\n", *line);
    } else {
      print_rows(out, *table);
    }
    has_printed = true;
    needs_gap = table != nullptr;
  }
}

void Report::write(JsonWriter& json) const {
  for (const auto& part : parts_) {
    if (const auto* const members = std::get_if<Members>(&part)) {
      (*members)(json);
    } else if (const auto* const table = std::get_if<ReportTable>(&part)) {
      for (const std::string& list : table->lists) {
        write_rows(json, *table, list);
      }
    }
  }
}

void Report::answer(Output& out, bool is_json) const {
  if (!is_json) {
    print(out);
    return;
  }
  JsonWriter json = json_to(out);
  json.begin_object();
  write(json);
  json.end();
}

}  // namespace cairn::cli
