// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every DeviceCopier must do, as a suite: INSTANTIATE_TEST_SUITE_P(Fake, DeviceCopierConformance, …). It defines
// tests, so one file of a program includes it.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/staging/device_copier.hpp"

#include "support/noise.hpp"

namespace cairn::testing {

/// A device to try a copier on.
class CopierRig {
 public:
  virtual ~CopierRig() = default;

  [[nodiscard]] virtual DeviceCopier& copier() = 0;
  /// A stream of the program's that the copier was not made for.
  [[nodiscard]] virtual DeviceStream stream() = 0;
  /// Lets a stream run `work` on the host when it has done all that it was given before.
  virtual void enqueue(DeviceStream stream, std::function<void()> work) = 0;
};

/// Makes a rig; null when the machine has no such device.
using RigMaker = std::function<std::unique_ptr<CopierRig>()>;

class DeviceCopierConformance : public ::testing::TestWithParam<RigMaker> {
 protected:
  void SetUp() override {
    rig_ = GetParam()();
    if (!rig_) {
      GTEST_SKIP() << "this machine has no such device";
    }
  }

  DeviceCopier& copier() { return rig_->copier(); }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) {
    auto memory = copier().allocate(bytes);
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    return memory;
  }

  void copy(const std::byte* from, std::byte* to, std::size_t bytes, CopyDirection direction) {
    const DeviceCopy one{from, to, bytes};
    copier().start({&one, 1}, direction)->wait();
  }

  std::shared_ptr<std::byte> upload(const std::vector<std::byte>& values) {
    auto memory = allocate(values.size());
    copy(values.data(), memory.get(), values.size(), CopyDirection::to_device);
    return memory;
  }

  std::vector<std::byte> download(const std::byte* from, std::size_t bytes) {
    std::vector<std::byte> values(bytes);
    copy(from, values.data(), bytes, CopyDirection::to_host);
    return values;
  }

  std::unique_ptr<CopierRig> rig_;
};

/// Holds a stream until the test lets it go on.
class Gate {
 public:
  Gate() : opened_(promise_.get_future().share()) {}

  [[nodiscard]] std::function<void()> waiting() const {
    return [opened = opened_] { opened.wait(); };
  }

  void open() { promise_.set_value(); }

  /// Opens after a while, whatever the caller waits for meanwhile: who starts copies may have to.
  [[nodiscard]] std::jthread open_soon() {
    return std::jthread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      open();
    });
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_;
};

TEST_P(DeviceCopierConformance, BringsBytesToTheDeviceAndBack) {
  const auto values = noise(3'000'001);

  const auto memory = upload(values);

  EXPECT_EQ(download(memory.get(), values.size()), values);
}

TEST_P(DeviceCopierConformance, CopiesWithinTheDevice) {
  const auto values = noise(1'000'003);
  const auto from = upload(values);
  const auto to = allocate(values.size());

  copy(from.get(), to.get(), values.size(), CopyDirection::within_device);

  EXPECT_EQ(download(to.get(), values.size()), values);
}

TEST_P(DeviceCopierConformance, CopiesManySmallRunsAtOnceInEveryDirection) {
  constexpr std::size_t kRuns = 5000;
  const auto values = noise(kRuns * 256);
  const auto packed = allocate(values.size());
  const auto spread = allocate(values.size());
  std::vector<std::byte> back(values.size());
  std::vector<DeviceCopy> up;
  std::vector<DeviceCopy> within;
  std::vector<DeviceCopy> down;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < kRuns; ++i) {
    const std::size_t bytes = 1 + i % 256;  // All alignments.
    std::byte* mirrored = spread.get() + values.size() - begin - bytes;
    up.push_back({values.data() + begin, packed.get() + begin, bytes});
    within.push_back({packed.get() + begin, mirrored, bytes});
    down.push_back({mirrored, back.data() + begin, bytes});
    begin += bytes;
  }

  const auto first = copier().start(up, CopyDirection::to_device);
  const auto second = copier().start(within, CopyDirection::within_device);
  copier().start(down, CopyDirection::to_host)->wait();

  EXPECT_TRUE(std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(begin), values.begin()));
}

TEST_P(DeviceCopierConformance, MakesCopiesInTheOrderOfTheirStarts) {
  const auto old_values = noise(4 << 20, 1);
  const auto new_values = noise(4 << 20, 2);
  const auto memory = upload(old_values);
  std::vector<std::byte> seen(old_values.size());
  const DeviceCopy down{memory.get(), seen.data(), seen.size()};
  const DeviceCopy up{new_values.data(), memory.get(), new_values.size()};

  const auto first = copier().start({&down, 1}, CopyDirection::to_host);
  const auto second = copier().start({&up, 1}, CopyDirection::to_device);
  first->wait();
  second->wait();

  EXPECT_EQ(seen, old_values);
  EXPECT_EQ(download(memory.get(), new_values.size()), new_values);
}

