// SPDX-License-Identifier: Apache-2.0

// Times what jobs of many ranks do once per structure:  cairn_sharding_figures [ranks [arrays [tensors]]]

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cairn/sharding/assignment_plan.hpp"
#include "cairn/sharding/policy.hpp"

#include "array/internal/cover.hpp"
#include "sharding/held_arrays.hpp"

namespace cairn {
namespace {

long peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

template <class F>
auto timed(const char* what, F work) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t processor_start = std::clock();
  auto result = work();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  const double processor = static_cast<double>(std::clock() - processor_start) / CLOCKS_PER_SEC;
  std::printf("%-42s %7.3f s, %7.3f s of a processor, at most %ld MiB so far\n", what, passed.count(),
              processor, peak_mebibytes());
  return result;
}

std::vector<sharding::PlannedArray> arrays_of(std::size_t count, const Sharding& sharding) {
  std::vector<sharding::PlannedArray> arrays;
  for (std::size_t i = 0; i < count; ++i) {
    arrays.push_back(
        {"layers/" + std::to_string(i) + "/w", DType::bfloat16, {40000 + 8 * i, 4096}, sharding});
  }
  return arrays;
}

std::uint64_t all_assignments(const sharding::AssignmentPlan& plan) {
  std::uint64_t count = 0;
  for (std::uint32_t rank = 0; rank < plan.ranks(); ++rank) {
    count += plan.assignments(rank).size();
  }
  return count;
}

void time_rules(std::uint32_t ranks, std::size_t arrays) {
  const Mesh flat({ranks}, {"all"});
  const Mesh halves({ranks / 2, 2}, {"model", "data"});
  const auto plan = [&](const char* what, const Sharding& sharding) {
    return timed(what, [&] { return sharding::AssignmentPlan(arrays_of(arrays, sharding), ranks); });
  };
  const sharding::AssignmentPlan rows =
      plan("plan by rule: rows on all ranks", Sharding::of_spec(flat, {{"all"}}));
  plan("plan by rule: two copies of each box", Sharding::of_spec(halves, {{"model"}}));
  const sharding::AssignmentPlan copies =
      plan("plan by rule: copies everywhere", Sharding::replicated(ranks));
  timed("shares of all ranks: rows", [&] { return all_assignments(rows); });
  const std::uint64_t count =
      timed("shares of all ranks: copies everywhere", [&] { return all_assignments(copies); });
  const auto bytes = copies.bytes_by_rank();
  const double mean = std::accumulate(bytes.begin(), bytes.end(), 0.0) / ranks;
  std::printf("    %llu shares, the busiest rank has %.3f of the mean\n",
              static_cast<unsigned long long>(count),
              static_cast<double>(*std::max_element(bytes.begin(), bytes.end())) / mean);
}

void time_exchange(std::uint32_t ranks, std::size_t arrays) {
  const std::vector<sharding::PlannedArray> wanted =
      arrays_of(arrays, Sharding::of_spec(Mesh({ranks}, {"all"}), {{"all"}}));
  auto held = timed("boxes of all ranks put together", [&] {
    HeldArrays all;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (const sharding::PlannedArray& array : wanted) {
        all.add(rank, array.name, array.dtype, array.shape, array.sharding.boxes(rank, array.shape));
      }
    }
    return all.finish(ranks);
  });
  const sharding::AssignmentPlan plan =
      timed("plan of exchanged boxes", [&] { return sharding::AssignmentPlan(std::move(held), ranks); });
  timed("shares of all ranks", [&] { return all_assignments(plan); });
}

void time_cover() {
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < 22 * 22 * 21; ++i) {
    boxes.emplace_back(Shape{i / 462 * 10, i / 21 % 22 * 10, i % 21 * 10}, Shape{10, 10, 10});
  }
  timed("cover of 500 grids of 22 x 22 x 21", [&] {
    for (int i = 0; i < 500; ++i) {
      check_cover("w", Box::whole({220, 220, 210}), boxes);
    }
    return 0;
  });
}

void time_policy(std::size_t count) {
  std::vector<std::string> keys;
  std::vector<ShardableTensor> tensors(count);
  for (std::size_t i = 0; i < count; ++i) {
    keys.push_back("layers/" + std::to_string(i));
  }
  for (std::size_t i = 0; i < count; ++i) {
    tensors[i].key = keys[i];
    tensors[i].full = {16 + i % 7, 64};
    tensors[i].size_bytes = *byte_count(DType::float32, tensors[i].full);
  }
  const MaxShardSize policy(1 << 20);
  timed("MaxShardSize of 1 MiB, with its check", [&] {
    const std::vector<FilePlan> files = policy(tensors);
    check_policy_result(policy, tensors, files);
    return files.size();
  });
}

}  // namespace
}  // namespace cairn

int main(int count, char** arguments) {
  const auto ranks = static_cast<std::uint32_t>(count > 1 ? std::atol(arguments[1]) : 10000);
  const auto arrays = static_cast<std::size_t>(count > 2 ? std::atol(arguments[2]) : 500);
  const auto tensors = static_cast<std::size_t>(count > 3 ? std::atol(arguments[3]) : 1000000);
  std::printf("%u ranks, %zu arrays, %zu tensors\n", ranks, arrays, tensors);
  cairn::time_exchange(ranks, arrays);
  cairn::time_rules(ranks, arrays);
  cairn::time_cover();
  cairn::time_policy(tensors);
  return 0;
}
