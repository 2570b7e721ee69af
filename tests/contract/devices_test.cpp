// SPDX-License-Identifier: Apache-2.0
#include "contract/internal/devices.hpp"

#include <memory>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn::contract {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

/// Copies nothing; pins where it can.
class Copier final : public DeviceCopier {
 public:
  Copier(Device device, bool can_pin) : device_(device), can_pin_(can_pin) {}

  [[nodiscard]] Device device() const noexcept override { return device_; }
  void follow(DeviceStream /*stream*/) override {}
  void hold(DeviceStream /*stream*/) override {}
  std::unique_ptr<DeviceTransfer> start(std::span<const DeviceCopy> /*copies*/,
                                        CopyDirection /*direction*/) override {
    return nullptr;
  }
  std::shared_ptr<std::byte> allocate(std::size_t /*bytes*/) override { return nullptr; }
  std::shared_ptr<void> pin(std::span<std::byte> /*memory*/) override {
    return can_pin_ ? std::make_shared<int>(1) : nullptr;
  }

 private:
  Device device_;
  bool can_pin_;
};

using Copiers = std::vector<std::shared_ptr<DeviceCopier>>;

Device cuda(int index) {
  return Device{Device::Kind::cuda, index};
}

TEST(Devices, AreFoundByTheirName) {
  const Copiers copiers = {std::make_shared<Copier>(cuda(0), true), std::make_shared<Copier>(cuda(1), true)};
  const Devices devices(copiers);

  EXPECT_EQ(devices.copier(cuda(1)), copiers[1].get());
  EXPECT_EQ(devices.copier(cuda(2)), nullptr);
}

TEST(Devices, HaveOneCopierEach) {
  const auto copier = std::make_shared<Copier>(cuda(0), true);

  EXPECT_THAT([&] { Devices({copier, copier}); }, Fails(Errc::already_exists, HasSubstr("two copiers")));
  EXPECT_THAT([&] { Devices({copier, nullptr}); }, Fails(Errc::invalid_argument, HasSubstr("copiers")));
}

TEST(Devices, PinNothingWhereThereAreNone) {
  EXPECT_FALSE(Devices({}).pin());
}

TEST(Devices, RememberThatMemoryCouldNotBePinned) {
  const Devices devices({std::make_shared<Copier>(cuda(0), true), std::make_shared<Copier>(cuda(1), false)});
  EXPECT_FALSE(devices.has_unpinned());

  EXPECT_NE(devices.pin()({}), nullptr);

  EXPECT_TRUE(devices.has_unpinned());
}

}  // namespace
}  // namespace cairn::contract
