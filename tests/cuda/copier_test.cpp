// SPDX-License-Identifier: Apache-2.0
#include "cairn/cuda/copier.hpp"

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include <cuda_runtime_api.h>

#include "support/copier_conformance.hpp"
#include "support/fails.hpp"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;

void require(cudaError_t answer) {
  if (answer != cudaSuccess) {
    throw std::runtime_error(cudaGetErrorString(answer));
  }
}

class CudaRig final : public CopierRig {
 public:
  CudaRig() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~CudaRig() override { static_cast<void>(cudaStreamDestroy(stream_)); }
  CudaRig(const CudaRig&) = delete;
  CudaRig& operator=(const CudaRig&) = delete;

  [[nodiscard]] DeviceCopier& copier() override { return *copier_; }
  [[nodiscard]] DeviceStream stream() override { return stream_; }

  void enqueue(DeviceStream stream, std::function<void()> work) override {
    auto held = std::make_unique<std::function<void()>>(std::move(work));
    require(cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), run, held.get()));
    static_cast<void>(held.release());  // `run` frees it.
  }

 private:
  static void run(void* work) {
    const std::unique_ptr<std::function<void()>> held(static_cast<std::function<void()>*>(work));
    (*held)();
  }

  std::shared_ptr<DeviceCopier> copier_ = cuda::make_copier();
  cudaStream_t stream_ = nullptr;
};

std::unique_ptr<CopierRig> make_rig() {
  return cuda::device_count() > 0 ? std::make_unique<CudaRig>() : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceCopierConformance, ::testing::Values(RigMaker(make_rig)));

TEST(CudaCopier, RefusesADeviceThatIsNotThere) {
  cuda::CopierOptions options;
  options.device = cuda::device_count();

  EXPECT_THAT([&] { static_cast<void>(cuda::make_copier(options)); },
              Fails(Errc::device_failure, HasSubstr("cuda:")));
}

class CudaCopierSnapshots : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) {
      GTEST_SKIP() << "this machine has no CUDA device";
    }
  }
};

TEST_F(CudaCopierSnapshots, AreNoneWhenTheyMayHoldNothing) {
  cuda::CopierOptions options;
  options.snapshot_bytes = 0;

  EXPECT_EQ(cuda::make_copier(options)->allocate(1), nullptr);
}

TEST_F(CudaCopierSnapshots, HoldNoMoreThanTheyMay) {
  cuda::CopierOptions options;
  options.snapshot_bytes = 1000;
  const auto copier = cuda::make_copier(options);
  auto first = copier->allocate(600);

  EXPECT_EQ(copier->allocate(600), nullptr);
  first.reset();
  EXPECT_NE(copier->allocate(600), nullptr);
}

TEST_F(CudaCopierSnapshots, LeaveMemoryToTheProgram) {
  cuda::CopierOptions options;
  options.keep_free_bytes = SIZE_MAX / 2;

  EXPECT_EQ(cuda::make_copier(options)->allocate(1), nullptr);
}

}  // namespace
}  // namespace cairn::testing
