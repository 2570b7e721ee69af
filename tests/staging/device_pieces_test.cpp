// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/device_pieces.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "support/fails.hpp"
#include "support/fake_device.hpp"
#include "support/noise.hpp"

namespace cairn {
namespace {

using testing::Fails;
using testing::FakeDevice;
using ::testing::HasSubstr;
using testing::noise;

class NamedSource final : public DeviceSource {
 public:
  NamedSource(DeviceRegion region, std::string name) : DeviceSource(region), name_(std::move(name)) {}
  [[nodiscard]] std::string describe() const override { return name_; }

 private:
  std::string name_;
};

/// Pieces of a file that lie on a device, and what they hold.
class DevicePieces : public ::testing::Test {
 protected:
  void add(FakeDevice& device, DeviceCopier& copier, std::size_t bytes) {
    auto memory = device.allocate(bytes);
    const auto values = noise(bytes, static_cast<unsigned>(pieces_.size()) + 1);
    std::memcpy(device.seen(memory.get()), values.data(), bytes);
    SourcePiece& piece = pieces_.emplace_back();
    piece.offset_bytes = image_.size();
    piece.size_bytes = bytes;
    piece.source = std::make_shared<NamedSource>(DeviceRegion{&copier, memory.get()},
                                                 "'" + std::to_string(pieces_.size()) + "'");
    memory_.push_back(std::move(memory));
    image_.insert(image_.end(), values.begin(), values.end());
  }

  void add_host(std::size_t bytes) {
    const auto& values = host_.emplace_back(noise(bytes, 99));
    SourcePiece& piece = pieces_.emplace_back();
    piece.offset_bytes = image_.size();
    piece.size_bytes = bytes;
    piece.data = values.data();
    image_.insert(image_.end(), values.begin(), values.end());
  }

  [[nodiscard]] std::vector<std::byte> gathered() const {
    std::vector<std::byte> bytes(image_.size());
    gather(pieces_, 0, bytes);
    return bytes;
  }

  FakeDevice device_;
  FakeDevice second_device_{1};
  std::shared_ptr<DeviceCopier> copier_ = device_.copier();
  std::shared_ptr<DeviceCopier> second_copier_ = second_device_.copier();
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::deque<std::vector<std::byte>> host_;
  std::vector<SourcePiece> pieces_;
  std::vector<std::byte> image_;
};

TEST_F(DevicePieces, AreGatheredWithOneTransferForEachDevice) {
  for (int i = 0; i < 10; ++i) {
    add(device_, *copier_, 1000);
    add(second_device_, *second_copier_, 500);
    add_host(100);
  }

  EXPECT_EQ(gathered(), image_);
  EXPECT_EQ(device_.transfers(CopyDirection::to_host), 1u);
  EXPECT_EQ(second_device_.transfers(CopyDirection::to_host), 1u);
}

TEST_F(DevicePieces, AreInPlaceWhenTheTransfersHaveBeenWaitedFor) {
  add(device_, *copier_, 1000);
  std::vector<std::byte> bytes(1000);
  auto stalled = device_.stall_copies();
  DeviceTransfers started;

  gather(pieces_, 0, bytes, started);
  EXPECT_NE(bytes, image_);
  stalled.reset();
  started.wait();

  EXPECT_EQ(bytes, image_);
}

TEST_F(DevicePieces, NameDeviceStreamAndArrayWhenACopyFails) {
  add(device_, *copier_, 1000);
  add(device_, *copier_, 1000);
  device_.fail_transfer(CopyDirection::to_host, 0);

  EXPECT_THAT([&] { return gathered(); },
              Fails(Errc::device_failure, HasSubstr("'1' and 1 more: cuda:0, stream 0x")));
}

TEST_F(DevicePieces, AreReadAloneToo) {
  add(device_, *copier_, 1000);
  std::vector<std::byte> bytes(10);

  pieces_[0].source->read(5, bytes);

  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), image_.begin() + 5));
}

