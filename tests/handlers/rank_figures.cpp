// SPDX-License-Identifier: Apache-2.0

// Times how the ranks of a large job agree on who writes what, all in one thread, and how the metadata of what a
// tenth of them has written is read: cairn_rank_figures [ranks [arrays]]

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/sharding/sharding.hpp"

#include "coord/simulated_job.hpp"
#include "support/temp_dir.hpp"
#include "tree/ranks.hpp"

namespace cairn::detail {
namespace {

using testing::End;
using testing::Job;
using testing::Shared;

using Kept = std::shared_ptr<const KeptAssignments>;

/// What all programs of a round work with: they are plain functions.
struct Round {
  std::uint32_t ranks = 0;
  std::size_t arrays = 0;
  bool is_by_rule = false;
  std::optional<Sharding> rule;
  std::vector<Kept> kept;  // By rank.
};

Round round_of_all;

RankLeaves leaves_of(std::uint32_t rank) {
  const Round& all = round_of_all;
  RankLeaves leaves;
  leaves.rank = rank;
  leaves.ranks = all.ranks;
  for (std::size_t i = 0; i < all.arrays; ++i) {
    sharding::RankBoxes array_boxes;
    array_boxes.name = "layers/" + std::to_string(i) + "/attention/weight";
    array_boxes.dtype = DType::bfloat16;
    array_boxes.shape = {40000 + 8 * i, 4096};
    array_boxes.boxes = all.rule->boxes(rank, array_boxes.shape);
    if (all.is_by_rule) {
      array_boxes.rule = all.rule;
    }
    leaves.lines += line_of_array(array_boxes.name, "sharded array", array_boxes.dtype, array_boxes.shape);
    leaves.rank_boxes.push_back(std::move(array_boxes));
  }
  return leaves;
}

Awaitable<std::string> agree(Shared session, std::size_t rank) {
  coord::Channel channel = session->channel("leaves");
  Kept& kept = round_of_all.kept[rank];
  const AgreedLeaves agreed =
      co_await agree_on_assignments(channel, leaves_of(static_cast<std::uint32_t>(rank)), kept);
  kept = agreed.assignments;
  co_return std::to_string(kept->assignments.assignments.size());
}

long peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

/// Makes what each rank says, which is no part of the exchange.
double seconds_of_leaves() {
  const std::clock_t begin = std::clock();
  for (std::uint32_t rank = 0; rank < 100; ++rank) {
    static_cast<void>(leaves_of(rank));
  }
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / 100;
}

void run(Job& job, const char* what) {
  const std::size_t leaf = job.size() - 1;
  const std::uint64_t sent = job.network().sent_bytes(leaf);
  const std::uint64_t packets = job.network().packets();
  const double leaves = seconds_of_leaves() * static_cast<double>(job.size());
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t processor_start = std::clock();
  for (const End& end : job.run(agree)) {
    end.rethrow();
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  const double processor = static_cast<double>(std::clock() - processor_start) / CLOCKS_PER_SEC - leaves;
  std::printf(
      "%-34s %7.3f s, %7.3f s of a processor without the %.3f s that make the leaves, a leaf sends %llu "
      "bytes, "
      "%llu packets, at most %ld MiB so far\n",
      what, passed.count(), processor, leaves,
      static_cast<unsigned long long>(job.network().sent_bytes(leaf) - sent),
      static_cast<unsigned long long>(job.network().packets() - packets), peak_mebibytes());
}

void run_all(std::uint32_t ranks, std::size_t arrays, bool is_by_rule) {
  Job job(ranks, 16);
  round_of_all = {ranks, arrays, is_by_rule, Sharding::of_spec(Mesh({ranks}, {"all"}), {{"all"}}), {}};
  round_of_all.kept.resize(ranks);
  run(job, is_by_rule ? "divided by a rule" : "boxes exchanged");
  run(job, "the same again");
}

/// Reads the metadata of a checkpoint that so many ranks have written: the index of as many slices.
void run_metadata(std::uint32_t ranks, std::size_t arrays) {
  const testing::TempDir directory;
  const Sharding rows = Sharding::of_spec(Mesh({ranks}, {"all"}), {{"all"}});
  const Shape shape{ranks, 2};
  Tree tree;
  for (std::size_t i = 0; i < arrays; ++i) {
    std::vector<Shard> shards;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      shards.push_back({rows.boxes(rank, shape)[0].box, Array::zeros({1, 2}, DType::float32)});
    }
    tree["layers/" + std::to_string(i)] = ShardedArray(shape, DType::float32, std::move(shards));
  }
  save(directory / "checkpoint", tree);
  double best = 1e9;
  for (int round = 0; round < 10; ++round) {
    const auto start = std::chrono::steady_clock::now();
    AbstractTree found = metadata(directory / "checkpoint");
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    best = std::min(best, passed.count());
    if (found.as_map().size() != arrays) {
      std::abort();
    }
  }
  std::printf("%-34s %7.3f s at best of 10, warm\n", "metadata", best);
}

}  // namespace
}  // namespace cairn::detail

int main(int count, char** arguments) {
  const auto ranks = static_cast<std::uint32_t>(count > 1 ? std::atol(arguments[1]) : 10000);
  const auto arrays = static_cast<std::size_t>(count > 2 ? std::atol(arguments[2]) : 500);
  std::printf("%u ranks, %zu arrays\n", ranks, arrays);
  cairn::detail::run_all(ranks, arrays, true);
  cairn::detail::run_all(ranks, arrays, false);
  cairn::detail::run_metadata(ranks / 10, arrays);
  return 0;
}
