// SPDX-License-Identifier: Apache-2.0
#include "observe/internal/metered_engine.hpp"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>

#include <gtest/gtest.h>

#include "io/faulty_engine.hpp"
#include "support/manual_clock.hpp"

namespace cairn::observe {
namespace {

using namespace std::chrono_literals;

/// An engine whose requests take 10 ns each.
class MeteredEngineTest : public ::testing::Test {
 protected:
  std::int64_t run(io::Operation operation, std::size_t bytes) {
    io::Request request;
    request.operation = operation;
    request.size = bytes;
    request.done = [](io::Request& done, std::int64_t result) noexcept {
      done.offset = static_cast<std::uint64_t>(result);
    };
    metered_->submit(request);
    return static_cast<std::int64_t>(request.offset);
  }

  testing::ManualClock clock_;
  std::int64_t answer_ = 0;
  io::FaultyEngine engine_{[this](const io::Request& request) {
    clock_.advance(10ns);
    return answer_ != 0 ? answer_ : static_cast<std::int64_t>(request.size);
  }};
  const std::shared_ptr<Meter> meter_ = std::make_shared<Meter>(clock_, clock_.steady_now(), "save", nullptr);
  const std::shared_ptr<MeteredEngine> metered_ = std::make_shared<MeteredEngine>(engine_, meter_);
};

TEST_F(MeteredEngineTest, CountsNoTimeBetweenRequests) {
  EXPECT_EQ(run(io::Operation::write, 100), 100);
  clock_.advance(50ns);
  run(io::Operation::write, 100);
  clock_.advance(50ns);

  EXPECT_EQ(metered_->figures().busy_time, 20ns);
  EXPECT_DOUBLE_EQ(metered_->figures().mean_depth, 1.0);
  EXPECT_EQ(metered_->figures().highest_depth, 1u);
}

TEST_F(MeteredEngineTest, TakesSyncsForWorkButForNoTransfer) {
  run(io::Operation::sync_data, 0);

  EXPECT_EQ(metered_->figures().highest_depth, 0u);
  EXPECT_EQ(metered_->figures().busy_time, 0ns);
  Report report;
  meter_->fill_numbers(report);
  EXPECT_EQ(report.work(Work::sync).count, 1u);
  EXPECT_EQ(report.work(Work::sync).time, 10ns);
}

TEST_F(MeteredEngineTest, CountsWhatWasShortOrInterrupted) {
  answer_ = 40;
  run(io::Operation::read, 100);
  answer_ = -EINTR;
  run(io::Operation::read, 100);

  EXPECT_EQ(metered_->figures().shortened, 1u);
  EXPECT_EQ(metered_->figures().retried, 1u);
  Report report;
  meter_->fill_numbers(report);
  EXPECT_EQ(report.work(Work::read).bytes, 40u);
}

}  // namespace
}  // namespace cairn::observe
