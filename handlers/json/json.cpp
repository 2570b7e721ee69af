// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/json.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
  const std::string path = (context.path() / kFile).string();
  nlohmann::json value = parse_json(text, path);
  if (wanted.kind && *wanted.kind != kind_of(value)) {
    throw Error(Errc::type_mismatch,
                fmt::format("{}: stored is {}, wanted {}", path, name(kind_of(value)), name(*wanted.kind)));
  }
  co_return value;
}

/// How much of a document is read to tell what its root is: white space may come first.
constexpr std::uint64_t kBeginBytes = 4096;

/// Returns what the first byte of a document announces; nothing when it announces none.
std::optional<JsonKind> kind_announced_by(char first) noexcept {
  switch (first) {
    case '{':
      return JsonKind::object;
    case '[':
      return JsonKind::array;
    case '"':
      return JsonKind::string;
    case 't':
    case 'f':
      return JsonKind::boolean;
    case 'n':
      return JsonKind::null;
    default:
      return first == '-' || (first >= '0' && first <= '9') ? std::optional(JsonKind::number) : std::nullopt;
  }
}

/// Describes a document by its beginning, however large it is; whether the rest is one is for loads to say.
Awaitable<AbstractJson> read_kind(LoadContext context) {
  const std::string path = (context.path() / kFile).string();
  const std::uint64_t size =
      context.file_bytes(kFile).value_or(kBeginBytes);  // The read says that it is missing.
  std::string begin(static_cast<std::size_t>(std::min(size, kBeginBytes)), '\0');
  DestinationPiece piece;
  piece.size_bytes = begin.size();
  piece.data = reinterpret_cast<std::byte*>(begin.data());
  std::vector<DestinationPiece> pieces;
  pieces.push_back(std::move(piece));
  co_await context.read_pieces(kFile, std::move(pieces));
  const std::size_t first = begin.find_first_not_of(" \t\n\r");
  if (first == std::string::npos && size > kBeginBytes) {
    co_return AbstractJson();
  }
  const auto kind = first == std::string::npos ? std::nullopt : kind_announced_by(begin[first]);
  if (!kind) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: the text is not a JSON document", path));
  }
  co_return AbstractJson(*kind);
}

}  // namespace

std::string_view name(JsonKind kind) noexcept {
  static constexpr std::array<std::string_view, 6> kNames = {"null",   "boolean", "number",
                                                             "string", "array",   "object"};
  return kNames[static_cast<std::size_t>(kind)];
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
  return read_kind(std::move(context));
}

Description JsonHandler::describe(const AbstractJson& stored) const {
  Description description;
  description.kind = stored.kind ? fmt::format("JSON {}", name(*stored.kind)) : "JSON";
  description.texts = {std::string(kFile)};
  description.says_all = true;
  return description;
}

}  // namespace cairn
