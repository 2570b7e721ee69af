// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/handlers/json.hpp"

namespace cairn::detail {
namespace {

using Json = nlohmann::json;

/// Builds a document from the parser's events. The parser does not recurse, and neither does this.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(std::string_view path) : path_(path) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // Not in texts.
  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    const auto [member, is_new] = open_.back()->get_ref<Json::object_t&>().try_emplace(std::move(value));
    if (!is_new) {
      refuse(fmt::format("the key '{}' is given twice", member->first));
    }
    member_ = &member->second;
    return true;
  }

  bool parse_error(std::size_t byte, const std::string& /*token*/, const Json::exception& error) override {
    refuse(fmt::format("byte {}: {}", byte, error.what()));
  }

  Json take() { return std::move(root_); }

 private:
  /// The place of the next value.
  Json& place() {
    if (open_.empty()) {
      return root_;
    }
    return open_.back()->is_array() ? open_.back()->emplace_back() : *member_;
  }

  template <class T>
  bool add(T&& value) {
    place() = std::forward<T>(value);
    return true;
  }

  bool open(Json container) {
    if (open_.size() == kMaxJsonDepth) {
      refuse(fmt::format("the document is deeper than {} levels", kMaxJsonDepth));
    }
    Json& placed = place();
    placed = std::move(container);
    open_.push_back(&placed);  // Stays in place: its parent gets no other value before it is closed.
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(Errc::malformed_metadata, fmt::format("{}: {}", path_, why));
  }

  std::string_view path_;
  Json root_;
  std::vector<Json*> open_;
  Json* member_ = nullptr;
};

/// Refuses what would be written as something else, or not at all.
void check(const Json& value, std::size_t depth, std::string_view name) {
  const auto refuse = [name](std::string_view why) {
    throw Error(Errc::invalid_argument, fmt::format("'{}': JSON cannot hold {}", name, why));
  };
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    refuse("NaN or infinity");
  }
  if (value.is_binary() || value.is_discarded()) {
    refuse("binary or discarded values");
  }
  if (!value.is_structured()) {
    return;
  }
  if (depth == kMaxJsonDepth) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': the document is deeper than {} levels", name, kMaxJsonDepth));
  }
  for (const Json& child : value) {
    check(child, depth + 1, name);
  }
}

}  // namespace

std::string write_json(const Json& value, std::string_view name) {
  check(value, 0, name);
  try {
    return value.dump() + '\n';
  } catch (const Json::type_error& error) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': a string is not valid UTF-8 ({})", name, error.what()));
  }
}

Json parse_json(std::string_view text, std::string_view path) {
  Builder builder(path);
  if (!Json::sax_parse(text, &builder)) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: the text is no JSON document", path));
  }
  return builder.take();
}

}  // namespace cairn::detail
