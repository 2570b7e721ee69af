// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace cairn::bench {

/// Threads that multiply small matrices for ever, as the training that a save in the background must not slow down.
class MatrixProducts {
 public:
  explicit MatrixProducts(std::size_t threads);
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  /// How many products have been made, over all threads.
  [[nodiscard]] std::uint64_t made() const noexcept { return made_; }

 private:
  void multiply();

  std::atomic<bool> is_over_{false};
  std::atomic<std::uint64_t> made_{0};
  std::vector<std::thread> threads_;
};

/// Multiplies matrices: `products` times on each of so many threads. Returns the seconds until the last has ended.
double multiply_matrices(std::size_t threads, std::uint64_t products);

}  // namespace cairn::bench
