// SPDX-License-Identifier: Apache-2.0
#include "proto/map_access.hpp"

#include <memory>
#include <string>

#include <google/protobuf/dynamic_message.h>
#include <gtest/gtest.h>

#include "proto/random_message.hpp"
#include "shapes.pb.h"
#include "support/dice.hpp"

namespace cairn::proto {
namespace {

using cairn::test::shapes::All;
using google::protobuf::FieldDescriptor;
using google::protobuf::MapKey;
using google::protobuf::MapValueConstRef;
using google::protobuf::Message;

MapKey key_of(const std::string& text) {
  MapKey key;
  key.SetStringValue(text);
  return key;
}

const FieldDescriptor& map_field() {
  return *All::descriptor()->FindFieldByName("m_string");
}

std::unique_ptr<Message> make(google::protobuf::DynamicMessageFactory& factory, bool is_dynamic) {
  return std::unique_ptr<Message>(is_dynamic ? factory.GetPrototype(All::descriptor())->New() : new All());
}

TEST(MapAccess, ReadsEntriesInOrderAndTakesNoMemoryForIt) {
  google::protobuf::DynamicMessageFactory factory;
  for (const bool is_dynamic : {false, true}) {
    const auto message = make(factory, is_dynamic);
    for (const char* key : {"b", "c", "a"}) {
      (void)entry_for(*message, map_field(), key_of(key)).MutableMessageValue();
    }
    const auto space = message->SpaceUsedLong();

    const auto entries = sorted_entries(*message, map_field());
    MapValueConstRef value;

    ASSERT_EQ(entries.size(), 3U);
    EXPECT_EQ(entries[0].key.GetStringValue(), "a");
    EXPECT_EQ(entries[2].key.GetStringValue(), "c");
    EXPECT_TRUE(find_entry(*message, map_field(), key_of("b"), value));
    EXPECT_EQ(&value.GetMessageValue(), &entries[1].value.GetMessageValue());
    EXPECT_FALSE(find_entry(*message, map_field(), key_of("d"), value));
    EXPECT_EQ(message->SpaceUsedLong(), space);
  }
}

TEST(MapAccess, ReplacesValuesOfTheSameKeyByThoseThatAreMoved) {
  google::protobuf::DynamicMessageFactory factory;
  for (const bool is_dynamic : {false, true}) {
    const auto from = make(factory, is_dynamic);
    const auto to = make(factory, is_dynamic);
    testing::Dice dice(1);
    testing::fill_randomly(*entry_for(*from, map_field(), key_of("k")).MutableMessageValue(), dice, 2);
    testing::fill_randomly(*entry_for(*to, map_field(), key_of("k")).MutableMessageValue(), dice, 2);
    testing::fill_randomly(*entry_for(*to, map_field(), key_of("other")).MutableMessageValue(), dice, 2);
    const std::unique_ptr<Message> expected(to->New());
    expected->CopyFrom(*to);
    expected->MergeFrom(*from);

    move_entries(*from, *to, map_field());

    EXPECT_EQ(testing::serialised(*to), testing::serialised(*expected));
  }
}

}  // namespace
}  // namespace cairn::proto
