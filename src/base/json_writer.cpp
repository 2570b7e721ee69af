// SPDX-License-Identifier: Apache-2.0
#include "base/internal/json_writer.hpp"

#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/base/ieee_arithmetic.hpp"

namespace cairn {
namespace {

/// Appends the text of a scalar.
struct Append {
  void operator()(std::nullptr_t) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(std::uint64_t value) const { out += fmt::to_string(value); }
  void operator()(std::int64_t value) const { out += fmt::to_string(value); }
  // As the users' JSON type writes it: a document that is copied stays the same, byte by byte.
  void operator()(double value) const {
    const IeeeArithmetic arithmetic;  // Or a subnormal number might be written as 0.
    out += nlohmann::json(IeeeArithmetic::in_order(value)).dump();
  }
  void operator()(std::string_view value) const { append_json_string(out, value, escapes); }

  std::string& out;
  JsonEscapes escapes;
};

}  // namespace

JsonWriter& JsonWriter::begin(char bracket, JsonLayout layout) {
  separate();
  sink_(std::string_view(&bracket, 1));
  const bool is_part_of_a_line = !levels_.empty() && levels_.back().layout != JsonLayout::block;
  levels_.push_back({bracket == '{' ? '}' : ']', is_part_of_a_line ? levels_.back().layout : layout, true});
  return *this;
}

JsonWriter& JsonWriter::end() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.layout == JsonLayout::block && !level.is_empty) {
    break_line();
  }
  sink_(std::string_view(&level.end, 1));
  if (levels_.empty() && level.layout != JsonLayout::compact) {
    sink_("\n");
  }
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view key) {
  value(key);
  sink_(levels_.back().layout == JsonLayout::compact ? ":" : ": ");
  follows_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(const JsonScalar& value) {
  scratch_.clear();
  std::visit(Append{scratch_, style_.escapes}, value);
  return raw(scratch_);
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  sink_(json);
  return *this;
}

void JsonWriter::separate() {
  if (follows_key_ || levels_.empty()) {
    follows_key_ = false;
    return;
  }
  Level& level = levels_.back();
  if (!level.is_empty) {
    sink_(level.layout == JsonLayout::line ? ", " : ",");
  }
  level.is_empty = false;
  if (level.layout == JsonLayout::block) {
    break_line();
  }
}

void JsonWriter::break_line() {
  sink_("\n" + std::string(style_.indent * levels_.size(), ' '));
}

}  // namespace cairn
