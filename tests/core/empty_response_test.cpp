// SPDX-License-Identifier: Apache-2.0
// Responses that belong to nothing: made by default, or moved from.
#include <chrono>
#include <utility>

#include <gmock/gmock.h>

#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"

#include "core/internal/start.hpp"
#include "core/observed.hpp"
#include "support/run.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run;

TEST(EmptyAsyncResponse, IsWaitedForInNoTime) {
  const AsyncResponse none;

  EXPECT_EQ(none.wait().bytes, 0u);
  EXPECT_EQ(none.wait(std::chrono::nanoseconds(0)).bytes, 0u);
  EXPECT_NO_THROW(none.wait_released());
  EXPECT_NO_THROW(none.wait_done());
}

TEST(EmptyAsyncResponse, HasEnded) {
  const AsyncResponse none;

  EXPECT_TRUE(none.is_staged());
  EXPECT_NO_THROW(none.wait_staged());
  EXPECT_NO_THROW(none.wait_staged(std::chrono::nanoseconds(0)));
  EXPECT_TRUE(none.is_released());
  EXPECT_TRUE(none.is_done());
  EXPECT_EQ(none.progress().staged_bytes, 0u);
  EXPECT_NO_THROW(none.cancel());
}

TEST(EmptyAsyncResponse, IsAwaitedInNoTimeButHasNothingCommitted) {
  const AsyncResponse none;

  EXPECT_NO_THROW(run(none.staged()));
  EXPECT_NO_THROW(run(none.released()));
  EXPECT_NO_THROW(run(none.done()));
  EXPECT_THAT([&] { run(none.committed()); }, Fails(Errc::invalid_argument, HasSubstr("no save")));
}

TEST(EmptyLoadResponse, IsWaitedForInNoTime) {
  const LoadResponse none;

  EXPECT_THAT(none.wait().values(), IsEmpty());
  EXPECT_THAT(none.wait(std::chrono::nanoseconds(0)).values(), IsEmpty());
  EXPECT_EQ(none.result().bytes, 0u);
  EXPECT_NO_THROW(none.wait_released());
  EXPECT_NO_THROW(none.wait_done());
}

TEST(EmptyLoadResponse, HasEnded) {
  const LoadResponse none;

  EXPECT_TRUE(none.is_released());
  EXPECT_TRUE(none.is_done());
  EXPECT_NO_THROW(none.cancel());
}

TEST(EmptyLoadResponse, IsAwaitedInNoTimeButHasNothingLoaded) {
  const LoadResponse none;

  EXPECT_NO_THROW(run(none.released()));
  EXPECT_NO_THROW(run(none.done()));
  EXPECT_THAT([&] { run(none.loaded()); }, Fails(Errc::invalid_argument, HasSubstr("no load")));
}

class MovedResponse : public testing::Observed {};

TEST_F(MovedResponse, OfASaveIsEmptyAndItsHeirHasTheSave) {
  AsyncResponse first =
      core::start_save(target(), {{"blob", testing::make_blob(1)}}, registry_, {}, *context_);

  const AsyncResponse heir = std::move(first);

  EXPECT_EQ(first.wait().bytes, 0u);  // NOLINT(bugprone-use-after-move): it is what is asked.
  EXPECT_EQ(heir.wait().bytes, 1u);
}

TEST_F(MovedResponse, ToItselfKeepsItsSave) {
  SaveOptions options;
  options.snapshot = Snapshot::borrow;
  const testing::Blob blob = testing::make_blob(8 * testing::kMebi);
  AsyncResponse response = core::start_save(target(), {{"blob", blob}}, registry_, options, *context_);
  AsyncResponse& alias = response;

  response = std::move(alias);

  EXPECT_EQ(response.wait().bytes, 8 * testing::kMebi);
}

}  // namespace
}  // namespace cairn
