// SPDX-License-Identifier: Apache-2.0
// The eight modes of loads, of keys that one side lacks, on ranks together and alone: one verdict with one text.
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "megatron/states_of_ranks.hpp"
#include "megatron/strict_rules.hpp"

namespace cairn::megatron {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::counted;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr Strict kAllModes[] = {
    Strict::assume_ok_unexpected, Strict::log_unexpected, Strict::log_all,
    Strict::raise_unexpected,     Strict::raise_all,      Strict::return_unexpected,
    Strict::return_all,           Strict::ignore_all};

class StrictLoads : public testing::StatesOfRanks {
 protected:
  static StateDict stored(std::uint32_t rank) {
    return {{"w", ShardedTensor::from_rank_offsets("w", counted({2}), {{0, rank, 2}})},
            {"z", ShardedTensor::from_rank_offsets("z", counted({2}), {}, {rank})},
            {"o", ShardedObject{"object", 5, {2}, {rank}}},
            {"step", 7}};
  }

  /// Rank 1 asks for what is not stored; nobody for 'z' and the objects, where something is missing.
  static StateDict request(std::uint32_t rank, bool has_unexpected, bool lacks) {
    StateDict dict = {{"w", ShardedTensor::from_rank_offsets("w", Array({2}, DType::int32), {{0, rank, 2}})}};
    if (has_unexpected && rank == 1) {
      dict["x"] = ShardedTensor::from_rank_offsets("x", Array({2}, DType::int32));
      dict["y"] = ShardedObject{"other", std::nullopt};
    }
    if (!lacks) {
      dict["z"] = ShardedTensor::from_rank_offsets("z", Array({2}, DType::int32), {}, {rank});
      dict["o"] = ShardedObject{"object", std::nullopt, {2}, {rank}};
    }
    return dict;
  }

  /// What a rank alone, or all together, must hear.
  static void expect_end(const LoadEnd& end, Strict strict, bool has_unexpected, bool lacks, bool is_mine) {
    const detail::StrictRules rules = detail::rules_of(strict);
    const bool fails = (has_unexpected && rules.unexpected == detail::OnMismatch::raise) ||
                       (lacks && rules.missing == detail::OnMismatch::raise);
    EXPECT_EQ(!end.text.empty(), fails) << end.text;
    if (fails) {
      return;
    }
    const bool is_told = (has_unexpected && rules.unexpected == detail::OnMismatch::report) ||
                         (lacks && rules.missing == detail::OnMismatch::report);
    EXPECT_EQ(!end.loaded.result.problems.empty(), is_told);
    const bool gives_unexpected = rules.unexpected == detail::OnMismatch::give_back;
    const bool gives_missing = rules.missing == detail::OnMismatch::give_back;
    EXPECT_EQ(end.loaded.unexpected,
              gives_unexpected && is_mine ? (std::set<std::string>{"other", "x"}) : std::set<std::string>());
    EXPECT_EQ(end.loaded.missing,
              gives_missing && lacks ? (std::set<std::string>{"object", "z"}) : std::set<std::string>());
    EXPECT_FALSE(end.loaded.state.contains("x"));
    EXPECT_FALSE(end.loaded.state.contains("y"));
    EXPECT_EQ(end.loaded.state.contains("o"), !lacks);
    EXPECT_EQ(end.loaded.state.at("step").as<int>(), 7);
    EXPECT_EQ(end.loaded.state.at("w").as<Array>(), counted({2}));
  }
};

TEST_F(StrictLoads, AreToldTheSameOnAllRanks) {
  expect_saved(stored, 2);
  for (const Strict strict : kAllModes) {
    for (const int which : {0, 1, 2, 3}) {
      const bool has_unexpected = which % 2 != 0;
      const bool lacks = which / 2 != 0;
      SCOPED_TRACE(fmt::format("{} {}", name(strict), which));
      StateDictLoadOptions options;
      options.strict = strict;
      options.checks_access = which % 2 == 0;

      const std::vector<LoadEnd> ends =
          load_on([&](std::uint32_t rank) { return request(rank, has_unexpected, lacks); }, 2, options);

      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        expect_end(ends[rank], strict, has_unexpected, lacks, has_unexpected && rank == 1);
        EXPECT_EQ(ends[rank].text, ends[0].text);
      }
    }
  }
}

