// SPDX-License-Identifier: Apache-2.0
#include "support/fake_device.hpp"

#include <memory>
#include <utility>

#include "support/copier_conformance.hpp"
#include "support/fails.hpp"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;

class FakeRig final : public CopierRig {
 public:
  [[nodiscard]] DeviceCopier& copier() override { return *copier_; }
  [[nodiscard]] DeviceStream stream() override { return &device_.other_stream(); }

  void enqueue(DeviceStream stream, std::function<void()> work) override {
    (stream == nullptr ? device_.stream() : *static_cast<FakeStream*>(stream)).push(std::move(work));
  }

 private:
  FakeDevice device_;
  std::shared_ptr<DeviceCopier> copier_ = device_.copier();
};

INSTANTIATE_TEST_SUITE_P(Fake, DeviceCopierConformance,
                         ::testing::Values(RigMaker([] { return std::make_unique<FakeRig>(); })));

TEST(FakeDeviceDeathTest, CrashesWhoeverTouchesItsMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // The device has threads; a fork of them may hang.
  FakeDevice device;
  const auto memory = device.allocate(64);

  EXPECT_DEATH(*memory = std::byte{1}, "");
}

TEST(FakeDevice, RefusesMemoryThatIsNotAllocated) {
  FakeDevice device;
  const auto copier = device.copier();
  auto memory = device.allocate(64);
  std::array<std::byte, 65> host{};
  const DeviceCopy beyond{memory.get(), host.data(), 65};

  EXPECT_THAT(
      [&] {
        copier->start({&beyond, 1}, CopyDirection::to_host)->wait();
      },
      Fails(Errc::device_failure, HasSubstr("illegal address")));
}

TEST(FakeDevice, FailsTheCopyThatItIsToldTo) {
  FakeDevice device;
  const auto copier = device.copier();
  const auto memory = device.allocate(64);
  std::array<std::byte, 64> host{};
  const DeviceCopy down{memory.get(), host.data(), 64};
  device.fail_transfer(CopyDirection::to_host, 1);

  EXPECT_NO_THROW(copier->start({&down, 1}, CopyDirection::to_host)->wait());
  EXPECT_THAT(
      [&] {
        copier->start({&down, 1}, CopyDirection::to_host)->wait();
      },
      Fails(Errc::device_failure, HasSubstr("cuda:0, stream 0x")));
  EXPECT_NO_THROW(copier->start({&down, 1}, CopyDirection::to_host)->wait());
}

}  // namespace
}  // namespace cairn::testing
