// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "cairn/staging/device_copier.hpp"

namespace cairn::testing {

/// Runs what it is given, in order, on a thread of its own.
class FakeStream {
 public:
  FakeStream() : thread_([this] { run(); }) {}
  ~FakeStream();
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  void push(std::function<void()> work);
  /// Happens when all that was pushed so far has run.
  std::shared_future<void> record();
  /// Lets what is pushed from now on wait.
  void wait_for(std::shared_future<void> event);

 private:
  void run();

  std::mutex mutex_;  // Protects the queue.
  std::condition_variable pushed_;
  std::deque<std::function<void()>> queue_;
  bool is_ending_ = false;
  std::thread thread_;
};

/// A device without hardware: whoever touches its memory without its copier crashes. It can be slow, full and
/// faulty.
///
/// Its end waits for that of its copiers and of what they made: a context's services may outlive the context.
/// Threads: every method may be called from any thread.
class FakeDevice {
 public:
  explicit FakeDevice(std::int32_t index = 0, std::size_t memory_bytes = std::size_t{256} << 20);
  ~FakeDevice();
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  [[nodiscard]] Device device() const noexcept { return {Device::Kind::cuda, index_}; }
  [[nodiscard]] std::shared_ptr<DeviceCopier> copier();

  /// Memory for the program's arrays; freed at once when the last owner goes.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// The program's stream, and one that nobody knows.
  [[nodiscard]] FakeStream& stream() noexcept { return program_; }
  [[nodiscard]] FakeStream& other_stream() noexcept { return other_; }
  /// What a kernel sees where `address` points to.
  [[nodiscard]] std::byte* seen(const std::byte* address) const;

  /// Each transfer takes so much longer.
  void set_latency(std::chrono::microseconds latency) { latency_ = latency.count(); }
  /// Bytes a second; 0: as fast as memory.
  void set_bandwidth(std::uint64_t bytes_a_second) { bandwidth_ = bytes_a_second; }
  /// The transfer after `count` more in this direction fails, and none after it.
  void fail_transfer(CopyDirection direction, std::uint64_t count);
  /// Most that the copier may allocate.
  void set_room(std::size_t bytes) { room_ = bytes; }
  void refuse_pins() { can_pin_ = false; }
  /// Keeps copies from being made until the result goes.
  [[nodiscard]] std::shared_ptr<void> stall_copies();

  [[nodiscard]] std::uint64_t transfers(CopyDirection direction) const {
    return transfers_.at(at(direction));
  }
  [[nodiscard]] std::uint64_t copied_bytes(CopyDirection direction) const { return bytes_.at(at(direction)); }
  /// Copies between the device and host memory that was not pinned.
  [[nodiscard]] std::uint64_t unpinned_copies() const { return unpinned_; }
  [[nodiscard]] std::size_t pinned_bytes() const;
  /// Memory in use, by the program and by the copier; after what the copier has been given.
  [[nodiscard]] std::size_t used_bytes();

 private:
  class Copier;
  class Transfer;

  static constexpr std::size_t at(CopyDirection direction) { return static_cast<std::size_t>(direction); }

  [[nodiscard]] bool owns(const std::byte* address) const noexcept;
  [[nodiscard]] std::byte* take(std::size_t bytes);
  void give_back(std::byte* address);
  void check(const DeviceCopy& copy, CopyDirection direction) const;
  void check_range(const std::byte* address, std::size_t bytes) const;
  void count_host_end(const std::byte* address, std::size_t bytes);
  void copy(const DeviceCopy& copy, CopyDirection direction);
  [[noreturn]] void fail(const std::string& what) const;

  std::int32_t index_;
  std::size_t memory_bytes_;
  std::byte* base_ = nullptr;    // Nobody may touch it.
  std::byte* shadow_ = nullptr;  // The same memory, for copies and kernels.

  std::atomic<std::int64_t> latency_{0};
  std::atomic<std::uint64_t> bandwidth_{0};
  std::atomic<std::size_t> room_{SIZE_MAX};
  std::atomic<bool> can_pin_{true};
  std::array<std::atomic<std::int64_t>, 3> until_failure_{-1, -1, -1};
  std::array<std::atomic<std::uint64_t>, 3> transfers_{};
  std::array<std::atomic<std::uint64_t>, 3> bytes_{};
  std::atomic<std::uint64_t> unpinned_{0};
  std::atomic<std::size_t> lent_{0};  // To the copier.

  std::shared_ptr<void> users_ = std::make_shared<char>();  // Copies of it are held by what refers to this.

  mutable std::mutex mutex_;                   // Protects the maps.
  std::map<std::size_t, std::size_t> blocks_;  // Sizes by offset.
  std::map<const std::byte*, std::size_t> pins_;

  FakeStream program_;
  FakeStream other_;
  FakeStream own_;  // The copier's; the first to end.
};

}  // namespace cairn::testing
