// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include "cairn/cairn.hpp"
#include "cairn/cuda/copier.hpp"
#include "cairn/flash/flash_checkpointer.hpp"

#include "support/temp_dir.hpp"

namespace cairn::flash {
namespace {

constexpr std::size_t kArrays = 5;
constexpr std::size_t kBytes = (std::size_t{37} << 20) + 12'345;

void require(cudaError_t answer) {
  if (answer != cudaSuccess) {
    throw std::runtime_error(cudaGetErrorString(answer));
  }
}

/// Arrays on a device that a stream of the program changes: in each step all bytes of the n-th become step + n.
class DeviceState {
 public:
  DeviceState() {
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    void* memory = nullptr;
    require(cudaMalloc(&memory, kArrays * kBytes));
    memory_ = {static_cast<std::byte*>(memory), [](std::byte* bytes) { static_cast<void>(cudaFree(bytes)); }};
  }
  ~DeviceState() { static_cast<void>(cudaStreamDestroy(stream_)); }
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  [[nodiscard]] Tree tree() const {
    Tree tree;
    for (std::size_t n = 0; n < kArrays; ++n) {
      MutableArrayView view(memory_.get() + n * kBytes, {kBytes}, DType::uint8, {Device::Kind::cuda, 0});
      tree[std::to_string(n)] = Array::share(std::move(view), memory_);
    }
    return tree;
  }
  void compute(std::uint64_t step) const {
    for (std::size_t n = 0; n < kArrays; ++n) {
      require(
          cudaMemsetAsync(memory_.get() + n * kBytes, static_cast<int>((step + n) % 256), kBytes, stream_));
    }
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<std::byte> memory_;
};

void expect_step(const Tree& state, std::uint64_t step) {
  for (std::size_t n = 0; n < kArrays; ++n) {
    const Array array = state.get<Array>(std::to_string(n));
    std::vector<std::uint8_t> wanted(kBytes, static_cast<std::uint8_t>((step + n) % 256));
    EXPECT_EQ(array, Array::adopt(std::move(wanted))) << "array " << n << " of step " << step;
  }
}

class CudaSteps : public ::testing::TestWithParam<std::size_t> {};

TEST_P(CudaSteps, AreThoseOfTheirMomentAndGoOnFromMemory) {
  if (cuda::device_count() == 0) {
    GTEST_SKIP() << "no CUDA device";
  }
  const testing::TempDir above(testing::kSharedMemory);
  const DeviceState state;
  FlashOptions options;
  options.memory = above / "memory";
  options.disk.save = save_when::every_steps(1'000'000);
  const auto context = [&] {
    cuda::CopierOptions copier;
    copier.snapshot_bytes = GetParam();
    copier.stream = state.stream();
    ContextOptions with;
    with.copiers = {cuda::make_copier(copier)};
    return Context(std::move(with));
  };
  constexpr std::uint64_t kLast = 12;
  {
    const Context with = context();
    FlashCheckpointer run(above / "run", options, with);
    for (std::uint64_t step = 1; step <= kLast; ++step) {
      state.compute(step);
      const FlashResponse response = run.save(step, {{"state", state.tree()}});
      state.compute(step + 100);  // Behind the save, in the stream.
      response.wait_in_memory();
      if (!response.was_skipped()) {
        expect_step(run.load(step, {"state"}).take<Tree>("state"), step);
      }
      if (step % 4 == 0) {
        run.wait();  // Else memory is pinned while steps are saved.
      }
    }
    EXPECT_EQ(run.skipped(), 0u);
    run.close();
  }
  const Context with = context();
  FlashCheckpointer run(above / "run", options, with);
  std::optional<FlashResumed> resumed = run.resume({"state"});
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->step, kLast);
  EXPECT_EQ(resumed->from, ResumedFrom::memory);
  expect_step(resumed->loaded.take<Tree>("state"), kLast);
}

INSTANTIATE_TEST_SUITE_P(Snapshots, CudaSteps,
                         ::testing::Values(std::size_t{0}, kArrays* kBytes / 2, SIZE_MAX));

}  // namespace
}  // namespace cairn::flash
