// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/chunk.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/auto_splitter.hpp"

#include "proto/by_hand.hpp"
#include "shapes.pb.h"
#include "support/fails.hpp"

namespace cairn::proto {
namespace {

using cairn::test::shapes::All;
using testing::Fails;
using ::testing::HasSubstr;

TEST(Chunk, RefusesAMessageThatWasChangedSinceItWasPlanned) {
  auto message = from_text<All>("f_string: 's' child { f_string: 't' }");
  ByHand splitter(message, [](ByHand& self) { self.add_chunk({"child"}); });
  const auto chunks = splitter.chunks();

  message.mutable_child()->set_f_string("longer");

  std::vector<std::byte> room(chunks[1].size_bytes());
  EXPECT_THAT([&] { chunks[1].write(room); }, Fails(Errc::invalid_argument, HasSubstr("was changed")));
  room.pop_back();
  EXPECT_THAT([&] { chunks[1].write(room); }, Fails(Errc::invalid_argument, HasSubstr("was given room for")));
}

TEST(Chunk, RefusesAMessageThatHasFewerElementsThanWhenItWasPlanned) {
  const std::vector<std::function<void(All&)>> changes = {
      [](All& message) { message.clear_r_int32(); },
      [](All& message) { message.clear_several(); },
      [](All& message) { message.clear_m_sint32(); },
      [](All& message) { message.mutable_unknown_fields()->DeleteSubrange(0, 1); },
  };
  for (const auto& change : changes) {
    All message;
    for (int i = 0; i < 20; ++i) {
      message.add_r_int32(i);
      message.add_several()->set_text("text");
      (*message.mutable_m_sint32())[i] = i;
      message.mutable_unknown_fields()->AddVarint(90'000, 5);
    }
    SplitOptions options;
    options.max_size = 50;
    AutoSplitter splitter(message, options);
    const auto chunks = splitter.chunks();
    change(message);

    EXPECT_THAT(
        [&] {
          for (const Chunk& chunk : chunks) {
            std::vector<std::byte> room(chunk.size_bytes());
            chunk.write(room);
          }
        },
        Fails(Errc::invalid_argument, HasSubstr("was changed")));
  }
}

}  // namespace
}  // namespace cairn::proto
