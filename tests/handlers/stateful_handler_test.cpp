// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/builtin.hpp"

#include "handlers/counter.hpp"
#include "handlers/store.hpp"

namespace cairn {
namespace {

using testing::Counter;
using testing::Fails;
using ::testing::HasSubstr;

class StatefulHandlerTest : public testing::StoreTest {};

TEST_F(StatefulHandlerTest, LoadsIntoTheObjectThatIsGiven) {
  Counter counter;
  counter.value = 7;
  save(counter);
  Counter restored;

  load<StatefulReference>({"item", into(restored)});

  EXPECT_EQ(restored.value, 7);
}

TEST_F(StatefulHandlerTest, SaysHowToLoadWhenNoObjectIsGiven) {
  save(Counter());
  EXPECT_THAT([&] { load<StatefulReference>(); }, Fails(Errc::invalid_argument, HasSubstr("into(object)")));
}

TEST_F(StatefulHandlerTest, PassesOnWhatTheObjectThrows) {
  Counter counter;
  counter.value = -1;
  save(counter);
  Counter restored;

  EXPECT_THAT(
      [&] {
        load<StatefulReference>({"item", into(restored)});
      },
      Fails(Errc::malformed_metadata, HasSubstr("negative")));
}

TEST_F(StatefulHandlerTest, DescribesNothing) {
  save(Counter());
  EXPECT_FALSE(metadata<StatefulReference>().can_load());
}

}  // namespace
}  // namespace cairn
