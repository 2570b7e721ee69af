// SPDX-License-Identifier: Apache-2.0
#include "io/json.hpp"

#include <iterator>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/base/json_string.hpp"

namespace cairn::io {
namespace {

/// Refuses nesting that is too deep, before any parser sees it.
void require_shallow(std::string_view text, std::size_t limit, const Blame& refuse) {
  std::size_t depth = 0;
  bool is_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      i += c == '\\' ? 1 : 0;
      is_string = c != '"';
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > limit) {
        refuse(fmt::format("nested deeper than {} levels", limit));
      }
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
}

/// Lays down the values that the parser reports.
class Nodes final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Nodes(std::vector<JsonNode>& nodes) : nodes_(nodes) {}

  bool null() override { return add(NodeKind::literal, "null"); }
  bool boolean(bool value) override { return add(NodeKind::literal, value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return add(NodeKind::literal, fmt::to_string(value));
  }

  bool number_unsigned(number_unsigned_t value) override {
    add(NodeKind::natural, fmt::to_string(value));
    nodes_.back().number = value;
    return true;
  }

  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return add(NodeKind::literal, nlohmann::json(value).dump());
  }

  bool string(string_t& value) override { return add(NodeKind::string, std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // Not in texts.

  bool start_object(std::size_t /*size*/) override {
    keys_.emplace_back();
    return open(NodeKind::object);
  }

  bool end_object() override {
    keys_.pop_back();
    return close();
  }

  bool start_array(std::size_t /*size*/) override { return open(NodeKind::array); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (!keys_.back().insert(value).second) {
      repeated_ = value;
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t /*byte*/, const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    problem_ = error.what();
    return false;
  }

  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  [[nodiscard]] const std::optional<std::string>& repeated() const noexcept { return repeated_; }

 private:
  bool add(NodeKind kind, std::string text) {
    JsonNode node;
    node.kind = kind;
    node.key = std::exchange(key_, {});
    node.text = std::move(text);
    node.end = nodes_.size() + 1;
    nodes_.push_back(std::move(node));
    return true;
  }

  bool open(NodeKind kind) {
    open_.push_back(nodes_.size());
    return add(kind, {});
  }

  bool close() {
    nodes_[open_.back()].end = nodes_.size();
    open_.pop_back();
    return true;
  }

  std::vector<JsonNode>& nodes_;
  std::vector<std::size_t> open_;
  std::vector<std::unordered_set<std::string>> keys_;  // Of the objects that are open.
  std::string key_;
  std::string problem_;
  std::optional<std::string> repeated_;
};

}  // namespace

void Blame::operator()(std::string_view why) const {
  throw Error(code, fmt::format("{}: {}", where, why));
}

std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 200;
  std::string shown;
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return text.size() > kMost ? shown + "..." : shown;
}

void JsonWriter::begin(char bracket) {
  begin_value();
  text_ += bracket;
  ++depth_;
  is_first_ = true;
}

void JsonWriter::end(char bracket) {
  --depth_;
  if (!std::exchange(is_first_, false)) {
    begin_line();
  }
  text_ += bracket;
}

void JsonWriter::key(std::string_view name) {
  begin_value();
  append_json_string(text_, name);
  text_ += is_indented_ ? ": " : ":";
  has_key_ = true;
}

void JsonWriter::string(std::string_view text) {
  begin_value();
  append_json_string(text_, text);
}

void JsonWriter::natural(std::uint64_t number) {
  begin_value();
  fmt::format_to(std::back_inserter(text_), "{}", number);
}

void JsonWriter::literal(std::string_view text) {
  begin_value();
  text_ += text;
}

void JsonWriter::begin_value() {
  if (std::exchange(has_key_, false) || depth_ == 0) {
    return;
  }
  if (!std::exchange(is_first_, false)) {
    text_ += ',';
  }
  begin_line();
}

void JsonWriter::begin_line() {
  if (is_indented_) {
    text_ += '\n';
    text_.append(depth_, ' ');
  }
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  for (std::size_t place = place_ + 1; place < node().end; place = (*nodes_)[place].end) {
    if ((*nodes_)[place].key == key) {
      return JsonView(*nodes_, place);
    }
  }
  return std::nullopt;
}

std::vector<JsonView> JsonView::elements() const {
  std::vector<JsonView> views;
  for (std::size_t place = place_ + 1; place < node().end; place = (*nodes_)[place].end) {
    views.emplace_back(*nodes_, place);
  }
  return views;
}

void JsonView::write(JsonWriter& writer) const {
  const JsonNode& self = node();
  if (self.kind == NodeKind::string) {
    return writer.string(self.text);
  }
  if (self.kind != NodeKind::array && self.kind != NodeKind::object) {
    return writer.literal(self.text);
  }
  const bool is_object = self.kind == NodeKind::object;
  writer.begin(is_object ? '{' : '[');
  for (const JsonView& element : elements()) {  // Not deeper than the parser allowed.
    if (is_object) {
      writer.key(element.node().key);
    }
    element.write(writer);
  }
  writer.end(is_object ? '}' : ']');
}

JsonDocument JsonDocument::parse(std::string_view text, std::size_t depth_limit, const Blame& refuse) {
  require_shallow(text, depth_limit, refuse);
  JsonDocument document;
  Nodes nodes(document.nodes_);
  if (!nlohmann::json::sax_parse(text, &nodes)) {
    refuse(nodes.problem());
  }
  if (nodes.repeated()) {
    refuse(fmt::format("the key '{}' comes twice", printable(*nodes.repeated())));
  }
  return document;
}

}  // namespace cairn::io
