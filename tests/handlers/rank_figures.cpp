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
#include <string>
#include <utility>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/sharding/sharding.hpp"

#include "array/ranks.hpp"
#include "coord/simulated_job.hpp"
#include "support/temp_dir.hpp"

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
  std::uint32_t stages = 1;  // Each has arrays of its own, which its ranks divide.
  bool is_by_rule = false;
  std::vector<Sharding> rules;  // By stage.
  std::vector<Kept> kept;       // By rank.
};

Round round_of_all;

Round round_of(std::uint32_t ranks, std::size_t arrays, std::uint32_t stages, bool is_by_rule) {
  Round round = {ranks, arrays, stages, is_by_rule, {}, std::vector<Kept>(ranks)};
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    std::vector<std::uint32_t> members;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (std::uint64_t{rank} * stages / ranks == stage) {
        members.push_back(rank);
      }
    }
    const std::uint64_t count = members.size();
    round.rules.push_back(Sharding::of_spec(Mesh({count}, {"all"}, std::move(members)), {{"all"}}));
  }
  return round;
}

LeavesOfRank leaves_of(std::uint32_t rank) {
  const Round& all = round_of_all;
  const auto stage = static_cast<std::size_t>(std::uint64_t{rank} * all.stages / all.ranks);
  const Sharding& rule = all.rules[stage];
  LeavesOfRank leaves;
  leaves.ranks = all.ranks;
  leaves.said.rank = rank;
  leaves.said.paths = all.stages == 1 ? RankPaths::same : RankPaths::joined;
  for (std::size_t i = 0; i < all.arrays; ++i) {
    sharding::RankBoxes array_boxes;
    array_boxes.name = "layers/" + std::to_string(stage * all.arrays + i) + "/attention/weight";
    array_boxes.dtype = DType::bfloat16;
    array_boxes.shape = {40000 + 8 * i, 4096};
    array_boxes.boxes = rule.boxes(rank, array_boxes.shape);
    if (all.is_by_rule) {
      array_boxes.rule = rule;
    }
    leaves.said.leaves.add_array_in_parts(array_boxes.name, array_boxes.dtype, array_boxes.shape);
    leaves.said.boxes.push_back(std::move(array_boxes));
  }
  return leaves;
}

Awaitable<std::string> agree(Shared session, std::size_t rank) {
  coord::Channel channel = session->channel("leaves");
  Kept& kept = round_of_all.kept[rank];
  LeavesOfRank leaves = leaves_of(static_cast<std::uint32_t>(rank));
  const AgreedLeaves agreed = co_await agree_on_assignments(channel, std::move(leaves), kept);
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

void run_all(std::uint32_t ranks, std::size_t arrays, std::uint32_t stages, bool is_by_rule) {
  Job job(ranks, 16);
  round_of_all = round_of(ranks, arrays, stages, is_by_rule);
  std::printf("%u stages\n", stages);
  run(job, is_by_rule ? "divided by a rule" : "boxes exchanged");
  run(job, "the same again");
}

/// Does what rank 0 does with what the others have said, when they exchange boxes: in this process nothing else takes
/// memory.
void run_rank_zero(std::uint32_t ranks, std::size_t arrays, std::uint32_t stages) {
  constexpr std::uint32_t kChildren = 16;
  round_of_all = round_of(ranks, arrays, stages, false);
  std::vector<std::string> heard = {sharding::encode_rank_leaves(leaves_of(0).said)};
  for (std::uint32_t child = 0; child < kChildren; ++child) {
    std::vector<std::string> texts;
    for (std::uint32_t rank = child + 1; rank < ranks; rank += kChildren) {
      texts.push_back(sharding::encode_rank_leaves(leaves_of(rank).said));
    }
    if (!texts.empty()) {
      heard.push_back(sharding::merge_rank_leaves(texts));
    }
  }
  const long before = peak_mebibytes();
  const auto start = std::chrono::steady_clock::now();
  std::string gathered = sharding::merge_rank_leaves(heard);
  heard.clear();
  const std::size_t answers = sharding::plan_answers(gathered, ranks, {}).size();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  std::printf("%u stages, rank 0 merges %zu MiB and makes %zu answers: %.3f s, at most %ld MiB, %ld before\n",
              stages, gathered.size() >> 20, answers, passed.count(), peak_mebibytes(), before);
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
  constexpr std::uint32_t kStages = 8;
  const auto ranks = static_cast<std::uint32_t>(count > 1 ? std::atol(arguments[1]) : 10000);
  const auto arrays = static_cast<std::size_t>(count > 2 ? std::atol(arguments[2]) : 500);
  std::printf("%u ranks, %zu arrays\n", ranks, arrays);
  cairn::detail::run_rank_zero(ranks, arrays, kStages);
  cairn::detail::run_all(ranks, arrays, 1, true);
  cairn::detail::run_all(ranks, arrays, 1, false);
  cairn::detail::run_all(ranks, arrays, kStages, true);
  cairn::detail::run_all(ranks, arrays, kStages, false);
  cairn::detail::run_metadata(ranks / 10, arrays);
  return 0;
}
