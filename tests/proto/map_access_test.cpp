// SPDX-License-Identifier: Apache-2.0
#include "proto/map_access.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <google/protobuf/dynamic_message.h>
#include <gtest/gtest.h>

#include "shapes.pb.h"

namespace cairn::proto {
namespace {

using cairn::test::shapes::All;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const FieldDescriptor& map_field() {
  return *All::descriptor()->FindFieldByName("m_uint32");
}

const FieldDescriptor& value_field() {
  return *map_field().message_type()->map_value();
}

std::unique_ptr<Message> make(google::protobuf::DynamicMessageFactory& factory, bool is_dynamic) {
  return std::unique_ptr<Message>(is_dynamic ? factory.GetPrototype(All::descriptor())->New() : new All());
}

void add(Message& message, std::uint32_t key, const std::string& value) {
  Message& entry = add_entry(message, map_field(), key);
  entry.GetReflection()->SetString(&entry, &value_field(), value);
}

/// Keys and values in the order of the entries that count.
std::vector<std::string> texts_of(const Message& message) {
  std::vector<std::string> texts;
  for (const MapEntry& entry : entries_of(message, map_field()).sorted) {
    const Message* listed = find_listed(message, map_field(), entry);
    texts.push_back(
        std::to_string(std::get<std::uint32_t>(entry.key)) + ": " +
        (listed == nullptr ? "none" : listed->GetReflection()->GetString(*listed, &value_field())));
  }
  return texts;
}

TEST(MapEntries, AreSortedByKeyAndTheLastOfAKeyCounts) {
  google::protobuf::DynamicMessageFactory factory;
  for (const bool is_dynamic : {false, true}) {
    const std::unique_ptr<Message> message = make(factory, is_dynamic);
    add(*message, 9, "old");
    add(*message, 300, "c");
    add(*message, 2, "a");
    add(*message, 9, "new");

    const MapEntries entries = entries_of(*message, map_field());

    EXPECT_EQ(texts_of(*message), (std::vector<std::string>{"2: a", "9: new", "300: c"}));
    EXPECT_EQ(entries.listed, 4);
    ASSERT_NE(entries.find(std::uint32_t{9}), nullptr);
    EXPECT_EQ(entries.find(std::uint32_t{9})->place, 3);
    EXPECT_EQ(entries.find(std::uint32_t{10}), nullptr);
  }
}

TEST(MapEntries, OfADynamicMessageThatWasParsedAreThoseThatAGeneratedOneHas) {
  All first;
  All second;
  (*first.mutable_m_uint32())[5] = "old";
  (*first.mutable_m_uint32())[1] = "one";
  (*second.mutable_m_uint32())[5] = "new";
  const std::string wire = first.SerializeAsString() + second.SerializeAsString();
  google::protobuf::DynamicMessageFactory factory;
  for (const bool is_dynamic : {false, true}) {
    const std::unique_ptr<Message> message = make(factory, is_dynamic);
    ASSERT_TRUE(message->ParseFromString(wire));

    EXPECT_EQ(texts_of(*message), (std::vector<std::string>{"1: one", "5: new"}));
  }
}

TEST(MapEntries, AreNotFoundWhereTheMapHasOthersByNow) {
  All message;
  (*message.mutable_m_uint32())[1] = "one";
  const MapEntries entries = entries_of(message, map_field());
  ASSERT_EQ(entries.sorted.size(), 1U);

  message.mutable_m_uint32()->clear();
  EXPECT_EQ(find_listed(message, map_field(), entries.sorted[0]), nullptr);
  (*message.mutable_m_uint32())[2] = "one";
  EXPECT_EQ(find_listed(message, map_field(), entries.sorted[0]), nullptr);
  message.mutable_m_uint32()->clear();
  (*message.mutable_m_uint32())[1] = "changed";
  EXPECT_NE(find_listed(message, map_field(), entries.sorted[0]), nullptr);
}

TEST(MoveIntoMap, KeepsEntriesAndTheirMemoryOnce) {
  const std::string large(1 << 20, 'x');
  All listed;
  add(listed, 1, "old");
  add(listed, 2, large);
  add(listed, 1, "new");

  move_into_map(listed, map_field());

  EXPECT_EQ(listed.m_uint32_size(), 2);
  EXPECT_EQ(listed.m_uint32().at(1), "new");
  EXPECT_EQ(listed.m_uint32().at(2), large);
  EXPECT_LT(listed.SpaceUsedLong(), large.size() * 3 / 2);
}

TEST(MoveIntoMap, LeavesADynamicMessageAsItIs) {
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<Message> message = make(factory, true);
  add(*message, 2, "b");
  add(*message, 1, "a");

  move_into_map(*message, map_field());

  EXPECT_EQ(texts_of(*message), (std::vector<std::string>{"1: a", "2: b"}));
}

}  // namespace
}  // namespace cairn::proto
