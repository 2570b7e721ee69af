// SPDX-License-Identifier: Apache-2.0
#include "proto/place.hpp"

#include <system_error>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "proto/fields.hpp"
#include "proto/map_access.hpp"
#include "proto/scalars.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::size_t kMostRemarks = 100;  // People read no more, and each has a path.

[[noreturn]] void refuse_place(const std::string& name, const std::string& why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", name, why));
}

template <class T>
std::optional<T> from_text(const std::string& bytes, const FieldDescriptor& field) {
  if (field.enum_type() != nullptr) {
    const auto* named = field.enum_type()->FindValueByName(bytes);
    return named != nullptr ? std::optional(static_cast<T>(named->number())) : std::nullopt;
  }
  if constexpr (std::is_same_v<T, bool>) {
    return bytes == "true" ? std::optional(true) : bytes == "false" ? std::optional(false) : std::nullopt;
  } else {
    T value = 0;
    const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), value);
    return error == std::errc() && end == bytes.data() + bytes.size() ? std::optional(value) : std::nullopt;
  }
}

template <class T>
std::optional<T> from_binary(const std::string& bytes, const FieldDescriptor& field) {
  if (bytes.size() != sizeof(T)) {
    return std::nullopt;
  }
  std::string own_order = bytes;
  if constexpr (std::endian::native == std::endian::big) {
    std::reverse(own_order.begin(), own_order.end());
  }
  if constexpr (std::is_same_v<T, bool>) {
    return own_order[0] == 0 || own_order[0] == 1 ? std::optional(own_order[0] == 1) : std::nullopt;
  } else {
    T value = 0;
    std::memcpy(&value, own_order.data(), sizeof(T));
    // An enum of proto2 has no other values than those with a name.
    const EnumDescriptor* type = field.enum_type();
    const bool is_known = type == nullptr || type->file()->syntax() == FileDescriptor::SYNTAX_PROTO3 ||
                          type->FindValueByNumber(static_cast<int>(value)) != nullptr;
    return is_known ? std::optional(value) : std::nullopt;
  }
}

/// Takes the text where there is one; says so where the bytes mean something else in binary form.
template <class T>
T number_from(const std::string& bytes, const FieldDescriptor& field,
              const std::function<std::string()>& name, std::vector<std::string>& remarks) {
  const std::optional<T> text = from_text<T>(bytes, field);
  const std::optional<T> binary = from_binary<T>(bytes, field);
  if (text && binary && remarks.size() < kMostRemarks) {
    remarks.push_back(fmt::format("{}: the chunk is read as the text of {}; as binary it would be {}", name(),
                                  *text, *binary));
  }
  if (!text && !binary) {
    refuse_place(name(), fmt::format("the chunk is not a value of type {}, neither as text nor as binary",
                                     field.type_name()));
  }
  return text ? *text : *binary;
}

void set_string(MergePlace& place, std::string bytes, bool append) {
  const Reflection& reflection = *place.message->GetReflection();
  std::string scratch;
  if (append) {
    bytes.insert(0, string_of(*place.message, *place.field, place.index, scratch));
  }
  if (place.index) {
    reflection.SetRepeatedString(place.message, place.field, *place.index, std::move(bytes));
  } else {
    reflection.SetString(place.message, place.field, std::move(bytes));
  }
}

}  // namespace

PlaceMaker::PlaceMaker(Message& out, const MergePlan& plan, std::uint64_t most_empty_elements)
    : plan_(plan), out_type_(out.GetDescriptor()), empty_elements_(most_empty_elements) {
  MergePlace root;
  root.message = &out;
  way_.push_back({plan.root, root, {}});
}

MergePlace& PlaceMaker::make(const MergeStep& step) {
  const PathTree& paths = plan_.paths;
  const auto length = [&](PathTree::Place place) { return paths.depth(place) - paths.depth(plan_.root); };
  std::vector<PathTree::Place> missing;  // From the step upwards.
  PathTree::Place known = step.place;
  while (length(known) >= way_.size() || way_[length(known)].at != known) {
    missing.push_back(known);
    known = paths.above(known);
  }
  go_back(length(known) + 1);
  for (auto next = missing.rbegin(); next != missing.rend(); ++next) {
    MergePlace place = behind(way_.back(), paths.tag(*next), step);
    way_.push_back({*next, place, {}});
  }
  return way_.back().place;
}

void PlaceMaker::finish() {
  go_back(0);
}

void PlaceMaker::go_back(std::size_t stops) {
  for (; way_.size() > stops; way_.pop_back()) {  // Maps that lie in the values of others first.
    if (way_.back().entries) {
      move_into_map(*way_.back().place.message, *way_.back().place.field);
    }
  }
}

