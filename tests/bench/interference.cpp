// SPDX-License-Identifier: Apache-2.0
#include "bench/interference.hpp"

#include "bench/measure.hpp"

namespace cairn::bench {
namespace {

/// Three matrices of 144 KiB: they fit in a core's own cache.
class Matrices {
 public:
  void multiply() {
    for (std::size_t i = 0; i < kSide; ++i) {
      for (std::size_t k = 0; k < kSide; ++k) {
        const float left = a_[i * kSide + k];
        for (std::size_t j = 0; j < kSide; ++j) {
          c_[i * kSide + j] += left * b_[k * kSide + j];
        }
      }
    }
    a_[0] = c_[0] > 1e30F ? 0.0F : a_[0];  // So that nothing can be left out.
  }

 private:
  static constexpr std::size_t kSide = 192;

  std::vector<float> a_ = std::vector<float>(kSide * kSide, 0.5F);
  std::vector<float> b_ = std::vector<float>(kSide * kSide, 0.25F);
  std::vector<float> c_ = std::vector<float>(kSide * kSide);
};

}  // namespace

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
  Matrices matrices;
  while (!is_over_) {
    matrices.multiply();
    ++made_;
  }
}

double multiply_matrices(std::size_t threads, std::uint64_t products) {
  const Stopwatch watch;
  {
    std::vector<std::jthread> all;
    for (std::size_t i = 0; i < threads; ++i) {
      all.emplace_back([products] {
        Matrices matrices;
        for (std::uint64_t made = 0; made < products; ++made) {
          matrices.multiply();
        }
      });
    }
  }
  return watch.seconds();
}

}  // namespace cairn::bench
