// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/base/error.hpp"

namespace cairn::io {

/// Where a refusal comes from: the reader blames the file, the writer its caller.
struct Blame {
  Errc code;
  std::string where;

  [[noreturn]] void operator()(std::string_view why) const;
};

/// `text` as it may stand in a message: bounded, without control characters (a NUL would end what() early).
[[nodiscard]] std::string printable(std::string_view text);

enum class NodeKind : std::uint8_t { literal, natural, string, array, object };

/// One value of a document.
struct JsonNode {
  NodeKind kind = NodeKind::literal;
  std::string key;           ///< In the object that holds it.
  std::string text;          ///< A string; or null, a truth value or a number as it is written.
  std::uint64_t number = 0;  ///< Of a `natural`: an integer that is written without a sign.
  std::size_t end = 0;       ///< The first node behind all that lie in this one.
};

/// Writes JSON (RFC 8259), on one line or with each level a column further to the right.
class JsonWriter {
 public:
  explicit JsonWriter(bool is_indented) : is_indented_(is_indented) {}

  /// `bracket` is '{' or '['.
  void begin(char bracket);
  void end(char bracket);
  void key(std::string_view name);
  /// `text` must be UTF-8.
  void string(std::string_view text);
  void natural(std::uint64_t number);
  /// What is JSON already.
  void literal(std::string_view text);

  /// All that there is so far.
  [[nodiscard]] std::string& text() noexcept { return text_; }

 private:
  void begin_value();
  void begin_line();

  std::string text_;
  std::size_t depth_ = 0;
  bool is_indented_;
  bool is_first_ = true;  ///< In its array or object.
  bool has_key_ = false;
};

/// A value in a document, which must outlive it.
class JsonView {
 public:
  JsonView(const std::vector<JsonNode>& nodes, std::size_t place) : nodes_(&nodes), place_(place) {}

  [[nodiscard]] const JsonNode& node() const noexcept { return (*nodes_)[place_]; }
  [[nodiscard]] bool is(NodeKind kind) const noexcept { return node().kind == kind; }
  /// The member of an object, or nothing.
  [[nodiscard]] std::optional<JsonView> find(std::string_view key) const;
  /// What lies in an array or an object.
  [[nodiscard]] std::vector<JsonView> elements() const;

  void write(JsonWriter& writer) const;

 private:
  const std::vector<JsonNode>* nodes_;
  std::size_t place_;
};

/// A document: all its values in the order in which they are written. A tree of nlohmann's would do, but its
/// destructor takes memory, and ends the program when there is none.
class JsonDocument {
 public:
  /// Parses JSON (RFC 8259) and refuses what its readers disagree on, keys that come twice, and nesting
  /// deeper than `depth_limit`.
  static JsonDocument parse(std::string_view text, std::size_t depth_limit, const Blame& refuse);

  [[nodiscard]] JsonView root() const noexcept { return {nodes_, 0}; }

 private:
  std::vector<JsonNode> nodes_;
};

}  // namespace cairn::io