/// Finds or makes an entry of the map at a stop.
Message& PlaceMaker::entry_of(Stop& stop, const Tag& key) {
  Message& message = *stop.place.message;
  const FieldDescriptor& field = *stop.place.field;
  const Reflection& reflection = *message.GetReflection();
  if (!stop.entries) {
    MapEntries there = entries_of(message, field);
    stop.entries.emplace();
    for (MapEntry& entry : there.sorted) {
      stop.entries->emplace_hint(stop.entries->end(), std::move(entry.key), entry.place);
    }
  }
  if (const auto found = stop.entries->find(key); found != stop.entries->end()) {
    return *reflection.MutableRepeatedMessage(&message, &field, found->second);
  }
  Message& entry = add_entry(message, field, key);
  stop.entries->emplace(key, reflection.FieldSize(message, &field) - 1);
  return entry;
}

MergePlace PlaceMaker::behind(Stop& stop, const Tag& tag, const MergeStep& step) {
  const MergePlace& place = stop.place;
  MergePlace result = place;
  Message& message = *place.message;
  const Reflection& reflection = *message.GetReflection();
  if (const auto* number = std::get_if<FieldNumber>(&tag)) {
    result.field = find_field(*message.GetDescriptor(), static_cast<int>(number->value));
    if (!result.field->is_repeated() && result.field->message_type() != nullptr) {
      result.message = reflection.MutableMessage(&message, result.field);
    }
  } else if (const auto* index = std::get_if<ElementIndex>(&tag)) {
    extend(place, index->value, step);
    result.index = static_cast<int>(index->value);
    if (place.field->message_type() != nullptr) {
      result.message = reflection.MutableRepeatedMessage(&message, place.field, *result.index);
      result.index.reset();
    }
  } else {
    result.message = &entry_of(stop, tag);
    result.field = place.field->message_type()->map_value();
    if (result.field->message_type() != nullptr) {
      result.message = result.message->GetReflection()->MutableMessage(result.message, result.field);
    }
  }
  return result;
}

/// Makes elements up to `index`.
void PlaceMaker::extend(const MergePlace& list, std::uint64_t index, const MergeStep& step) {
  const Reflection& reflection = *list.message->GetReflection();
  const auto size = static_cast<std::uint64_t>(reflection.FieldSize(*list.message, list.field));
  if (index < size) {
    return;
  }
  const auto refuse = [&](const std::string& why) {
    refuse_place(fmt::format("chunk {} at {}", step.chunk, to_text(out_type_, path_of(plan_, step))), why);
  };
  if (list.field->message_type() == nullptr) {
    refuse(fmt::format("there is no element {} among {}", index, size));
  }
  const std::uint64_t missing = index - size;
  if (missing > empty_elements_) {
    refuse(
        fmt::format("{} elements before it are in no chunk, and {} are allowed", missing, empty_elements_));
  }
  empty_elements_ -= missing;
  for (std::uint64_t i = size; i <= index; ++i) {
    reflection.AddMessage(list.message, list.field);
  }
}

Message* find_message(Message& root, std::span<const Tag> path) {
  Message* message = &root;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const Reflection& reflection = *message->GetReflection();
    const auto number = static_cast<int>(std::get<FieldNumber>(path[i]).value);
    const FieldDescriptor& field = *find_field(*message->GetDescriptor(), number);
    if (field.is_map()) {
      const MapEntries entries = entries_of(*message, field);
      const MapEntry* found = entries.find(path[++i]);
      if (found == nullptr) {
        return nullptr;
      }
      Message* entry = reflection.MutableRepeatedMessage(message, &field, found->place);
      message = entry->GetReflection()->MutableMessage(entry, field.message_type()->map_value());
    } else if (field.is_repeated()) {
      const std::uint64_t index = std::get<ElementIndex>(path[++i]).value;
      if (index >= static_cast<std::uint64_t>(reflection.FieldSize(*message, &field))) {
        return nullptr;
      }
      message = reflection.MutableRepeatedMessage(message, &field, static_cast<int>(index));
    } else if (reflection.HasField(*message, &field)) {
      message = reflection.MutableMessage(message, &field);
    } else {
      return nullptr;
    }
  }
  return message;
}

void set_scalar(MergePlace& place, const FieldDescriptor& value, std::string bytes, bool append,
                const std::function<std::string()>& name, std::vector<std::string>& remarks) {
  with_scalar(value, [&]<class T>(const ScalarFunctions<T>& functions) {
    if constexpr (std::is_same_v<T, std::string>) {
      set_string(place, std::move(bytes), append);
    } else {
      const T number = number_from<T>(bytes, value, name, remarks);
      const Reflection& reflection = *place.message->GetReflection();
      if (place.index) {
        (reflection.*functions.set_element)(place.message, place.field, *place.index, number);
      } else {
        (reflection.*functions.set)(place.message, place.field, number);
      }
    }
  });
}

}  // namespace cairn::proto
