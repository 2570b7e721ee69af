// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cairn/array/array.hpp"
#include "cairn/handlers/tree.hpp"

namespace cairn::bench {

/// What one call of the program measures.
struct Workload {
  Workload() = default;

  std::string name = "w1";
  std::filesystem::path directory;
  std::filesystem::path pool_file;
  std::filesystem::path memory = "/dev/shm";  ///< Where a directory of images is made.
  std::size_t count = 40;
  std::size_t rows = 6400;
  std::size_t columns = 4096;
  std::size_t arrays_a_layer = 4;
  std::string variant = "default";
  std::string engine = "auto";
  std::string layout;  ///< How the matrix of the resharding operations is cut.
  std::uint64_t tile_mebibytes =
      0;  ///< In which the matrix of the resharding operations is saved; 0: not in tiles.
  int saves = 2;
  int step = 1;
  std::size_t keep = 3;                   ///< How many steps a training keeps; 0: all.
  std::filesystem::path trace_directory;  // None are taken when empty.

  [[nodiscard]] std::size_t elements() const { return rows * columns; }
  [[nodiscard]] std::size_t bytes() const { return count * elements() * sizeof(float); }
};

/// The values that arrays are made of: 2^26 floats, standard normal x 0.02, the same in every run.
class ValuePool {
 public:
  static constexpr std::size_t kValues = std::size_t{1} << 26;

  /// Reads the file; makes it first when it is missing.
  explicit ValuePool(const std::filesystem::path& file);

  /// Writes array number `index` of `step` to `out`.
  void fill(std::size_t index, int step, std::span<float> out) const;

  /// Returns whether `values` are array number `index` of `step`.
  [[nodiscard]] bool matches(std::size_t index, int step, std::span<const float> values) const;

 private:
  std::vector<float> values_;
};

/// The arrays of a workload with the values of `step`, touched and page-aligned where large.
std::vector<Array> make_arrays(const Workload& workload, const ValuePool& pool, int step);

/// Changes every value, as a training step would: negates it.
void mutate(std::vector<Array>& arrays);

/// `layers / <k div per layer> / attn.q.weight.<k mod per layer>`
Tree make_tree(const Workload& workload, const std::vector<Array>& arrays);

/// The path of array number `index` in that tree.
std::string path_of(const Workload& workload, std::size_t index);

}  // namespace cairn::bench
