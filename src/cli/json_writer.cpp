// SPDX-License-Identifier: Apache-2.0
#include "cli/json_writer.hpp"

#include <string>

#include "cli/text.hpp"

namespace cairn::cli {

JsonWriter& JsonWriter::begin(char opening, char closing, Layout layout) {
  separate();
  out_.write(std::string_view(&opening, 1));
  // What is inside a line is part of that line.
  const bool is_in_line = !levels_.empty() && levels_.back().layout == Layout::line;
  levels_.push_back({closing, is_in_line ? Layout::line : layout, true});
  return *this;
}

JsonWriter& JsonWriter::end() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.layout == Layout::block && !level.is_empty) {
    break_line();
  }
  out_.write(std::string_view(&level.end, 1));
  if (levels_.empty()) {
    out_.write("\n");
  }
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view key) {
  separate();
  out_.write(json_string(key));
  out_.write(": ");
  follows_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  return raw(json_string(value));
}

JsonWriter& JsonWriter::number(std::uint64_t value) {
  return raw(std::to_string(value));
}

JsonWriter& JsonWriter::boolean(bool value) {
  return raw(value ? "true" : "false");
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_.write(json);
  return *this;
}

void JsonWriter::separate() {
  if (follows_key_ || levels_.empty()) {
    follows_key_ = false;
    return;
  }
  Level& level = levels_.back();
  if (!level.is_empty) {
    out_.write(level.layout == Layout::block ? "," : ", ");
  }
  level.is_empty = false;
  if (level.layout == Layout::block) {
    break_line();
  }
}

void JsonWriter::break_line() {
  out_.write("\n" + std::string(2 * levels_.size(), ' '));
}

}  // namespace cairn::cli
