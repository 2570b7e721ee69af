// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_error.hpp"

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::cuda {

void check(cudaError_t answer, std::string_view call, Device device, cudaStream_t stream) {
  if (answer == cudaSuccess) {
    return;
  }
  static_cast<void>(cudaGetLastError());  // Cleared: it is reported here, and not by the next call.
  throw Error(Errc::device_failure,
              fmt::format("{}, stream {}: {}: {} ({})", to_string(device), static_cast<const void*>(stream),
                          call, cudaGetErrorString(answer), cudaGetErrorName(answer)));
}

bool is_refusal(cudaError_t answer) noexcept {
  switch (answer) {
    case cudaErrorMemoryAllocation:
    case cudaErrorNotSupported:
    case cudaErrorNotPermitted:
    case cudaErrorOperatingSystem:
      static_cast<void>(cudaGetLastError());
      return true;
    default:
      return false;
  }
}

}  // namespace cairn::cuda
