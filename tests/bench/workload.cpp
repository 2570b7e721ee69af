// SPDX-License-Identifier: Apache-2.0
#include "bench/workload.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <stdexcept>

#include <fmt/format.h>

#include "base/internal/aligned_memory.hpp"

namespace cairn::bench {
namespace {

constexpr std::size_t kStride = 1'000'003;
constexpr unsigned kSeed = 20'261'120;

std::vector<float> make_values() {
  std::vector<float> values(ValuePool::kValues);
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

/// Calls `visit(pool position, array position, elements)` for the runs of one array in the pool.
template <class Visit>
void visit_runs(std::size_t index, std::size_t elements, Visit visit) {
  std::size_t position = index * kStride % ValuePool::kValues;
  for (std::size_t done = 0; done < elements;) {
    const std::size_t run = std::min(elements - done, ValuePool::kValues - position);
    visit(position, done, run);
    done += run;
    position = 0;
  }
}

std::string leaf_name(const Workload& workload, std::size_t index) {
  return fmt::format("attn.q.weight.{}", index % workload.arrays_a_layer);
}

}  // namespace

ValuePool::ValuePool(const std::filesystem::path& file) : values_() {
  const auto bytes = static_cast<std::streamsize>(kValues * sizeof(float));
  if (!std::filesystem::exists(file)) {
    values_ = make_values();
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(values_.data()), bytes);
    if (!out)
      throw std::runtime_error("cannot write " + file.string());
    return;
  }
  values_.resize(kValues);
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(values_.data()), bytes);
  if (!in)
    throw std::runtime_error("cannot read " + file.string());
}

void ValuePool::fill(std::size_t index, int step, std::span<float> out) const {
  const float sign = step % 2 == 0 ? 1.0F : -1.0F;
  visit_runs(index, out.size(), [&](std::size_t from, std::size_t to, std::size_t run) {
    std::transform(values_.begin() + static_cast<std::ptrdiff_t>(from),
                   values_.begin() + static_cast<std::ptrdiff_t>(from + run),
                   out.begin() + static_cast<std::ptrdiff_t>(to),
                   [sign](float value) { return sign * value; });
  });
}

bool ValuePool::matches(std::size_t index, int step, std::span<const float> values) const {
  const float sign = step % 2 == 0 ? 1.0F : -1.0F;
  bool same = true;
  visit_runs(index, values.size(), [&](std::size_t from, std::size_t to, std::size_t run) {
    for (std::size_t i = 0; i < run; ++i) {
      same = same && values_[from + i] * sign == values[to + i];
    }
  });
  return same;
}

std::vector<Array> make_arrays(const Workload& workload, const ValuePool& pool, int step) {
  std::vector<Array> arrays;
  arrays.reserve(workload.count);
  for (std::size_t k = 0; k < workload.count; ++k) {
    Array& array = arrays.emplace_back(Shape{workload.rows, workload.columns}, DType::float32);
    pool.fill(k, step, array.data<float>());
  }
  return arrays;
}

void mutate(std::vector<Array>& arrays) {
  for (Array& array : arrays) {
    for (float& value : array.data<float>()) {
      value = -value;
    }
  }
}

Tree make_tree(const Workload& workload, const std::vector<Array>& arrays) {
  Tree::Map layers;
  for (std::size_t first = 0; first < arrays.size(); first += workload.arrays_a_layer) {
    Tree::Map layer;
    for (std::size_t k = first; k < std::min(first + workload.arrays_a_layer, arrays.size()); ++k) {
      layer.emplace(leaf_name(workload, k), arrays[k]);
    }
    layers.emplace(std::to_string(first / workload.arrays_a_layer), Tree::map(std::move(layer)));
  }
  Tree::Map root;
  root.emplace("layers", Tree::map(std::move(layers)));
  return Tree::map(std::move(root));
}

std::string path_of(const Workload& workload, std::size_t index) {
  return fmt::format("layers/{}/{}", index / workload.arrays_a_layer, leaf_name(workload, index));
}

}  // namespace cairn::bench
