// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/data_plane.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "io/internal/file.hpp"
#include "io/internal/transfer.hpp"
#include "staging/internal/own_plane.hpp"
#include "staging/test_plane.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn::staging {
namespace {

using testing::Fails;

/// A plane whose work yields to the program on a thread of its own.
struct PlaneThatYields : TestPlane {
  PlaneThatYields() {
    plane->background = async::LimitedPool(background, 1);
    plane->yields = true;
  }

  /// Returns whether what computes runs there now.
  bool runs_in_background() {
    bool is_background = false;
    std::function<void()> look = [&] { is_background = background.runs_this_thread(); };
    run(plane->run(std::move(look)));
    return is_background;
  }

  async::ThreadPool background{1, "behind"};
};

TEST(DataPlaneRun, YieldsOnceTheCallerHasGoneOn) {
  PlaneThatYields test;

  EXPECT_FALSE(test.runs_in_background());
  test.plane->prepared.set();
  EXPECT_TRUE(test.runs_in_background());
  test.plane->yields = false;
  EXPECT_FALSE(test.runs_in_background());
}

TEST(DataPlaneMemory, IsGuardedByTheGateOfThePhaseThatRuns) {
  const TestPlane test;

  EXPECT_TRUE(test.plane->touch_memory());
  test.plane->blocking_gate.close();
  EXPECT_THAT([&] { static_cast<void>(test.plane->touch_memory()); }, Fails(Errc::cancelled));
  test.plane->prepared.set();
  EXPECT_TRUE(test.plane->touch_memory());
  test.plane->background_gate.close();
  EXPECT_THAT([&] { static_cast<void>(test.plane->touch_memory()); }, Fails(Errc::cancelled));
}

TEST(DataPlaneMemory, IsVisitedByWorkThatReadsIt) {
  for (const auto run : {&DataPlane::run_on_borrowed, &DataPlane::run_users}) {
    const TestPlane test;
    bool has_left = true;
    std::function<void()> look = [&] {
      test.plane->blocking_gate.close();
      has_left = test.plane->blocking_gate.left().has_happened();
    };

    test.run(((*test.plane).*run)(std::move(look)));

    EXPECT_FALSE(has_left);
    EXPECT_TRUE(test.plane->blocking_gate.left().has_happened());
    std::function<void()> late = [] {};
    EXPECT_THAT([&] { test.run(((*test.plane).*run)(std::move(late))); }, Fails(Errc::cancelled));
  }
}

TEST(DataPlaneDropLater, HandsOverWhatMayTakeItsTime) {
  const TestPlane test;
  std::shared_ptr<void> handed_over;
  test.plane->destroy_later = [&](std::shared_ptr<void> thing) { handed_over = std::move(thing); };
  auto thing = std::make_shared<int>(1);
  const std::weak_ptr<int> weak = thing;

  test.plane->drop_later(std::move(thing));

  EXPECT_FALSE(weak.expired());
  handed_over.reset();
  EXPECT_TRUE(weak.expired());
}

TEST(DataPlaneBuffers, AreWaitedForWhenAllAreTaken) {
  const TestPlane test(2);
  Buffer first = test.run(test.plane->acquire_buffer());
  const Buffer second = test.plane->try_acquire_buffer();
  EXPECT_TRUE(second);
  EXPECT_FALSE(test.plane->try_acquire_buffer());

  std::optional<Buffer> third;
  const async::Event ended =
      async::start(test.strand, async::detail::store_result(test.plane->acquire_buffer(), &third));
  EXPECT_FALSE(ended.has_happened());
  first.release();
  ended.get();

  EXPECT_TRUE(*third);
  Report report;
  test.meter.fill_numbers(report);
  EXPECT_EQ(report.pool.peak_bytes, 2 * kBufferBytes);
}

/// Counts what is read.
class CountedReads final : public testing::ForwardingSyscalls {
 public:
  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    ++reads;
    return ForwardingSyscalls::read_at(fd, data, size, offset);
  }

  std::atomic<int> reads{0};
};

TEST(OwnPlane, TransfersThroughTheCallsThatItWasGiven) {
  const testing::TempDir directory;
  testing::write_text(directory / "data", "bytes");
  CountedReads calls;
  const io::FileHandle file = io::Directory::open(calls, directory.path()).open_file("data");
  OwnPlane own(calls, 1);
  std::string text(5, ' ');

  testing::sync_wait(own.strand(), io::read_exact(own.plane().engine, file.fd(),
                                                  std::as_writable_bytes(std::span(text)), 0, "data"));

  EXPECT_EQ(text, "bytes");
  EXPECT_EQ(calls.reads, 1);
}

}  // namespace
}  // namespace cairn::staging
