// SPDX-License-Identifier: Apache-2.0
#include "proto/map_access.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "proto/scalars.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::MapIterator;
using google::protobuf::MapKey;
using google::protobuf::MapValueConstRef;
using google::protobuf::MapValueRef;
using google::protobuf::Message;
using google::protobuf::Reflection;

// An explicit instantiation may name private members ([temp.spec.general]); it defines a friend function that returns
// them. The signatures are the same in protobuf 3.21 and 6.31.
template <class Which, typename Which::Pointer member>
struct Exposed {
  friend typename Which::Pointer exposed(Which /*which*/) { return member; }
};

struct Begin {
  using Pointer = MapIterator (Reflection::*)(Message*, const FieldDescriptor*) const;
  friend Pointer exposed(Begin which);
};

struct End {
  using Pointer = MapIterator (Reflection::*)(Message*, const FieldDescriptor*) const;
  friend Pointer exposed(End which);
};

struct Insert {
  using Pointer = bool (Reflection::*)(Message*, const FieldDescriptor*, const MapKey&, MapValueRef*) const;
  friend Pointer exposed(Insert which);
};

struct Look {
  using Pointer = bool (Reflection::*)(const Message&, const FieldDescriptor*, const MapKey&,
                                       MapValueConstRef*) const;
  friend Pointer exposed(Look which);
};

template struct Exposed<Begin, &Reflection::MapBegin>;
template struct Exposed<End, &Reflection::MapEnd>;
template struct Exposed<Insert, &Reflection::InsertOrLookupMapValue>;
template struct Exposed<Look, &Reflection::LookupMapValue>;

template <class Visit>
void each_entry(Message& message, const FieldDescriptor& field, const Visit& visit) {
  const Reflection& reflection = *message.GetReflection();
  MapIterator entry = (reflection.*exposed(Begin()))(&message, &field);
  const MapIterator end = (reflection.*exposed(End()))(&message, &field);
  for (; entry != end; ++entry) {
    visit(entry);
  }
}

void move_value(MapValueRef& from, MapValueRef& to, const FieldDescriptor& value) {
  if (value.message_type() != nullptr) {
    Message* target = to.MutableMessageValue();
    target->GetReflection()->Swap(target, from.MutableMessageValue());
  } else if (value.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    // The strings lie in the maps, which are not const. Values have no function that moves.
    std::swap(const_cast<std::string&>(to.GetStringValue()), const_cast<std::string&>(from.GetStringValue()));
  } else {
    copy_scalar(from, to, value);
  }
}

}  // namespace

std::vector<MapEntry> sorted_entries(const Message& message, const FieldDescriptor& field) {
  std::vector<MapEntry> entries;
  entries.reserve(static_cast<std::size_t>(message.GetReflection()->FieldSize(message, &field)));
  // MapBegin wants a message that may change, and does not change it.
  each_entry(const_cast<Message&>(message), field, [&entries](MapIterator& entry) {
    entries.push_back({entry.GetKey(), entry.GetValueRef()});
  });
  std::sort(entries.begin(), entries.end(),
            [](const MapEntry& left, const MapEntry& right) { return left.key < right.key; });
  return entries;
}

MapValueRef entry_for(Message& message, const FieldDescriptor& field, const MapKey& key) {
  MapValueRef value;
  (message.GetReflection()->*exposed(Insert()))(&message, &field, key, &value);
  return value;
}

bool find_entry(const Message& message, const FieldDescriptor& field, const MapKey& key,
                MapValueConstRef& value) {
  return (message.GetReflection()->*exposed(Look()))(message, &field, key, &value);
}

void copy_scalar(const MapValueConstRef& from, MapValueRef& to, const FieldDescriptor& value) {
  with_scalar(value,
              [&](const auto& functions) { (to.*functions.set_value)((from.*functions.get_value)()); });
}

void move_entries(Message& from, Message& to, const FieldDescriptor& field) {
  const FieldDescriptor& value = *field.message_type()->map_value();
  each_entry(from, field, [&](MapIterator& entry) {
    MapValueRef target = entry_for(to, field, entry.GetKey());
    move_value(*entry.MutableValueRef(), target, value);
  });
}

}  // namespace cairn::proto
