// SPDX-License-Identifier: Apache-2.0
#include "core/handler_checks.hpp"

#include <exception>
#include <memory>
#include <optional>
#include <string_view>

#include <gmock/gmock.h>

#include "cairn/contract/handler.hpp"

#include "support/fails.hpp"

namespace cairn::core {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNull;
using ::testing::NotNull;

struct Counter {
  Counter() = default;
  explicit Counter(int number_in) : number(number_in) {}

  int number = 0;
};

/// Has nothing to copy it by.
struct Unique {
  Unique() = default;

  std::unique_ptr<int> number;
};

/// Nobody saves or loads here: the checks ask for a copy only.
template <class T>
class Handler final : public CheckpointableHandler<T, int> {
 public:
  std::string_view id() const noexcept override { return "test.checked/1"; }
  // outlives: nobody calls it
  Awaitable<Background<>> save(SaveContext, const T&) const override { co_return Background<>(); }
  Awaitable<Background<T>> load(LoadContext, std::optional<int>) const override { co_return Background<T>(); }
  Awaitable<int> metadata(LoadContext) const override { co_return 0; }
};

template <class T>
std::shared_ptr<ErasedHandler> handler_of() {
  return erase_handler(std::make_shared<const Handler<T>>());
}

int read(const void* counter) {
  return static_cast<const volatile Counter*>(counter)->number;
}

TEST(HandlerChecks, AreMadeWhereTheContextAsksForThem) {
  ContextOptions options;
  EXPECT_THAT(HandlerChecks::make(options, Snapshot::copy, 1), IsNull());

  options.check_handlers = true;
  EXPECT_THAT(HandlerChecks::make(options, Snapshot::copy, 1), NotNull());
}

TEST(HandlerChecks, HandACopyOver) {
  const Counter counter(3);
  HandlerChecks checks(Snapshot::copy, 1);

  const void* given = checks.hand_over(0, Checkpointable("counter", counter), *handler_of<Counter>());

  EXPECT_NE(given, &counter);
  EXPECT_EQ(read(given), 3);
  EXPECT_THAT(checks.not_checked(), IsEmpty());
}

TEST(HandlerChecks, HandOverTheValueItselfWhereItIsBorrowed) {
  const Counter counter(3);
  HandlerChecks checks(Snapshot::borrow, 1);

  EXPECT_EQ(checks.hand_over(0, Checkpointable("counter", counter), *handler_of<Counter>()), &counter);
  EXPECT_THAT(checks.not_checked(), HasSubstr("nothing was checked"));
}

TEST(HandlerChecks, SayWhatCannotBeCopied) {
  const Unique unique;
  HandlerChecks checks(Snapshot::copy, 1);

  EXPECT_EQ(checks.hand_over(0, Checkpointable("unique", unique), *handler_of<Unique>()), &unique);
  EXPECT_THAT(checks.not_checked(), AllOf(HasSubstr("not checked: 'unique'"), HasSubstr("Unique")));
}

TEST(HandlerChecksJudge, LeavesAnEndAloneWhereNothingWasTouched) {
  const Counter counter(3);
  const auto failure = std::make_exception_ptr(Error(Errc::io_failure, "the disk"));
  HandlerChecks checks(Snapshot::copy, 1);
  checks.hand_over(0, Checkpointable("counter", counter), *handler_of<Counter>());
  checks.watch(0);

  EXPECT_EQ(checks.judge(0, nullptr), nullptr);
  EXPECT_EQ(checks.judge(0, failure), failure);
}

TEST(HandlerChecksJudge, NamesAHandlerThatHasUsedItsValueTooLate) {
  const Counter counter(3);
  HandlerChecks checks(Snapshot::copy, 1);
  const void* given = checks.hand_over(0, Checkpointable("counter", counter), *handler_of<Counter>());
  checks.watch(0);

  EXPECT_EQ(read(given), 3);

  const std::exception_ptr found = checks.judge(0, nullptr);
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(
      [&] { std::rethrow_exception(found); },
      Fails(Errc::handler_failed, HasSubstr("has used the value after the end of its blocking phase")));
}

TEST(HandlerChecksJudge, AllowsAHandlerItsValueInTheBlockingPhase) {
  const Counter counter(3);
  HandlerChecks checks(Snapshot::copy, 1);
  const void* given = checks.hand_over(0, Checkpointable("counter", counter), *handler_of<Counter>());

  EXPECT_EQ(read(given), 3);
  checks.watch(0);

  EXPECT_EQ(checks.judge(0, nullptr), nullptr);
}

}  // namespace
}  // namespace cairn::core
