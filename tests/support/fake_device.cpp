// SPDX-License-Identifier: Apache-2.0
#include "support/fake_device.hpp"

#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"

#include "support/run.hpp"

namespace cairn::testing {
namespace {

constexpr std::size_t kAlignment = 256;

std::byte* map(std::size_t bytes, int protection, int fd) {
  void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (address == MAP_FAILED) {
    throw std::system_error(errno, std::system_category(), "mmap");
  }
  return static_cast<std::byte*>(address);
}

}  // namespace

FakeStream::~FakeStream() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  pushed_.notify_all();
  thread_.join();
}

void FakeStream::push(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  pushed_.notify_all();
}

std::shared_future<void> FakeStream::record() {
  const auto event = std::make_shared<std::promise<void>>();
  push([event] { event->set_value(); });
  return event->get_future().share();
}

void FakeStream::wait_for(std::shared_future<void> event) {
  push([event = std::move(event)] { event.wait(); });
}

void FakeStream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    pushed_.wait(lock, [this] { return is_ending_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

class FakeDevice::Transfer final : public DeviceTransfer {
 public:
  explicit Transfer(std::shared_future<void> done) : done_(std::move(done)) {}
  ~Transfer() override { done_.wait(); }

  void wait() override { done_.get(); }

 private:
  std::shared_future<void> done_;
};

class FakeDevice::Copier final : public DeviceCopier {
 public:
  explicit Copier(FakeDevice& owner) : owner_(owner) {}

  [[nodiscard]] Device device() const noexcept override { return owner_.device(); }

  void follow(DeviceStream stream) override { owner_.own_.wait_for(stream_of(stream).record()); }
  void hold(DeviceStream stream) override { stream_of(stream).wait_for(owner_.own_.record()); }

  [[nodiscard]] std::unique_ptr<DeviceTransfer> start(std::span<const DeviceCopy> copies,
                                                      CopyDirection direction) override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  [[nodiscard]] std::shared_ptr<void> pin(std::span<std::byte> memory) override;

 private:
  FakeStream& stream_of(DeviceStream stream) {
    return stream == nullptr ? owner_.program_ : *static_cast<FakeStream*>(stream);
  }

  FakeDevice& owner_;
  std::shared_ptr<void> user_ = owner_.users_;
};

std::unique_ptr<DeviceTransfer> FakeDevice::Copier::start(std::span<const DeviceCopy> copies,
                                                          CopyDirection direction) {
  const auto done = std::make_shared<std::promise<void>>();
  const bool is_failing = owner_.until_failure_.at(at(direction))-- == 0;
  ++owner_.transfers_.at(at(direction));
  owner_.own_.push([this, done, direction, is_failing, all = std::vector(copies.begin(), copies.end())] {
    try {
      std::this_thread::sleep_for(std::chrono::microseconds(owner_.latency_));
      if (is_failing) {
        owner_.fail("the copy was made to fail");
      }
      for (const DeviceCopy& each : all) {
        owner_.copy(each, direction);
      }
      done->set_value();
    } catch (...) {
      done->set_exception(std::current_exception());
    }
  });
  return std::make_unique<Transfer>(done->get_future().share());
}

std::shared_ptr<std::byte> FakeDevice::Copier::allocate(std::size_t bytes) {
  if (owner_.lent_ + bytes > owner_.room_) {
    return nullptr;
  }
  std::byte* memory = owner_.take(bytes);
  if (memory == nullptr) {
    return nullptr;
  }
  owner_.lent_ += bytes;
  const auto free = [owner = &owner_, user = user_, bytes](std::byte* address) {
    owner->own_.push([owner, bytes, address] {
      owner->lent_ -= bytes;
      owner->give_back(address);
    });
  };
  return {memory, free};
}

std::shared_ptr<void> FakeDevice::Copier::pin(std::span<std::byte> memory) {
  if (!owner_.can_pin_) {
    return nullptr;
  }
  const std::lock_guard lock(owner_.mutex_);
  owner_.pins_.emplace(memory.data(), memory.size());
  const auto unpin = [owner = &owner_, user = user_](std::byte* address) {
    const std::lock_guard inner(owner->mutex_);
    owner->pins_.erase(address);
  };
  return std::shared_ptr<std::byte>(memory.data(), unpin);
}

FakeDevice::FakeDevice(std::int32_t index, std::size_t memory_bytes)
    : index_(index), memory_bytes_(memory_bytes) {
  const int fd = ::memfd_create("cairn-fake-device", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(memory_bytes)) != 0) {
    throw std::system_error(errno, std::system_category(), "memfd");
  }
  base_ = map(memory_bytes, PROT_NONE, fd);
  shadow_ = map(memory_bytes, PROT_READ | PROT_WRITE, fd);
  ::close(fd);
}

FakeDevice::~FakeDevice() {
  for (FakeStream* stream : {&program_, &other_}) {
    stream->record().wait();
  }
  EXPECT_TRUE(eventually([this] { return users_.use_count() == 1; })) << "somebody still uses the device";
  static_cast<void>(used_bytes());  // Whatever was given to the copier has been done.
  ::munmap(base_, memory_bytes_);
  ::munmap(shadow_, memory_bytes_);
}

std::shared_ptr<DeviceCopier> FakeDevice::copier() {
  return std::make_shared<Copier>(*this);
}

std::shared_ptr<std::byte> FakeDevice::allocate(std::size_t bytes) {
  std::byte* memory = take(bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return {memory, [this](std::byte* address) { give_back(address); }};
}

std::byte* FakeDevice::seen(const std::byte* address) const {
  return shadow_ + (address - base_);
}

void FakeDevice::fail_transfer(CopyDirection direction, std::uint64_t count) {
  until_failure_.at(at(direction)) = static_cast<std::int64_t>(count);
}

std::shared_ptr<void> FakeDevice::stall_copies() {
  const auto gate = std::make_shared<std::promise<void>>();
  own_.wait_for(gate->get_future().share());
  return {gate.get(), [gate](void*) { gate->set_value(); }};
}

std::size_t FakeDevice::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [address, bytes] : pins_) {
    sum += bytes;
  }
  return sum;
}

