// SPDX-License-Identifier: Apache-2.0
#include "proto/tags.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "cairn/proto/chunked.pb.h"

namespace cairn::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

/// Returns a whole number of any kind as one of `T`, where it fits.
template <class T>
std::optional<Tag> number_as(const Tag& tag) {
  return std::visit(
      [](const auto& value) -> std::optional<Tag> {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) {
          if (std::in_range<T>(value)) {
            return Tag(static_cast<T>(value));
          }
        }
        return std::nullopt;
      },
      tag);
}

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

const FieldDescriptor* find_by_name(const Descriptor& type, const std::string& name) {
  if (const FieldDescriptor* field = type.FindFieldByName(name)) {
    return field;
  }
  return type.file()->pool()->FindExtensionByPrintableName(&type, name);
}

}  // namespace

bool is_key(const Tag& tag) noexcept {
  return !std::holds_alternative<FieldNumber>(tag) && !std::holds_alternative<ElementIndex>(tag);
}

int levels(const Tags& path) noexcept {
  return static_cast<int>(std::count_if(
      path.begin(), path.end(), [](const Tag& tag) { return !std::holds_alternative<ElementIndex>(tag); }));
}

bool begins_with(const Tags& path, const Tags& prefix) {
  return path.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), path.begin());
}

Tag to_tag(const chunked::FieldIndex& stored) {
  if (stored.kind_case() == chunked::FieldIndex::kField) {
    return FieldNumber{stored.field()};
  }
  if (stored.kind_case() == chunked::FieldIndex::kIndex) {
    return ElementIndex{stored.index()};
  }
  const chunked::FieldIndex::MapKey& key = stored.map_key();
  switch (key.type_case()) {
    case chunked::FieldIndex::MapKey::kS:
      return key.s();
    case chunked::FieldIndex::MapKey::kBoolean:
      return key.boolean();
    case chunked::FieldIndex::MapKey::kUi32:
      return key.ui32();
    case chunked::FieldIndex::MapKey::kUi64:
      return key.ui64();
    case chunked::FieldIndex::MapKey::kI32:
      return key.i32();
    case chunked::FieldIndex::MapKey::kI64:
      return key.i64();
    default:
      throw Error(Errc::malformed_metadata,
                  "a tag of a chunked field is neither a field nor an index nor a key");
  }
}

void write_tag(const Tag& tag, chunked::FieldIndex& out) {
  std::visit(Overloaded{[&out](FieldNumber field) { out.set_field(field.value); },
                        [&out](ElementIndex index) { out.set_index(index.value); },
                        [&out](const std::string& key) { out.mutable_map_key()->set_s(key); },
                        [&out](bool key) { out.mutable_map_key()->set_boolean(key); },
                        [&out](std::uint32_t key) { out.mutable_map_key()->set_ui32(key); },
                        [&out](std::uint64_t key) { out.mutable_map_key()->set_ui64(key); },
                        [&out](std::int32_t key) { out.mutable_map_key()->set_i32(key); },
                        [&out](std::int64_t key) { out.mutable_map_key()->set_i64(key); }},
             tag);
}

std::optional<Tag> as_key_of(const FieldDescriptor& map, const Tag& key) {
  switch (map.message_type()->map_key()->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return std::holds_alternative<std::string>(key) ? std::optional<Tag>(key) : std::nullopt;
    case FieldDescriptor::CPPTYPE_BOOL:
      return std::holds_alternative<bool>(key) ? std::optional<Tag>(key) : std::nullopt;
    case FieldDescriptor::CPPTYPE_UINT32:
      return number_as<std::uint32_t>(key);
    case FieldDescriptor::CPPTYPE_UINT64:
      return number_as<std::uint64_t>(key);
    case FieldDescriptor::CPPTYPE_INT32:
      return number_as<std::int32_t>(key);
    default:
      return number_as<std::int64_t>(key);
  }
}

const FieldDescriptor* find_field(const Descriptor& type, int number) {
  if (const FieldDescriptor* field = type.FindFieldByNumber(number)) {
    return field;
  }
  return type.IsExtensionNumber(number) ? type.file()->pool()->FindExtensionByNumber(&type, number) : nullptr;
}