TEST_P(DeviceCopierConformance, FollowsAStream) {
  const auto memory = upload(noise(64));
  std::vector<std::byte> seen(64);
  const auto pin = copier().pin(seen);
  const DeviceCopy down{memory.get(), seen.data(), seen.size()};
  Gate gate;
  std::atomic<bool> has_run = false;
  rig_->enqueue(rig_->stream(), gate.waiting());
  rig_->enqueue(rig_->stream(), [&] { has_run = true; });
  const std::jthread opener = gate.open_soon();

  copier().follow(rig_->stream());
  copier().start({&down, 1}, CopyDirection::to_host)->wait();

  EXPECT_TRUE(has_run);
}

TEST_P(DeviceCopierConformance, HoldsAStreamUntilItsCopiesAreMade) {
  const auto values = noise(1 << 20);
  const auto memory = upload(values);
  std::vector<std::byte> seen(values.size());
  const auto pin = copier().pin(seen);
  std::vector<std::byte> seen_by_stream;
  const DeviceCopy down{memory.get(), seen.data(), seen.size()};
  Gate gate;
  std::promise<void> has_run;
  rig_->enqueue(nullptr, gate.waiting());
  copier().follow();  // Copies wait for the gate.
  const std::jthread opener = gate.open_soon();

  const auto transfer = copier().start({&down, 1}, CopyDirection::to_host);
  copier().hold(rig_->stream());
  rig_->enqueue(rig_->stream(), [&] {
    seen_by_stream = seen;
    has_run.set_value();
  });
  has_run.get_future().wait();

  EXPECT_EQ(seen_by_stream, values);
}

TEST_P(DeviceCopierConformance, WaitsForCopiesThatNobodyWaitedFor) {
  const auto values = noise(1 << 20);
  const auto memory = upload(values);
  std::vector<std::byte> seen(values.size());
  const auto pin = copier().pin(seen);
  const DeviceCopy down{memory.get(), seen.data(), seen.size()};
  Gate gate;
  rig_->enqueue(nullptr, gate.waiting());
  copier().follow();
  const std::jthread opener = gate.open_soon();

  copier().start({&down, 1}, CopyDirection::to_host).reset();

  EXPECT_EQ(seen, values);
}

TEST_P(DeviceCopierConformance, LetsATransferBeWaitedForTwice) {
  const auto values = noise(64);
  const auto memory = allocate(64);
  const DeviceCopy up{values.data(), memory.get(), 64};

  const auto transfer = copier().start({&up, 1}, CopyDirection::to_device);

  transfer->wait();
  EXPECT_NO_THROW(transfer->wait());
}

TEST_P(DeviceCopierConformance, CopiesNothing) {
  EXPECT_NO_THROW(copier().start({}, CopyDirection::to_host)->wait());
}

TEST_P(DeviceCopierConformance, AllocatesAlignedMemory) {
  const auto first = allocate(1);
  const auto second = allocate(1000);

  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.get()) % 256, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second.get()) % 256, 0u);
}

TEST_P(DeviceCopierConformance, SaysThatThereIsNoRoom) {
  EXPECT_EQ(copier().allocate(std::size_t{1} << 50), nullptr);
}

TEST_P(DeviceCopierConformance, KeepsMemoryUntilItsCopiesAreMade) {
  const auto values = noise(8 << 20);
  std::vector<std::byte> seen(values.size());
  std::unique_ptr<DeviceTransfer> transfer;
  {
    const auto memory = upload(values);
    const DeviceCopy down{memory.get(), seen.data(), seen.size()};
    transfer = copier().start({&down, 1}, CopyDirection::to_host);
  }

  transfer->wait();

  EXPECT_EQ(seen, values);
}

TEST_P(DeviceCopierConformance, PinsMemoryAgainAfterItWasLetGo) {
  alignas(4096) static std::array<std::byte, 1 << 16> memory;

  EXPECT_NE(copier().pin(memory), nullptr);
  EXPECT_NE(copier().pin(memory), nullptr);
}

TEST_P(DeviceCopierConformance, CopiesOnManyThreads) {
  constexpr int kThreads = 4;
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const auto values = noise(100'000, static_cast<unsigned>(i) + 7);
        bool is_right = true;
        for (int round = 0; round < 20; ++round) {
          is_right = is_right && download(upload(values).get(), values.size()) == values;
        }
        right += is_right ? 1 : 0;
      });
    }
  }

  EXPECT_EQ(right, kThreads);
}

}  // namespace cairn::testing
