// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <cuda_runtime_api.h>

#include "cairn/base/device.hpp"

namespace cairn::cuda {

/// Throws what CUDA answered to `call` when it is not a success: Errc::device_failure, naming device and stream.
void check(cudaError_t answer, std::string_view call, Device device, cudaStream_t stream = nullptr);

/// Returns whether the answer is one of memory that is not to be had. Forgets it: it must not meet the
/// program's next question for the last error.
bool is_refusal(cudaError_t answer) noexcept;

}  // namespace cairn::cuda