std::size_t FakeDevice::used_bytes() {
  own_.record().wait();
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [offset, bytes] : blocks_) {
    sum += bytes;
  }
  return sum;
}

bool FakeDevice::owns(const std::byte* address) const noexcept {
  return address >= base_ && address < base_ + memory_bytes_;
}

std::byte* FakeDevice::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::size_t begin = 0;
  for (const auto& [offset, size] : blocks_) {
    if (offset - begin >= bytes) {
      break;
    }
    begin = (offset + size + kAlignment - 1) / kAlignment * kAlignment;
  }
  if (begin > memory_bytes_ || memory_bytes_ - begin < bytes) {
    return nullptr;
  }
  blocks_.emplace(begin, std::max<std::size_t>(bytes, 1));
  return base_ + begin;
}

void FakeDevice::give_back(std::byte* address) {
  const std::lock_guard lock(mutex_);
  blocks_.erase(static_cast<std::size_t>(address - base_));
}

void FakeDevice::check(const DeviceCopy& copy, CopyDirection direction) const {
  if (direction == CopyDirection::to_device ? owns(copy.from) : !owns(copy.from)) {
    fail("a copy does not come from where its direction says");
  }
  if (direction == CopyDirection::to_host ? owns(copy.to) : !owns(copy.to)) {
    fail("a copy does not go to where its direction says");
  }
  if (direction != CopyDirection::to_device) {
    check_range(copy.from, copy.bytes);
  }
  if (direction != CopyDirection::to_host) {
    check_range(copy.to, copy.bytes);
  }
}

void FakeDevice::check_range(const std::byte* address, std::size_t bytes) const {
  const auto offset = static_cast<std::size_t>(address - base_);
  const std::lock_guard lock(mutex_);
  const auto next = blocks_.upper_bound(offset);
  if (next == blocks_.begin()) {
    fail("an illegal address");
  }
  const auto& [begin, size] = *std::prev(next);
  if (offset + bytes > begin + size) {
    fail("an illegal address");
  }
}

void FakeDevice::count_host_end(const std::byte* address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto next = pins_.upper_bound(address);
  if (next == pins_.begin() || address + bytes > std::prev(next)->first + std::prev(next)->second) {
    ++unpinned_;
  }
}

void FakeDevice::copy(const DeviceCopy& copy, CopyDirection direction) {
  check(copy, direction);
  if (const std::uint64_t rate = bandwidth_; rate != 0) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(copy.bytes * 1'000'000'000 / rate));
  }
  if (direction != CopyDirection::within_device) {
    count_host_end(direction == CopyDirection::to_host ? copy.to : copy.from, copy.bytes);
  }
  const std::byte* from = direction == CopyDirection::to_device ? copy.from : seen(copy.from);
  std::byte* to = direction == CopyDirection::to_host ? copy.to : seen(copy.to);
  std::memcpy(to, from, copy.bytes);
  bytes_.at(at(direction)) += copy.bytes;
}

void FakeDevice::fail(const std::string& what) const {
  throw Error(Errc::device_failure,
              fmt::format("{}, stream {}: {}", to_string(device()), static_cast<const void*>(&own_), what));
}

}  // namespace cairn::testing
