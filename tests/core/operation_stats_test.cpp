// SPDX-License-Identifier: Apache-2.0
#include "core/operation_stats.hpp"

#include <stdexcept>
#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include "cairn/core/context.hpp"

#include "core/services.hpp"

namespace cairn::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OperationStatsTest : public ::testing::Test {
 protected:
  static ContextOptions on_threads() {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.staging_bytes = std::size_t{16} << 20;
    return options;
  }

  [[nodiscard]] OperationStats stats(TraceSink sink = nullptr) const {
    return {*services_of(context_), "save of /a", services_of(context_)->clock.steady_now(), std::move(sink)};
  }

  const Context context_{on_threads()};
};

TEST_F(OperationStatsTest, HasWhatWasMeasured) {
  const OperationStats stats = this->stats();
  stats.meter().add_work(Work::hash, 100, std::chrono::nanoseconds(7));

  Report report;
  stats.fill_numbers(report);

  EXPECT_EQ(report.work(Work::hash).count, 1U);
  EXPECT_EQ(report.work(Work::hash).bytes, 100U);
  EXPECT_EQ(report.work(Work::hash).time, std::chrono::nanoseconds(7));
  EXPECT_EQ(report.pool.capacity_bytes, std::size_t{16} << 20);
}

TEST_F(OperationStatsTest, SaysWhatWasDoneInAnotherWay) {
  const OperationStats stats = this->stats();
  stats.meter().add_fallback("read through the page cache", "a");

  Report report;
  stats.fill_words(report);

  EXPECT_EQ(report.engine, "threads");
  EXPECT_THAT(report.fallbacks, ElementsAre(HasSubstr("page cache")));
}

TEST_F(OperationStatsTest, HasNothingToSayOfATraceThatWasTaken) {
  std::string taken;
  const OperationStats stats = this->stats([&taken](std::string_view trace) { taken = trace; });

  EXPECT_THAT(stats.deliver_trace(), IsEmpty());
  EXPECT_THAT(taken, HasSubstr("save of /a"));
}

TEST_F(OperationStatsTest, SaysThatATraceIsLost) {
  const OperationStats stats = this->stats([](std::string_view) { throw std::runtime_error("full"); });

  EXPECT_THAT(stats.deliver_trace(), HasSubstr("the trace is lost: full"));
}

}  // namespace
}  // namespace cairn::core
