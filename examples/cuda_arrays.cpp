// SPDX-License-Identifier: Apache-2.0
// Saves an array of a CUDA device, goes on computing at once, and loads it back into the memory of the device.
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <cairn/cairn.hpp>
#include <cairn/cuda/copier.hpp>
#include <cuda_runtime_api.h>

#include "own_folder.hpp"

namespace {

void require(cudaError_t answer) {
  if (answer != cudaSuccess) {
    throw std::runtime_error(cudaGetErrorString(answer));
  }
}

struct FreeDevice {
  void operator()(float* memory) const noexcept { static_cast<void>(cudaFree(memory)); }
};

// [context]
cairn::Context context_for(cudaStream_t training) {
  cairn::cuda::CopierOptions copier;
  copier.stream = training;  // The stream whose kernels change the weights.
  cairn::ContextOptions options;
  options.copiers = {cairn::cuda::make_copier(copier)};  // One for each device.
  return cairn::Context(std::move(options));
}
// [/context]

void train() {
  constexpr std::size_t kCount = std::size_t{1} << 20;
  cudaStream_t training = nullptr;
  require(cudaStreamCreateWithFlags(&training, cudaStreamNonBlocking));
  const cairn::Context context = context_for(training);
  void* memory = nullptr;
  require(cudaMalloc(&memory, kCount * sizeof(float)));
  const std::unique_ptr<float, FreeDevice> weights(static_cast<float*>(memory));
  require(cudaMemsetAsync(weights.get(), 0, kCount * sizeof(float), training));

  // [save]
  const cairn::Device device{cairn::Device::Kind::cuda, 0};
  const cairn::MutableArrayView view(weights.get(), {kCount}, cairn::DType::float32, device);
  const cairn::Tree state = {{"weights", view}, {"step", 100}};
  const cairn::AsyncResponse saving = cairn::save_async("run/100", state, {}, context);
  // What the stream is given from here on comes after the snapshot.
  require(cudaMemsetAsync(weights.get(), 0xff, kCount * sizeof(float), training));
  saving.wait();
  // [/save]

  // [load]
  cairn::AbstractTree wanted(state);
  wanted["weights"].as_array().place_into(view);
  const cairn::Tree loaded = cairn::load("run/100", wanted, {}, context);
  // [/load]

  std::vector<float> values(kCount, 1.0F);
  require(cudaMemcpy(values.data(), weights.get(), kCount * sizeof(float), cudaMemcpyDeviceToHost));
  if (values != std::vector<float>(kCount)) {
    throw std::logic_error("what was loaded is not what was saved");
  }
  require(cudaStreamDestroy(training));
}

}  // namespace

int main() try {
  if (cairn::cuda::device_count() == 0) {
    std::cout << "there is no CUDA device\n";
    return 0;
  }
  enter_own_folder("cuda_arrays");
  train();
  std::cout << "the weights are as they were saved\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
