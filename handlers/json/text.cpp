// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/ieee_arithmetic.hpp"
#include "cairn/handlers/json.hpp"

#include "base/internal/json_reader.hpp"

namespace cairn::detail {
namespace {

using Json = nlohmann::json;

/// Builds a document. The reader does not recurse, and neither does this.
class Builder final : public JsonEvents {
 public:
  explicit Builder(const JsonReader& reader) : reader_(&reader) {}

  void on_begin(char bracket) override {
    Json& placed = place();
    placed = bracket == '{' ? Json::object() : Json::array();
    open_.push_back(&placed);  // Stays in place: its parent gets no other value before it is closed.
  }

  void on_end() override { open_.pop_back(); }

  void on_key(std::string_view key) override {
    const auto [member, is_new] = open_.back()->get_ref<Json::object_t&>().try_emplace(std::string(key));
    if (!is_new) {
      reader_->fail(fmt::format("the key '{}' is given twice", key));
    }
    member_ = &member->second;
  }

  void on_scalar(const JsonScalar& value) override {
    std::visit([this](auto each) { place() = each; }, value);
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

  const JsonReader* reader_;
  Json root_;
  std::vector<Json*> open_;
  Json* member_ = nullptr;
};

/// A value that would be written as something else, or not at all.
struct Refused {
  std::string pointer;  ///< Where it is: "/a/0".
  std::string_view why;
};

std::optional<Refused> find_refused(const Json& value, std::size_t depth, std::string_view name) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    return Refused{{}, "NaN or infinity"};
  }
  if (value.is_binary() || value.is_discarded()) {
    return Refused{{}, "binary or discarded values"};
  }
  if (value.is_structured() && depth == kMaxJsonDepth) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': the document is deeper than {} levels", name, kMaxJsonDepth));
  }
  if (!value.is_structured()) {
    return std::nullopt;
  }
  for (auto child = value.begin(); child != value.end(); ++child) {
    if (std::optional<Refused> refused = find_refused(*child, depth + 1, name)) {
      const std::string key =
          value.is_object() ? child.key() : std::to_string(std::distance(value.begin(), child));
      refused->pointer.insert(0, "/" + key);
      return refused;
    }
  }
  return std::nullopt;
}

/// Returns where a text is that is not UTF-8. Asked when the document could not be written, whose depth has been
/// checked.
std::optional<std::string> find_bad_text(const Json& value) {
  const auto is_bad = [](const Json& text) {
    try {
      static_cast<void>(text.dump());
      return false;
    } catch (const Json::type_error&) {
      return true;
    }
  };
  if (!value.is_structured()) {
    return is_bad(value) ? std::optional<std::string>("") : std::nullopt;
  }
  for (auto child = value.begin(); child != value.end(); ++child) {
    if (value.is_object() && is_bad(child.key())) {
      return "/(a key)";
    }
    if (std::optional<std::string> pointer = find_bad_text(*child)) {
      return fmt::format(
          "/{}{}", value.is_object() ? child.key() : std::to_string(std::distance(value.begin(), child)),
          *pointer);
    }
  }
  return std::nullopt;
}

std::string place_of_bad_text(const Json& value) {
  const std::string pointer = find_bad_text(value).value_or("");
  return pointer.empty() ? "" : fmt::format(" at '{}'", pointer);
}

void check(const Json& value, std::string_view name) {
  if (const std::optional<Refused> refused = find_refused(value, 0, name)) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("'{}'{}: JSON cannot hold {}", name,
                    refused->pointer.empty() ? "" : fmt::format(" at '{}'", refused->pointer), refused->why));
  }
}

}  // namespace

std::string write_json(const Json& value, std::string_view name) {
  check(value, name);
  try {
    const IeeeArithmetic arithmetic;  // Or subnormal numbers might be written as 0.
    return value.dump() + '\n';
  } catch (const Json::type_error& error) {
    throw Error(Errc::invalid_argument, fmt::format("'{}'{}: a text is not valid UTF-8 ({})", name,
                                                    place_of_bad_text(value), error.what()));
  }
}

}  // namespace cairn::detail

nlohmann::json cairn::parse_json(std::string_view text, std::string_view path) {
  JsonRules rules;
  rules.max_depth = kMaxJsonDepth;
  JsonReader reader(text, path, rules);
  detail::Builder builder(reader);
  reader.read_value(builder);
  reader.finish();
  return builder.take();
}
