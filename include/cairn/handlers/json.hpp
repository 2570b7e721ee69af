// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "cairn/contract/handler.hpp"
#include "cairn/contract/value_traits.hpp"

namespace cairn {

/// Says what a JSON value is.
enum class JsonKind : std::uint8_t { null, boolean, number, string, array, object };

/// "null", "boolean", … for messages.
[[nodiscard]] std::string_view name(JsonKind kind) noexcept;

/// Holds what metadata says of a JSON document, and what a load may ask for.
struct AbstractJson {
  AbstractJson() = default;

  explicit AbstractJson(JsonKind root) : kind(root) {}

  /// The root; nothing asks for any. Metadata has nothing where the text begins with 4 KiB of white space.
  std::optional<JsonKind> kind;

  bool operator==(const AbstractJson&) const = default;
};

/// The most arrays and objects around a value of a document.
inline constexpr std::size_t kMaxJsonDepth = 512;

/// The document of a text, read as a load reads it; `path` names it in errors.
///
/// Errors: Errc::malformed_metadata, naming the byte, when the text is not JSON, a key is given twice or the document
///         is deeper than kMaxJsonDepth.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view path);

/// Saves a JSON document as `data.json`. The text is made in the blocking phase.
class JsonHandler final : public CheckpointableHandler<nlohmann::json, AbstractJson> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "cairn.json/1"; }

  /// Errors: Errc::invalid_argument for what no JSON text can say (NaN, infinity, binary values, strings
  ///         that are not UTF-8), and for documents deeper than kMaxJsonDepth.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const nlohmann::json& value) const override;

  /// Errors: as parse_json; Errc::type_mismatch when the root is not what was asked for.
  [[nodiscard]] Awaitable<Background<nlohmann::json>> load(LoadContext context,
                                                           std::optional<AbstractJson> wanted) const override;

  /// Reads the beginning of the document only: depth, size and UTF-8 are for loads to check.
  ///
  /// Errors: Errc::malformed_metadata when no JSON document begins so.
  [[nodiscard]] Awaitable<AbstractJson> metadata(LoadContext context) const override;
  [[nodiscard]] Description describe(const AbstractJson& stored) const override;
};

template <>
struct IsCopyable<nlohmann::json> : std::true_type {};

template <>
struct WritesToCaller<AbstractJson> {
  static bool check(const AbstractJson& /*wanted*/) { return false; }
};

}  // namespace cairn