std::string path_text(const Descriptor* root, std::span<const Tag> tags) {
  std::string text;
  const Descriptor* type = root;
  for (const Tag& tag : tags) {
    if (!std::holds_alternative<FieldNumber>(tag)) {
      std::visit(Overloaded{[](FieldNumber /*field*/) {},
                            [&text](ElementIndex index) { text += fmt::format("[{}]", index.value); },
                            [&text](const std::string& key) { text += fmt::format("[{}]", in_quotes(key)); },
                            [&text](auto key) { text += fmt::format("[{}]", key); }},
                 tag);
      continue;
    }
    const std::uint32_t number = std::get<FieldNumber>(tag).value;
    const FieldDescriptor* field =
        type != nullptr && std::in_range<int>(number) ? find_field(*type, static_cast<int>(number)) : nullptr;
    if (field != nullptr && field->is_extension()) {
      text += fmt::format("[{}]", field->full_name());
    } else {
      text += text.empty() ? "" : ".";
      text += field != nullptr ? field->name() : fmt::format("{}", number);
    }
    type = field == nullptr  ? nullptr
           : field->is_map() ? field->message_type()->map_value()->message_type()
                             : field->message_type();
  }
  return text;
}

std::string to_text(const Descriptor* root, std::span<const Tag> tags) {
  constexpr std::size_t kMostKept = 500;  // At both ends.
  std::string text = tags.empty() ? "the message itself" : path_text(root, tags);
  if (text.size() > 2 * kMostKept) {
    text.replace(kMostKept, text.size() - 2 * kMostKept, " ... ");
  }
  return text;
}

std::optional<std::string> Walk::take(Tag& tag) {
  if (root_ == nullptr) {
    return std::nullopt;
  }
  if (const auto* number = std::get_if<FieldNumber>(&tag)) {
    if (list_ != nullptr) {
      return fmt::format("'{}' is {}, and a field follows", list_->name(),
                         list_->is_map() ? "a map: a key is missing" : "repeated: an index is missing");
    }
    if (type_ == nullptr) {
      return fmt::format("'{}' is not a message, and has no fields", value_->name());
    }
    const FieldDescriptor* field =
        std::in_range<int>(number->value) ? find_field(*type_, static_cast<int>(number->value)) : nullptr;
    if (field == nullptr) {
      return fmt::format("{} has no field {}", type_->full_name(), number->value);
    }
    value_ = field;
    list_ = field->is_repeated() ? field : nullptr;
    type_ = field->is_repeated() ? nullptr : field->message_type();
    return std::nullopt;
  }
  if (std::holds_alternative<ElementIndex>(tag)) {
    if (list_ == nullptr || list_->is_map()) {
      return "an index, where there is no element of a repeated field";
    }
  } else {
    if (list_ == nullptr || !list_->is_map()) {
      return "a key, where there is no entry of a map";
    }
    std::optional<Tag> key = as_key_of(*list_, tag);
    if (!key) {
      return fmt::format("a key of '{}' is of type {}", list_->name(),
                         list_->message_type()->map_key()->type_name());
    }
    tag = std::move(*key);
    value_ = list_->message_type()->map_value();
  }
  list_ = nullptr;
  type_ = value_->message_type();
  return std::nullopt;
}

void Walk::step(Tags& path) {
  if (const auto problem = take(path.back())) {
    throw Error(code_, fmt::format("{}: {}", to_text(root_, path), *problem));
  }
}

void resolve(const Path& path, Walk& walk, Tags& tags) {
  const auto refuse = [&path](const std::string& why) {
    throw Error(Errc::invalid_argument, fmt::format("'{}': {}", to_text(path), why));
  };
  for (const PathElement& element : path) {
    const auto* name = std::get_if<std::string>(&element.value());
    const auto* number = std::get_if<std::uint64_t>(&element.value());
    if (walk.is_at_list()) {
      if (walk.value()->is_map()) {
        std::visit([&tags](const auto& value) { tags.emplace_back(value); }, element.value());
      } else if (number != nullptr) {
        tags.emplace_back(ElementIndex{*number});
      } else {
        refuse(fmt::format("'{}' is repeated: an index is missing", walk.value()->name()));
      }
    } else if (number != nullptr) {
      if (!std::in_range<std::int32_t>(*number)) {
        refuse(fmt::format("there is no field {}", *number));
      }
      tags.emplace_back(FieldNumber{static_cast<std::uint32_t>(*number)});
    } else if (name == nullptr) {
      refuse("a field is a name or a number");
    } else if (walk.type() == nullptr) {
      refuse(fmt::format("'{}' is not a message, and has no fields", walk.value()->name()));
    } else if (const FieldDescriptor* field = find_by_name(*walk.type(), *name)) {
      tags.emplace_back(FieldNumber{static_cast<std::uint32_t>(field->number())});
    } else {
      refuse(fmt::format("{} has no field '{}'", walk.type()->full_name(), *name));
    }
    walk.step(tags);
  }
}

}  // namespace cairn::proto
