// SPDX-License-Identifier: Apache-2.0
// Who writes what of fully parallel saves: the tables of Megatron-Core's test_fully_parallel, by the files of real
// saves.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/internal/index.hpp"
#include "megatron/states_of_ranks.hpp"

namespace cairn::megatron {
namespace {

using testing::counted;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr std::uint32_t kRanks = 8;  // TP 2, DP 4; TP is innermost.
constexpr std::uint32_t kTensorParallel = 2;

StateDict replicated(std::uint32_t rank) {
  const std::uint32_t tp = rank % kTensorParallel;
  const std::uint32_t dp = rank / kTensorParallel;
  const auto cut_by_tp = [&](const char* key) {
    return ShardedTensor::from_rank_offsets(key, counted({10}), {{0, tp, kTensorParallel}}, {dp});
  };
  const auto copied = [&](const char* key, std::uint64_t size) {
    return ShardedTensor::from_rank_offsets(key, counted({size}), {}, {rank});
  };
  return {{"tp_repl1", cut_by_tp("key_TP_repl1")},
          {"tp_repl2", cut_by_tp("key_TP_repl2")},
          {"b", ShardedTensor::from_rank_offsets("keyB", counted({20}), {{0, rank, kRanks}})},
          {"e_no_c", copied("keyC", 100)},
          {"d", copied("keyD", 1000)},
          {"c_no_e", copied("keyE", 100)}};
}

class FullyParallelSaves : public testing::StatesOfRanks {
 protected:
  using Writers = std::map<std::string, std::vector<std::uint32_t>>;

  /// The ranks that write each array, in the order of their boxes. A rank names its group by `group_of`.
  Writers writers(const std::function<std::vector<std::uint32_t>(std::uint32_t rank)>& group_of) const {
    testing::JointJob job{testing::JointJob::Options(kRanks)};
    for (const testing::RankEnd& end : job.on_all([&](std::size_t number) {
           const auto rank = static_cast<std::uint32_t>(number);
           StateDictSaveOptions options;
           options.strategy = std::make_shared<FullyParallelSave>(nullptr, group_of(rank));
           return save(replicated(rank), target(), options, job.context(rank));
         })) {
      EXPECT_EQ(end.text(), "committed");
    }
    const auto text =
        std::make_shared<const std::string>(testing::read_text(target() / "state" / "index.fb"));
    const formats::Index index = formats::Index::open(text, std::as_bytes(std::span(*text)), "index.fb");
    Writers writers;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const formats::IndexArray array = index.array(index.entry(i));
      std::map<std::uint64_t, std::uint32_t> by_offset;
      for (std::uint32_t s = 0; s < array.slice_count; ++s) {
        const formats::IndexSlice slice = index.slice(array, s);
        const std::string rank(slice.file.substr(std::string("data-r").size(), 5));
        by_offset[slice.is_whole ? 0 : slice.offsets[0]] = static_cast<std::uint32_t>(std::stoul(rank));
      }
      for (const auto& [offset, rank] : by_offset) {
        writers[std::string(array.name)].push_back(rank);
      }
    }
    return writers;
  }
};

TEST_F(FullyParallelSaves, OfAllRanksAreWrittenAsInMegatronsTable) {
  EXPECT_THAT(writers([](std::uint32_t) { return std::vector<std::uint32_t>(); }),
              ElementsAre(Pair("keyB", ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)), Pair("keyC", ElementsAre(5)),
                          Pair("keyD", ElementsAre(4)), Pair("keyE", ElementsAre(6)),
                          Pair("key_TP_repl1", ElementsAre(0, 1)), Pair("key_TP_repl2", ElementsAre(2, 3))));
}

TEST_F(FullyParallelSaves, OfDataParallelGroupsAreWrittenAsInMegatronsTable) {
  const auto data_parallel = [](std::uint32_t rank) {
    std::vector<std::uint32_t> group;
    for (std::uint32_t other = rank % kTensorParallel; other < kRanks; other += kTensorParallel) {
      group.push_back(other);
    }
    return group;
  };
  // In their groups: D 0, C 1, E 2, both shards of TP rank 0 are of rank 3, those of TP rank 1 of ranks 0 and 1.
  EXPECT_THAT(writers(data_parallel),
              ElementsAre(Pair("keyB", ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)), Pair("keyC", ElementsAre(2)),
                          Pair("keyD", ElementsAre(0)), Pair("keyE", ElementsAre(4)),
                          Pair("key_TP_repl1", ElementsAre(6, 1)), Pair("key_TP_repl2", ElementsAre(6, 3))));
}

}  // namespace
}  // namespace cairn::megatron