TEST_F(StrictLoads, AreToldWhatOneRankAsksForAlone) {
  expect_saved(stored, 2);
  for (const Strict strict : kAllModes) {
    for (const int which : {0, 1, 2, 3}) {
      const bool has_unexpected = which % 2 != 0;
      const bool lacks = which / 2 != 0;
      SCOPED_TRACE(fmt::format("{} {}", name(strict), which));
      StateDictLoadOptions options;
      options.strict = strict;
      LoadEnd end;
      try {
        end.loaded = load_alone(request(1, has_unexpected, lacks), options);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::not_found);
        end.text = error.what();
      }
      expect_end(end, strict, has_unexpected, lacks, has_unexpected);
    }
  }
}

TEST_F(StrictLoads, OfWhatIsNotThereOrDamagedFailAlikeOnAllRanks) {
  const auto requested = [](std::uint32_t rank) { return request(rank, false, false); };
  const auto verdict = [&](const std::filesystem::path& path) {
    const std::vector<LoadEnd> ends = load_on(requested, 2, path);
    for (const LoadEnd& end : ends) {
      EXPECT_THAT(end.text, HasSubstr(ends.front().text));  // Others say which rank it was.
    }
    return ends.front().text;
  };
  EXPECT_THAT(verdict(target() / "nowhere"), AllOf(HasSubstr("not found"), HasSubstr("nowhere")));

  std::filesystem::create_directory(target());
  EXPECT_THAT(verdict(target()), HasSubstr(target().string()));
  std::filesystem::remove(target());

  expect_saved(stored, 2);
  std::filesystem::resize_file(target() / "COMMIT", 3);
  EXPECT_THAT(verdict(target()), HasSubstr("COMMIT"));
}

TEST_F(StrictLoads, NameKeysAndRanks) {
  expect_saved(stored, 2);
  StateDictLoadOptions options;
  options.strict = Strict::raise_all;

  for (const LoadEnd& end :
       load_on([](std::uint32_t rank) { return request(rank, true, true); }, 2, options)) {
    EXPECT_THAT(end.text, HasSubstr(fmt::format(
                              "Unexpected keys (not in {}): 'other' (rank 1), 'x' (rank 1). Missing keys "
                              "(stored, asked for by no rank): 'object', 'z'",
                              target().string())));
  }
}

TEST_F(StrictLoads, AreStrictAlike) {
  expect_saved(stored, 2);
  testing::JointJob job{testing::JointJob::Options(2)};
  for (const testing::RankEnd& end : job.on_all([&](std::size_t rank) {
         StateDictLoadOptions options;
         options.strict = rank == 0 ? Strict::raise_all : Strict::log_all;
         static_cast<void>(load(request(static_cast<std::uint32_t>(rank), false, false), target(), options,
                                job.context(rank)));
         return SaveResult();
       })) {
    EXPECT_THAT(end.text(),
                HasSubstr("how strict loads are (AbstractStateDict): rank 0 has 'raise_all', rank 1 "
                          "has 'log_all'"));
  }
}

TEST_F(StrictLoads, NameAnObjectThatIsNotStored) {
  expect_saved(stored, 2);
  EXPECT_THAT(
      [&] {
        static_cast<void>(load_alone({{"o", ShardedObject{"object", std::nullopt, {3}, {0}}}}));
      },
      testing::Fails(Errc::not_found, HasSubstr("'object/shard_0_3'")));
}

}  // namespace
}  // namespace cairn::megatron
