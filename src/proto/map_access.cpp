// SPDX-License-Identifier: Apache-2.0
#include "proto/map_access.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>

#include "proto/scalars.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::Reflection;

Tag key_of(const Message& entry) {
  const FieldDescriptor& key = *entry.GetDescriptor()->map_key();
  return with_scalar(key, [&]<class T>(const ScalarFunctions<T>& functions) -> Tag {
    if constexpr (std::is_floating_point_v<T>) {
      return {};  // Protobuf has no such keys.
    } else {
      return functions.of(entry, key, {});
    }
  });
}

}  // namespace

const MapEntry* MapEntries::find(const Tag& key) const {
  const auto found =
      std::lower_bound(sorted.begin(), sorted.end(), key,
                       [](const MapEntry& entry, const Tag& wanted) { return entry.key < wanted; });
  return found != sorted.end() && found->key == key ? &*found : nullptr;
}

MapEntries entries_of(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  MapEntries entries;
  entries.listed = reflection.FieldSize(message, &field);
  entries.sorted.reserve(static_cast<std::size_t>(entries.listed));
  for (int i = 0; i < entries.listed; ++i) {
    entries.sorted.push_back({key_of(reflection.GetRepeatedMessage(message, &field, i)), i});
  }
  const auto comes_first = [](const MapEntry& left, const MapEntry& right) {
    return left.key != right.key ? left.key < right.key : left.place > right.place;
  };
  const auto is_same = [](const MapEntry& left, const MapEntry& right) { return left.key == right.key; };
  std::sort(entries.sorted.begin(), entries.sorted.end(), comes_first);
  entries.sorted.erase(std::unique(entries.sorted.begin(), entries.sorted.end(), is_same),
                       entries.sorted.end());
  return entries;
}

const Message* find_listed(const Message& message, const FieldDescriptor& field, const MapEntry& entry) {
  const Reflection& reflection = *message.GetReflection();
  if (entry.place >= reflection.FieldSize(message, &field)) {
    return nullptr;
  }
  const Message& listed = reflection.GetRepeatedMessage(message, &field, entry.place);
  return key_of(listed) == entry.key ? &listed : nullptr;
}

Message& add_entry(Message& message, const FieldDescriptor& field, const Tag& key) {
  Message& entry = *message.GetReflection()->AddMessage(&message, &field);
  const FieldDescriptor& of_key = *field.message_type()->map_key();
  with_scalar(of_key, [&]<class T>(const ScalarFunctions<T>& functions) {
    if constexpr (!std::is_floating_point_v<T>) {
      (entry.GetReflection()->*functions.set)(&entry, &of_key, std::get<T>(key));
    }
  });
  return entry;
}

void move_into_map(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (message.GetArena() != nullptr ||
      reflection.GetMessageFactory() != MessageFactory::generated_factory()) {
    return;
  }
  std::vector<std::unique_ptr<Message>> entries(
      static_cast<std::size_t>(reflection.FieldSize(message, &field)));
  for (std::size_t i = entries.size(); i-- > 0;) {
    entries[i].reset(reflection.ReleaseLast(&message, &field));
  }
  // One by one, so that two copies of one entry are there meanwhile, not of all.
  for (std::unique_ptr<Message>& entry : entries) {
    const std::unique_ptr<Message> one(message.New());
    reflection.AddAllocatedMessage(one.get(), &field, entry.get());
    static_cast<void>(entry.release());
    message.MergeFrom(*one);
  }
}

}  // namespace cairn::proto
