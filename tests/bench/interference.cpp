// SPDX-License-Identifier: Apache-2.0
#include "bench/interference.hpp"

namespace cairn::bench {

MatrixProducts::MatrixProducts(std::size_t threads) {
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { multiply(); });
  }
}

MatrixProducts::~MatrixProducts() {
  is_over_ = true;
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void MatrixProducts::multiply() {
  constexpr std::size_t kSide = 192;  // Three matrices of 144 KiB: they fit in a core's own cache.
  std::vector<float> a(kSide * kSide, 0.5F);
  std::vector<float> b(kSide * kSide, 0.25F);
  std::vector<float> c(kSide * kSide);
  while (!is_over_) {
    for (std::size_t i = 0; i < kSide; ++i) {
      for (std::size_t k = 0; k < kSide; ++k) {
        const float left = a[i * kSide + k];
        for (std::size_t j = 0; j < kSide; ++j) {
          c[i * kSide + j] += left * b[k * kSide + j];
        }
      }
    }
    a[0] = c[0] > 1e30F ? 0.0F : a[0];  // So that nothing can be left out.
    ++made_;
  }
}

}  // namespace cairn::bench
