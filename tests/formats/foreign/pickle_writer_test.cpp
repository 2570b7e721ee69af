// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/pickle_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "formats/internal/pickle.hpp"

namespace cairn::formats {
namespace {

std::vector<PickleNode> items_of(const Pickle& pickle, PickleNode node) {
  std::vector<PickleNode> found;
  PickleNode each{};
  for (Pickle::Items items = pickle.items(node); items.next(each);) {
    found.push_back(each);
  }
  return found;
}

TEST(PickleWriter, WritesProtocolTwo) {
  PickleWriter writer;
  writer.begin_tuple().integer(5).text("a").end_tuple();

  EXPECT_EQ(std::move(writer).take(), std::string("\x80\x02(K\x05X\x01\0\0\0at.", 13));
}

TEST(PickleWriter, WritesIntegersOfEverySizeAsTheyAre) {
  const std::vector<std::int64_t> numbers = {0,           255,        256,        65536,     -1,
                                             -2147483648, 2147483647, 2147483648, INT64_MAX, INT64_MIN};
  PickleWriter writer;
  writer.begin_list();
  for (const std::int64_t number : numbers) {
    writer.integer(number);
  }
  writer.unsigned_integer(UINT64_MAX).end_list();
  const std::string bytes = std::move(writer).take();

  const Pickle pickle = Pickle::read(as_bytes(bytes), "f");

  const std::vector<PickleNode> found = items_of(pickle, pickle.root());
  ASSERT_EQ(found.size(), numbers.size() + 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(pickle.kind(found[i]), PickleKind::integer);
    EXPECT_EQ(static_cast<std::int64_t>(pickle.integer(found[i])), numbers[i]);
  }
  EXPECT_EQ(pickle.kind(found.back()), PickleKind::unsigned_integer);
  EXPECT_EQ(pickle.integer(found.back()), UINT64_MAX);
}

TEST(PickleWriter, WritesLeavesAsTheyAre) {
  PickleWriter writer;
  writer.begin_map().text("real").real(-0.125).text("none").none().text("yes").boolean(true);
  writer.text("empty").begin_map().end_map().end_map();
  const std::string bytes = std::move(writer).take();

  const Pickle pickle = Pickle::read(as_bytes(bytes), "f");

  EXPECT_EQ(pickle.real(pickle.find(pickle.root(), "real").value()), -0.125);
  EXPECT_EQ(pickle.kind(pickle.find(pickle.root(), "none").value()), PickleKind::none);
  EXPECT_TRUE(pickle.boolean(pickle.find(pickle.root(), "yes").value()));
  EXPECT_EQ(pickle.size(pickle.find(pickle.root(), "empty").value()), 0u);
}

TEST(PickleWriter, EncodesBytesAsLatin1) {
  const std::vector<std::byte> content = {std::byte{0}, std::byte{0xff}, std::byte{'a'}};
  PickleWriter writer;
  writer.bytes(content);
  const std::string bytes = std::move(writer).take();

  const Pickle pickle = Pickle::read(as_bytes(bytes), "f");

  const auto arguments = pickle.call(pickle.root(), "_codecs.encode");
  ASSERT_TRUE(arguments.has_value());
  EXPECT_EQ(pickle.text((*arguments)[0]), std::string_view("\0\xc3\xbf"
                                                           "a",
                                                           4));
  EXPECT_EQ(pickle.text((*arguments)[1]), "latin1");
}

TEST(PickleWriter, NamesAClassOnceAndRemembersIt) {
  PickleWriter writer;
  writer.begin_list();
  for (int i = 0; i < 2; ++i) {
    writer.global("collections", "OrderedDict").begin_tuple().end_tuple().call();
  }
  writer.end_list();
  const std::string bytes = std::move(writer).take();

  const Pickle pickle = Pickle::read(as_bytes(bytes), "f");

  EXPECT_EQ(bytes.find("OrderedDict"), bytes.rfind("OrderedDict"));
  for (const PickleNode each : items_of(pickle, pickle.root())) {
    EXPECT_EQ(pickle.class_name(each), "collections.OrderedDict");
  }
}

}  // namespace
}  // namespace cairn::formats
