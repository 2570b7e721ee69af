// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "cairn/flash/flash_checkpointer.hpp"

#include "flash/fixture.hpp"
#include "support/fake_device.hpp"

namespace cairn::flash {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::size_t kBytes = std::size_t{9} << 20;  // Of two staging buffers and a bit.

/// Outlives the context.
struct WithDevice {
  testing::FakeDevice device_;
};

/// Steps in memory of a state that is on a device.
class FlashDevices : protected WithDevice, public FlashTest {
 protected:
  void SetUp() override {
    FlashTest::SetUp();
    if (run_) {
      ContextOptions options = telling(this);
      options.copiers = {device_.copier()};
      start_in(std::move(options));
    }
  }

  /// Returns what a kernel has computed for a step.
  [[nodiscard]] Tree on_device(std::uint64_t step) {
    const auto memory = device_.allocate(kBytes);
    std::fill_n(device_.seen(memory.get()), kBytes, static_cast<std::byte>(step));
    Tree tree;
    tree["weights"] =
        Array::share(MutableArrayView(memory.get(), {kBytes}, DType::uint8, device_.device()), memory);
    return tree;
  }

  void save_all(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t step = first; step <= last; ++step) {
      run_->save(step, {{"state", on_device(step)}}).wait_in_memory();
      run_->wait();  // Memory is pinned in the background.
    }
  }

  void expect_values(std::uint64_t step) {
    const Tree loaded = run_->load(step, {"state"}).take<Tree>("state");
    const auto values = loaded.get<Array>("weights").data<const std::uint8_t>();
    EXPECT_EQ(
        static_cast<std::size_t>(std::count(values.begin(), values.end(), static_cast<std::uint8_t>(step))),
        kBytes);
  }

  [[nodiscard]] std::size_t pinned_images() const {
    return (device_.pinned_bytes() - context_->pool_bytes()) / kBytes;
  }
};

TEST_F(FlashDevices, CopyIntoImagesThatArePinnedOnce) {
  device_.set_room(0);  // No snapshots: the caller waits for the copies.
  save_all(1, 2);
  EXPECT_EQ(pinned_images(), 2u);
  const std::size_t staging = context_->pool_bytes();

  save_all(3, 6);

  EXPECT_EQ(pinned_images(), 2u);
  EXPECT_EQ(context_->pool_bytes(), staging);
  EXPECT_EQ(device_.unpinned_copies(), 0u);
  expect_values(5);
  expect_values(6);
}

TEST_F(FlashDevices, CopySnapshotsIntoThemToo) {
  save_all(1, 6);

  EXPECT_EQ(pinned_images(), 2u);
  EXPECT_EQ(device_.unpinned_copies(), 0u);
  expect_values(5);
  expect_values(6);
}

TEST_F(FlashDevices, GoThroughStagingMemoryWhereImagesCannotBePinned) {
  device_.set_room(0);
  save_all(1, 1);
  device_.refuse_pins();
  save_all(2, 3);

  const SaveResult result = run_->save(4, {{"state", on_device(4)}}).wait();
  save_all(5, 5);

  EXPECT_THAT(result.fallbacks, Contains(HasSubstr("a device could not pin its memory; written")));
  EXPECT_EQ(pinned_images(), 1u);
  EXPECT_EQ(device_.unpinned_copies(), 0u);
  expect_values(4);
  expect_values(5);
}

TEST_F(FlashDevices, LetPinnedMemoryGoWithTheCheckpointer) {
  save_all(1, 3);
  ASSERT_EQ(pinned_images(), 2u);

  run_.reset();

  EXPECT_EQ(pinned_images(), 0u);
}

}  // namespace
}  // namespace cairn::flash
