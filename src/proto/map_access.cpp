// SPDX-License-Identifier: Apache-2.0
#include "proto/map_access.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "proto/scalars.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Descriptor;
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

/// Remembers which types may have a map in them.
class TypesWithMaps {
 public:
  bool has(const Descriptor& type) {
    const auto [known, is_new] = known_.try_emplace(&type, false);
    if (!is_new) {
      return known->second;
    }
    // All types that this one leads to: asking them one by one would take a type that leads back here for one without.
    std::vector<const Descriptor*> reached = {&type};
    std::set<const Descriptor*> seen = {&type};
    bool found = false;
    for (std::size_t at = 0; at < reached.size() && !found; ++at) {
      for (int i = 0; i < reached[at]->field_count() && !found; ++i) {
        const FieldDescriptor& field = *reached[at]->field(i);
        found = field.is_map();
        if (field.message_type() != nullptr && seen.insert(field.message_type()).second) {
          reached.push_back(field.message_type());
        }
      }
      // An extension, and whatever it leads to, may be in it.
      found = found || reached[at]->extension_range_count() > 0;
    }
    return known_[&type] = found;
  }

 private:
  std::map<const Descriptor*, bool> known_;
};

void settle_maps(const Message& message, TypesWithMaps& types) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->message_type() == nullptr || !(field->is_map() || types.has(*field->message_type()))) {
      continue;
    }
    if (field->is_map()) {
      const FieldDescriptor& value = *field->message_type()->map_value();
      const bool may_have_more = value.message_type() != nullptr && types.has(*value.message_type());
      each_entry(const_cast<Message&>(message), *field, [&](MapIterator& entry) {
        if (may_have_more) {
          settle_maps(entry.GetValueRef().GetMessageValue(), types);
        }
      });
    } else if (field->is_repeated()) {
      for (const Message& child : messages_of(message, *field)) {
        settle_maps(child, types);
      }
    } else {
      settle_maps(message.GetReflection()->GetMessage(message, field), types);
    }
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

std::size_t count_elements(const Message& message, const FieldDescriptor& field) {
  if (!field.is_map()) {
    return static_cast<std::size_t>(message.GetReflection()->FieldSize(message, &field));
  }
  std::size_t count = 0;
  each_entry(const_cast<Message&>(message), field, [&count](MapIterator& /*entry*/) { ++count; });
  return count;
}

void settle_maps(const Message& message) {
  TypesWithMaps types;
  if (types.has(*message.GetDescriptor())) {
    settle_maps(message, types);
  }
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
