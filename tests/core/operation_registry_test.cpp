// SPDX-License-Identifier: Apache-2.0
#include "core/operation_registry.hpp"

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

#include "async/internal/event.hpp"
#include "async/internal/suspend.hpp"
#include "core/operation.hpp"
#include "support/fails.hpp"
#include "support/run.hpp"

namespace cairn::core {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;

/// Waits for an event; where it is `stubborn`, also when it is asked to stop.
Awaitable<> wait_for(async::Event event, bool is_stubborn) {
  async::Start start = [event](const async::Resume& resume) {
    event.on_complete([resume](const std::exception_ptr&) { resume(); });
  };
  async::OnCancel stop = [is_stubborn](const async::Resume& resume) {
    if (!is_stubborn) {
      resume(async::cancelled());
    }
  };
  co_await async::suspend(std::move(start), std::move(stop));
}

class Waits final : public Operation {
 public:
  Waits(const Context& context, std::string title)
      : Operation(services_of(context), std::move(title), services_of(context)->clock.steady_now(), nullptr,
                  Kind(CallerMemoryUse::unused, BlockingPhase::by_context)) {}

 private:
  void count_end(const std::exception_ptr& /*failure*/) override {}
};

class OperationRegistryTest : public ::testing::Test {
 protected:
  OperationRegistryTest() {
    ContextOptions options;
    options.close_timeout = 0s;
    options.stop_grace = 1s;  // More than what can be stopped needs, on any machine.
    context_.emplace(std::move(options));
  }

  ~OperationRegistryTest() override { may_end_.set(); }

  [[nodiscard]] std::shared_ptr<Operation> start(const std::string& title, bool is_stubborn) const {
    auto operation = std::make_shared<Waits>(*context_, title);
    operation->launch(wait_for(may_end_, is_stubborn), 0ns);
    return operation;
  }

  [[nodiscard]] OperationRegistry& operations() const { return services_of(*context_)->operations; }

  const async::Event may_end_;
  std::optional<Context> context_;
};

TEST_F(OperationRegistryTest, AcceptsNothingAfterItsEnd) {
  operations().close();

  EXPECT_THAT([&] { static_cast<void>(start("late", false)); }, Fails(Errc::closed));
}

TEST_F(OperationRegistryTest, StopsWhatTakesTooLong) {
  const auto operation = start("load of /a", false);

  EXPECT_EQ(operations().close(), nullptr);

  EXPECT_THAT([&] { operation->answered().get(); }, Fails(Errc::closed, HasSubstr("load of /a")));
}

TEST_F(OperationRegistryTest, NamesWhatDoesNotEnd) {
  const auto stubborn = start("load of /a", true);
  const auto docile = start("load of /b", false);

  const std::exception_ptr failure = operations().close();

  EXPECT_THAT([&] { std::rethrow_exception(failure); },
              Fails(Errc::still_running, AllOf(HasSubstr("load of /a"), Not(HasSubstr("load of /b")))));
  EXPECT_TRUE(testing::eventually([&] { return stubborn->answered().has_happened(); }));
  may_end_.set();
  stubborn->done().get();
}

TEST_F(OperationRegistryTest, WaitsForWhatEnds) {
  ContextOptions options;
  const Context patient(options);
  auto operation = std::make_shared<Waits>(patient, "load of /a");
  operation->launch(wait_for(may_end_, true), 0ns);
  services_of(patient)->threads.calls.submit([this] { may_end_.set(); });

  EXPECT_EQ(services_of(patient)->operations.close(), nullptr);

  EXPECT_NO_THROW(operation->answered().get());
}

TEST_F(OperationRegistryTest, DoesNotWaitForWhatItsThreadTells) {
  ContextOptions options;
  options.close_timeout = 60s;  // More than the test has.
  options.stop_grace = 1ms;
  const Context patient(options);
  auto operation = std::make_shared<Waits>(patient, "load of /a");
  operation->launch(wait_for(may_end_, true), 0ns);
  std::exception_ptr failure;
  const async::Event is_closed;
  operation->answered().on_complete([&](const std::exception_ptr&) {
    failure = services_of(patient)->operations.close();
    is_closed.set();
  });

  operation->stop(Errc::cancelled, "by the test");

  EXPECT_TRUE(is_closed.wait_for(30s));
  EXPECT_EQ(code_of(failure), make_error_code(Errc::still_running));
  may_end_.set();
  operation->done().get();
}

TEST_F(OperationRegistryTest, TellsTheFirstLostFailureOnce) {
  operations().lose("/a", std::make_exception_ptr(Error(Errc::io_failure, "first")));
  operations().lose("/b", std::make_exception_ptr(Error(Errc::not_found, "second")));

  EXPECT_THAT([&] { std::rethrow_exception(operations().close()); }, Fails(Errc::io_failure));

  EXPECT_EQ(operations().close(), nullptr);
}

}  // namespace
}  // namespace cairn::core
