// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/internal/json_reader.hpp"
#include "base/internal/json_string.hpp"

namespace cairn {

enum class JsonLayout : std::uint8_t {
  compact,  ///< No white space.
  line,     ///< On one line, with blanks.
  block,    ///< Each element on a line of its own.
};

struct JsonStyle {
  JsonLayout layout = JsonLayout::compact;  ///< Of what is begun without a layout of its own.
  std::size_t indent = 2;                   ///< Columns for each level of blocks.
  JsonEscapes escapes = JsonEscapes::needed;
};

/// Writes a JSON document piece by piece, so that a long list needs no memory. As JsonEvents it copies what a reader
/// reads.
///
/// What is inside a line is part of that line. A document that is not compact ends with a newline.
/// Invariant: calls come in the order of the document; in objects every value follows its key.
/// Threads:   not safe.
/// Errors:    those of the sink.
class JsonWriter final : public JsonEvents {
 public:
  using Sink = std::function<void(std::string_view)>;

  JsonWriter(Sink sink, JsonStyle style) : sink_(std::move(sink)), style_(style) {}
  /// Appends to `out`, which must outlive it.
  explicit JsonWriter(std::string& out, JsonStyle style = {})
      : JsonWriter([&out](std::string_view piece) { out += piece; }, style) {}

  JsonWriter& begin_object() { return begin('{', style_.layout); }
  JsonWriter& begin_object(JsonLayout layout) { return begin('{', layout); }
  JsonWriter& begin_list() { return begin('[', style_.layout); }
  /// Ends the object or list that was begun last.
  JsonWriter& end();
  JsonWriter& key(std::string_view key);
  JsonWriter& value(const JsonScalar& value);
  /// A value that is JSON already.
  JsonWriter& raw(std::string_view json);

  void on_begin(char bracket) override { begin(bracket, style_.layout); }
  void on_end() override { end(); }
  void on_key(std::string_view key) override { this->key(key); }
  void on_scalar(const JsonScalar& scalar) override { value(scalar); }

 private:
  struct Level {
    char end = '}';
    JsonLayout layout = JsonLayout::block;
    bool is_empty = true;
  };

  JsonWriter& begin(char bracket, JsonLayout layout);
  void separate();
  void break_line();

  Sink sink_;
  JsonStyle style_;
  std::vector<Level> levels_;
  std::string scratch_;
  bool follows_key_ = false;
};

}  // namespace cairn
