// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/output.hpp"

namespace cairn::cli {

/// Writes a JSON document piece by piece, so that a long list needs no memory.
///
/// Lists and objects that are begun as `Layout::line` stay on one line with all they hold; the others have each
/// element on a line of its own.
/// Invariant: calls come in the order of the document; in objects every value follows its key.
class JsonWriter {
 public:
  enum class Layout : std::uint8_t { block, line };

  explicit JsonWriter(Output& out) : out_(out) {}

  JsonWriter& begin_object(Layout layout = Layout::block) { return begin('{', '}', layout); }
  JsonWriter& begin_list(Layout layout = Layout::block) { return begin('[', ']', layout); }
  /// Ends the object or list that was begun last; after the outermost comes a newline.
  JsonWriter& end();

  JsonWriter& key(std::string_view key);
  JsonWriter& text(std::string_view value);
  JsonWriter& number(std::uint64_t value);
  JsonWriter& boolean(bool value);
  /// A value that is JSON already.
  JsonWriter& raw(std::string_view json);

 private:
  struct Level {
    char end = '}';
    Layout layout = Layout::block;
    bool is_empty = true;
  };

  JsonWriter& begin(char opening, char closing, Layout layout);
  void separate();
  void break_line();

  Output& out_;
  std::vector<Level> levels_;
  bool follows_key_ = false;
};

}  // namespace cairn::cli