TEST_F(DevicePieces, AreScatteredWithOneTransfer) {
  const auto values = noise(3000);
  std::vector<DestinationPiece> pieces(3);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    memory_.push_back(device_.allocate(1000));
    pieces[i].offset_bytes = 1000 * i;
    pieces[i].size_bytes = 1000;
    pieces[i].sink = std::make_shared<DeviceSink>(DeviceRegion{copier_.get(), memory_[i].get()});
  }

  scatter(pieces, 0, values);

  EXPECT_EQ(device_.transfers(CopyDirection::to_device), 1u);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(std::memcmp(device_.seen(memory_[i].get()), values.data() + 1000 * i, 1000), 0);
  }
}

TEST_F(DevicePieces, AreNotInHostMemory) {
  add(device_, *copier_, 1000);

  EXPECT_EQ(contiguous(std::span<const SourcePiece>(pieces_), 0, 1000), nullptr);
}

TEST_F(DevicePieces, BecomeOnePieceOfASnapshotWhereTheyLieSideBySide) {
  add(device_, *copier_, 1000);
  add(device_, *copier_, 333);
  add_host(100);
  add(device_, *copier_, 77);

  DeviceSnapshots snapshots = snapshot_on_devices(pieces_);
  snapshots.wait();

  EXPECT_EQ(pieces_.size(), 3u);
  EXPECT_EQ(gathered(), image_);
  EXPECT_EQ(device_.transfers(CopyDirection::within_device), 1u);
  EXPECT_TRUE(snapshots.refused.empty());
}

TEST_F(DevicePieces, OfASnapshotLieOnTheirOwnDevices) {
  for (int i = 0; i < 3; ++i) {
    add(device_, *copier_, 1000);
    add(second_device_, *second_copier_, 333);
  }

  snapshot_on_devices(pieces_).wait();

  EXPECT_EQ(gathered(), image_);
  EXPECT_EQ(device_.copied_bytes(CopyDirection::within_device), 3000u);
  EXPECT_EQ(second_device_.copied_bytes(CopyDirection::within_device), 999u);
}

TEST_F(DevicePieces, OfASnapshotKeepWhatTheyWereWhenTheStreamGoesOn) {
  add(device_, *copier_, 1000);
  auto stalled = device_.stall_copies();

  DeviceSnapshots snapshots = snapshot_on_devices(pieces_);
  device_.stream().push([&] { std::memset(device_.seen(memory_[0].get()), 0, 1000); });
  stalled.reset();
  snapshots.wait();
  device_.stream().record().wait();

  EXPECT_EQ(gathered(), image_);
}

TEST_F(DevicePieces, AreKeptUntilTheirSnapshotIsTaken) {
  add(device_, *copier_, 1000);
  const std::weak_ptr<const ByteSource> original = pieces_[0].source;
  auto stalled = device_.stall_copies();

  DeviceSnapshots snapshots = snapshot_on_devices(pieces_);
  EXPECT_FALSE(original.expired());
  stalled.reset();
  snapshots.wait();

  EXPECT_TRUE(original.expired());
}

TEST_F(DevicePieces, StayAsTheyAreWithoutRoomForASnapshot) {
  add(device_, *copier_, 1000);
  device_.set_room(999);

  const DeviceSnapshots snapshots = snapshot_on_devices(pieces_);

  EXPECT_EQ(snapshots.refused, std::vector{device_.device()});
  EXPECT_FALSE(pieces_[0].source->is_lasting());
  EXPECT_EQ(gathered(), image_);
}

TEST_F(DevicePieces, NameTheirArraysWhenASnapshotFails) {
  add(device_, *copier_, 1000);
  add(device_, *copier_, 1000);
  device_.fail_transfer(CopyDirection::within_device, 0);
  DeviceSnapshots snapshots = snapshot_on_devices(pieces_);

  EXPECT_THAT([&] { snapshots.wait(); },
              Fails(Errc::device_failure, HasSubstr("the snapshot of '1' and 1 more: cuda:0, stream 0x")));
}

TEST_F(DevicePieces, FreeTheMemoryOfTheirSnapshots) {
  add(device_, *copier_, 1000);
  const std::size_t used = device_.used_bytes();

  snapshot_on_devices(pieces_).wait();
  pieces_.clear();

  EXPECT_EQ(device_.used_bytes(), used);
}

}  // namespace
}  // namespace cairn
