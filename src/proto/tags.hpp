// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <google/protobuf/message.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/path.hpp"

namespace cairn::chunked {
class FieldIndex;
}

namespace cairn::proto {

struct FieldNumber {
  std::uint32_t value = 0;
  friend auto operator<=>(FieldNumber, FieldNumber) = default;
};

struct ElementIndex {
  std::uint64_t value = 0;
  friend auto operator<=>(ElementIndex, ElementIndex) = default;
};

/// One element of a path as it is stored: a field number, an index, or a key of a map in the six kinds of the wire.
/// The order is the one in which chunks are merged: by kind, then by value.
using Tag = std::variant<FieldNumber, ElementIndex, std::string, bool, std::uint32_t, std::uint64_t,
                         std::int32_t, std::int64_t>;
using Tags = std::vector<Tag>;

[[nodiscard]] bool is_key(const Tag& tag) noexcept;
/// How many messages lie in each other on the way to a message.
[[nodiscard]] int levels(const Tags& path) noexcept;
[[nodiscard]] bool begins_with(const Tags& path, const Tags& prefix);

/// Errors: Errc::malformed_metadata for a tag of no kind.
[[nodiscard]] Tag to_tag(const chunked::FieldIndex& stored);
void write_tag(const Tag& tag, chunked::FieldIndex& out);

/// Returns the key in the kind that the keys of `map` have; nothing where it is none of them.
[[nodiscard]] std::optional<Tag> as_key_of(const google::protobuf::FieldDescriptor& map, const Tag& key);

/// Returns a text in quotation marks, which `parse_path` reads again.
[[nodiscard]] std::string in_quotes(std::string_view text);
/// Returns `node[5].attr["value"]`, which `parse_path` reads. Fields that the type does not have go by their numbers,
/// as all do where it is null.
[[nodiscard]] std::string path_text(const google::protobuf::Descriptor* root, std::span<const Tag> tags);
/// The same for errors: without its middle where it is long; "the message itself" for the empty path.
[[nodiscard]] std::string to_text(const google::protobuf::Descriptor* root, std::span<const Tag> tags);

/// Finds a field, or an extension of the pool that the type is of.
[[nodiscard]] const google::protobuf::FieldDescriptor* find_field(const google::protobuf::Descriptor& type,
                                                                  int number);

/// Walks along tags from a type, by descriptors alone.
class Walk {
 public:
  /// Errors of the walk are of this code. Without a type every tag fits, and nothing is known of what is there.
  Walk(const google::protobuf::Descriptor* root, Errc code) : type_(root), root_(root), code_(code) {}

  /// Takes a tag, and brings a key into the kind of its map. Returns why it does not fit, where it does not.
  [[nodiscard]] std::optional<std::string> take(Tag& tag);
  /// Takes the last tag of `path`, whose others have been taken before.
  ///
  /// Errors: the code, naming the path, where the tag does not fit.
  void step(Tags& path);

  /// The type of the message that the path leads to; null for a scalar and for a repeated field as a whole.
  [[nodiscard]] const google::protobuf::Descriptor* type() const noexcept { return type_; }

  /// The field whose type the value has: that of the value, for a map. Null at the root.
  [[nodiscard]] const google::protobuf::FieldDescriptor* value() const noexcept { return value_; }

  /// The path ends with a repeated field or a map, whose element or entry is not named.
  [[nodiscard]] bool is_at_list() const noexcept { return list_ != nullptr; }

 private:
  const google::protobuf::Descriptor* type_;
  const google::protobuf::Descriptor* root_;
  const google::protobuf::FieldDescriptor* value_ = nullptr;
  const google::protobuf::FieldDescriptor* list_ = nullptr;
  Errc code_;
};

/// Turns a path of the user's into tags, appended to `tags`, which `walk` has taken.
///
/// Errors: Errc::invalid_argument.
void resolve(const Path& path, Walk& walk, Tags& tags);

}  // namespace cairn::proto
