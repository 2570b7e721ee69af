// SPDX-License-Identifier: Apache-2.0
#include "cairn/cuda/copier.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "base/internal/mutex.hpp"
#include "cuda/copy_tiles.hpp"
#include "cuda/cuda_error.hpp"

namespace cairn::cuda {
namespace {

/// Larger runs fill the device on their own; smaller ones are copied by one kernel for all.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20;

/// Makes a device the calling thread's, and at the end the one that was: the thread may be the caller's.
class DeviceScope {
 public:
  explicit DeviceScope(Device device) {
    check(cudaGetDevice(&before_), "cudaGetDevice", device);
    check(cudaSetDevice(device.index), "cudaSetDevice", device);
  }
  ~DeviceScope() { static_cast<void>(cudaSetDevice(before_)); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

/// The copier's stream, shared with all that is still under way in it.
class Stream {
 public:
  explicit Stream(Device device) : device_(device) {
    const DeviceScope scope(device);
    int lowest = 0;
    int highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange", device);
    check(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, lowest),
          "cudaStreamCreateWithPriority", device);
  }
  ~Stream() { static_cast<void>(cudaStreamDestroy(handle_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] cudaStream_t handle() const noexcept { return handle_; }

  void check_call(cudaError_t answer, const char* call) const { check(answer, call, device_, handle_); }

 private:
  Device device_;
  cudaStream_t handle_ = nullptr;
};

/// Holds what a stream had been given when it was made.
class Event {
 public:
  Event(Device device, cudaStream_t stream) : device_(device), stream_(stream) {
    check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming | cudaEventBlockingSync),
          "cudaEventCreateWithFlags", device, stream);
    if (const cudaError_t answer = cudaEventRecord(handle_, stream); answer != cudaSuccess) {
      static_cast<void>(cudaEventDestroy(handle_));
      check(answer, "cudaEventRecord", device, stream);
    }
  }
  ~Event() { static_cast<void>(cudaEventDestroy(handle_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void wait() const { check(cudaEventSynchronize(handle_), "cudaEventSynchronize", device_, stream_); }

  void wait_quietly() const noexcept {
    if (cudaEventSynchronize(handle_) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
    }
  }

  void hold(cudaStream_t other) const {
    check(cudaStreamWaitEvent(other, handle_, 0), "cudaStreamWaitEvent", device_, other);
  }

 private:
  Device device_;
  cudaStream_t stream_;
  cudaEvent_t handle_ = nullptr;
};

/// Tiles in memory that kernels reach. Freed with the transfer, when the kernel has read them.
class PinnedTiles {
 public:
  PinnedTiles(const Stream& stream, std::size_t count) {
    void* memory = nullptr;
    stream.check_call(cudaHostAlloc(&memory, count * sizeof(Tile), cudaHostAllocDefault), "cudaHostAlloc");
    tiles_.reset(static_cast<Tile*>(memory));
  }

  [[nodiscard]] Tile* data() const noexcept { return tiles_.get(); }

 private:
  struct Free {
    void operator()(Tile* tiles) const noexcept { static_cast<void>(cudaFreeHost(tiles)); }
  };

  std::unique_ptr<Tile, Free> tiles_;
};

class Transfer final : public DeviceTransfer {
 public:
  Transfer(std::shared_ptr<const Stream> stream, std::unique_ptr<PinnedTiles> tiles)
      : stream_(std::move(stream)), tiles_(std::move(tiles)), end_(stream_->device(), stream_->handle()) {}
  ~Transfer() override { end_.wait_quietly(); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  void wait() override { end_.wait(); }

 private:
  std::shared_ptr<const Stream> stream_;
  std::unique_ptr<PinnedTiles> tiles_;
  Event end_;
};

/// How much the copier has allocated.
struct Lent {
  Mutex mutex;
  std::size_t bytes CAIRN_GUARDED_BY(mutex) = 0;
};

class Copier final : public DeviceCopier {
 public:
  explicit Copier(const CopierOptions& options)
      : options_(options),
        stream_(std::make_shared<const Stream>(Device{Device::Kind::cuda, options.device})) {}

  [[nodiscard]] Device device() const noexcept override { return stream_->device(); }

  void follow(DeviceStream stream) override {
    const DeviceScope scope(device());
    Event(device(), stream_of(stream)).hold(stream_->handle());
  }

  void hold(DeviceStream stream) override {
    const DeviceScope scope(device());
    Event(device(), stream_->handle()).hold(stream_of(stream));
  }

  [[nodiscard]] std::unique_ptr<DeviceTransfer> start(std::span<const DeviceCopy> copies,
                                                      CopyDirection direction) override;
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  [[nodiscard]] std::shared_ptr<void> pin(std::span<std::byte> memory) override;

 private:
  [[nodiscard]] cudaStream_t stream_of(DeviceStream stream) const noexcept {
    return static_cast<cudaStream_t>(stream != nullptr ? stream : options_.stream);
  }

  [[nodiscard]] bool has_room(std::size_t bytes) const CAIRN_REQUIRES(lent_->mutex);
  void copy_one(const DeviceCopy& copy, cudaMemcpyKind kind) const;
  void copy_batch(std::span<const DeviceCopy> copies) const;
  [[nodiscard]] std::unique_ptr<PinnedTiles> copy_within(std::span<const DeviceCopy> copies) const;

  CopierOptions options_;
  std::shared_ptr<const Stream> stream_;
  std::shared_ptr<Lent> lent_ = std::make_shared<Lent>();
};

std::unique_ptr<DeviceTransfer> Copier::start(std::span<const DeviceCopy> copies, CopyDirection direction) {
  const DeviceScope scope(device());
  try {
    std::unique_ptr<PinnedTiles> tiles;
    if (direction == CopyDirection::within_device) {
      tiles = copy_within(copies);
    } else if (copies.size() == 1) {
      copy_one(copies[0],
               direction == CopyDirection::to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice);
    } else {
      copy_batch(copies);
    }
    return std::make_unique<Transfer>(stream_, std::move(tiles));
  } catch (...) {
    // Some may be under way; nobody else would wait for them.
    static_cast<void>(cudaStreamSynchronize(stream_->handle()));
    throw;
  }
}

void Copier::copy_one(const DeviceCopy& copy, cudaMemcpyKind kind) const {
  stream_->check_call(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, kind, stream_->handle()),
                      "cudaMemcpyAsync");
}

void Copier::copy_batch(std::span<const DeviceCopy> copies) const {
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> sizes;
  for (const DeviceCopy& copy : copies) {
    if (copy.bytes != 0) {
      to.push_back(copy.to);
      from.push_back(copy.from);
      sizes.push_back(copy.bytes);
    }
  }
  if (sizes.empty()) {
    return;
  }
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;  // The attributes are those of all copies from the first on.
  stream_->check_call(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), sizes.size(), &attributes,
                                           &first, 1, stream_->handle()),
                      "cudaMemcpyBatchAsync");
}

std::unique_ptr<PinnedTiles> Copier::copy_within(std::span<const DeviceCopy> copies) const {
  std::size_t count = 0;
  for (const DeviceCopy& copy : copies) {
    if (copy.bytes >= kLargeBytes) {
      copy_one(copy, cudaMemcpyDeviceToDevice);
    } else {
      count += (copy.bytes + kMostTileBytes - 1) / kMostTileBytes;
    }
  }
  if (count == 0) {
    return nullptr;
  }
  auto tiles = std::make_unique<PinnedTiles>(*stream_, count);
  Tile* tile = tiles->data();
  for (const DeviceCopy& copy : copies) {
    for (std::size_t at = 0; copy.bytes < kLargeBytes && at < copy.bytes; at += kMostTileBytes) {
      *tile++ = {copy.from + at, copy.to + at, std::min(kMostTileBytes, copy.bytes - at)};
    }
  }
  stream_->check_call(copy_tiles(tiles->data(), count, stream_->handle()), "a kernel that copies");
  return tiles;
}

bool Copier::has_room(std::size_t bytes) const {
  if (lent_->bytes > options_.snapshot_bytes || bytes > options_.snapshot_bytes - lent_->bytes) {
    return false;
  }
  std::size_t free = 0;
  std::size_t total = 0;
  stream_->check_call(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free > options_.keep_free_bytes && bytes <= free - options_.keep_free_bytes;
}

std::shared_ptr<std::byte> Copier::allocate(std::size_t bytes) {
  const DeviceScope scope(device());
  const MutexLock lock(lent_->mutex);
  if (!has_room(bytes)) {
    return nullptr;
  }
  void* memory = nullptr;
  const cudaError_t answer = cudaMallocAsync(&memory, std::max<std::size_t>(bytes, 1), stream_->handle());
  if (is_refusal(answer)) {
    return nullptr;
  }
  stream_->check_call(answer, "cudaMallocAsync");
  lent_->bytes += bytes;
  const auto free = [stream = stream_, lent = lent_, bytes](std::byte* address) {
    static_cast<void>(cudaFreeAsync(address, stream->handle()));
    const MutexLock inner(lent->mutex);
    lent->bytes -= bytes;
  };
  return {static_cast<std::byte*>(memory), free};
}

std::shared_ptr<void> Copier::pin(std::span<std::byte> memory) {
  const DeviceScope scope(device());
  const cudaError_t answer = cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable);
  if (answer == cudaErrorHostMemoryAlreadyRegistered) {
    static_cast<void>(cudaGetLastError());
    return {memory.data(), [](void*) {}};  // By the copier of another device, for all devices.
  }
  if (is_refusal(answer)) {
    return nullptr;
  }
  stream_->check_call(answer, "cudaHostRegister");
  return {memory.data(), [](void* address) { static_cast<void>(cudaHostUnregister(address)); }};
}

}  // namespace

std::shared_ptr<DeviceCopier> make_copier(const CopierOptions& options) {
  return std::make_shared<Copier>(options);
}

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return count;
}

}  // namespace cairn::cuda
