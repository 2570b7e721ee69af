// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/json.hpp"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "text.hpp"

namespace cairn {
namespace {

constexpr std::string_view kFile = "data.json";

JsonKind kind_of(const nlohmann::json& value) noexcept {
  switch (value.type()) {
    case nlohmann::json::value_t::null:
      return JsonKind::null;
    case nlohmann::json::value_t::boolean:
      return JsonKind::boolean;
    case nlohmann::json::value_t::string:
      return JsonKind::string;
    case nlohmann::json::value_t::array:
      return JsonKind::array;
    case nlohmann::json::value_t::object:
      return JsonKind::object;
    default:
      return JsonKind::number;
  }
}

Awaitable<nlohmann::json> read(LoadContext context, AbstractJson wanted) {
  const std::string text = co_await context.read_file(kFile);
  const std::string path = (context.directory() / kFile).string();
  nlohmann::json value = detail::parse_json(text, path);
  if (wanted.kind && *wanted.kind != kind_of(value)) {
    throw Error(Errc::type_mismatch,
                fmt::format("{}: stored is {}, wanted {}", path, name(kind_of(value)), name(*wanted.kind)));
  }
  co_return value;
}

Awaitable<AbstractJson> describe_json(LoadContext context) {
  const AbstractJson anything;
  const nlohmann::json value = co_await read(std::move(context), anything);
  co_return AbstractJson(kind_of(value));
}

}  // namespace

std::string_view name(JsonKind kind) noexcept {
  switch (kind) {
    case JsonKind::null:
      return "null";
    case JsonKind::boolean:
      return "boolean";
    case JsonKind::number:
      return "number";
    case JsonKind::string:
      return "string";
    case JsonKind::array:
      return "array";
    case JsonKind::object:
      return "object";
  }
  return "?";
}

// outlives: `value` is turned into text before the first suspension.
Awaitable<Background<>> JsonHandler::save(SaveContext context, const nlohmann::json& value) const {
  std::string text = detail::write_json(value, context.name());
  co_return context.write_file(kFile, std::move(text));
}

Awaitable<Background<nlohmann::json>> JsonHandler::load(LoadContext context,
                                                        std::optional<AbstractJson> wanted) const {
  co_return read(std::move(context), wanted.value_or(AbstractJson()));
}

Awaitable<AbstractJson> JsonHandler::metadata(LoadContext context) const {
  return describe_json(std::move(context));
}

}  // namespace cairn
