// SPDX-License-Identifier: Apache-2.0
// Leaves that are each rank's own.
#include "cairn/handlers/each_rank.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "api/fixture.hpp"
#include "core/joint_job.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JointJob;
using testing::RankEnd;

using State = std::array<std::uint32_t, 624>;

State random_state(std::uint32_t rank) {
  State state{};
  std::mt19937 engine(rank);
  std::generate(state.begin(), state.end(), std::ref(engine));
  return state;
}

class EachRank : public testing::ApiTest {
 protected:
  using TreeOfRank = std::function<Tree(RankOfJob place)>;

  void save_on(JointJob& job, const TreeOfRank& tree) const {
    for (const RankEnd& end : job.on_all([&](std::size_t rank) {
           const RankOfJob place(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(job.size()));
           return save(target(), tree(place), testing::overwriting_save(), job.context(rank));
         })) {
      ASSERT_EQ(end.text(), "committed");
      EXPECT_THAT(end.result->problems, IsEmpty());
    }
  }

  void save_random(std::uint32_t ranks) const {
    JointJob job{JointJob::Options(ranks)};
    save_on(job, [](RankOfJob place) {
      return Tree{{"random", of_each_rank(random_state(place.rank), place)}, {"step", 7}};
    });
  }
};

TEST_F(EachRank, LoadsItsOwn) {
  save_random(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    State mine{};
    Tree model = {{"random", of_each_rank(mine, {rank, 3})}, {"step", 0}};

    load_into(target(), model, LoadOptions(), *context_);

    EXPECT_EQ(mine, random_state(rank));
    EXPECT_THAT(values_of_ranks(model.at("random")), ElementsAre(Tree(mine)));
  }
}

TEST_F(EachRank, IsAskedForByIndexWhereThereAreOtherRanks) {
  save_random(3);
  AbstractTree wanted = metadata(target(), {}, *context_);
  wanted["random"] = of_rank(wanted["random"], 2);

  const Tree loaded = load(target(), wanted, LoadOptions(), *context_);

  EXPECT_THAT(values_of_ranks(loaded.at("random")), ElementsAre(Tree(random_state(2))));
  EXPECT_THAT([&] { static_cast<void>(of_rank(metadata(target(), {}, *context_).at("random"), 3)); },
              Fails(Errc::invalid_argument, HasSubstr("the value of rank 3 is wanted, and 3 ranks")));
}

TEST_F(EachRank, IsLoadedAsTheValuesOfAll) {
  save_random(3);

  const std::vector<Tree> values = values_of_ranks(load(target(), {}, *context_).at("random"));

  ASSERT_EQ(values.size(), 3u);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(values[rank], Tree(random_state(rank)));
  }
}

TEST_F(EachRank, IsRefusedWhereOtherRanksWantTheirOwn) {
  save_random(3);
  State mine{};
  Tree model = {{"random", of_each_rank(mine, {0, 4})}, {"step", 0}};

  EXPECT_THAT(
      [&] { load_into(target(), model, LoadOptions(), *context_); },
      Fails(Errc::shape_mismatch,
            AllOf(HasSubstr("'random'"), HasSubstr("saved by 3 ranks, loaded by 4"), HasSubstr("of_rank"))));
}

TEST_F(EachRank, OfOneRankIsRefusedWhereItIsAllThatIsStored) {
  save_checkpointables(target(), {{"random", of_each_rank(random_state(0), {0, 1})}}, {}, *context_);
  State mine{};
  ShardedArray own = of_each_rank(mine, {1, 2});

  EXPECT_THAT(
      [&] {
        static_cast<void>(load_checkpointables(target(), {{"random", into(own)}}, {}, *context_));
      },
      Fails(Errc::shape_mismatch, HasSubstr("saved by 1 rank, loaded by 2")));
}

/// Another thing on each rank.
Tree position_of(std::uint32_t rank) {
  if (rank == 0) {
    return "all is read";
  }
  Tree position = {{"file", "shard-" + std::string(rank, '7')}, {"offset", -5}};
  if (rank == 2) {
    position["seen"] = Tree::list({std::vector<std::int16_t>{1, 2, 3}, nullptr, true});
    position["empty"] = Tree::map();
  }
  return position;
}

TEST_F(EachRank, MayHaveTextsAndTrees) {
  JointJob job{JointJob::Options(3)};
  save_on(job, [](RankOfJob place) {
    return Tree{{"position", of_each_rank(position_of(place.rank), place)}};
  });

  const std::vector<Tree> values = values_of_ranks(load(target(), {}, *context_).at("position"));

  EXPECT_THAT(values, ElementsAre(position_of(0), position_of(1), position_of(2)));
  Tree mine = {{"position", of_each_rank(Tree(), {1, 3})}};
  load_into(target(), mine, LoadOptions(), *context_);
  EXPECT_THAT(values_of_ranks(mine.at("position")), ElementsAre(position_of(1)));
}

TEST_F(EachRank, ChangesNothingInTheIndexWhenValuesChange) {
  JointJob job{JointJob::Options(3)};
  std::string before;
  for (const int step : {1, 2}) {
    save_on(job, [&](RankOfJob place) {
      std::ostringstream text;
      text << std::mt19937(place.rank + static_cast<unsigned>(step) * 100);
      return Tree{{"engine", of_each_rank(text.str(), place)},
                  {"state", of_each_rank(random_state(step), place)}};
    });
    const std::string index = testing::read_text(target() / "state/index.fb");
    EXPECT_TRUE(before.empty() || index == before);
    before = index;
  }
}

TEST_F(EachRank, IsTheRemedyWhereRanksShareNoLeaves) {
  JointJob job{JointJob::Options(2)};
  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         const Tree tree = rank == 0 ? Tree{{"position", 1}} : Tree{{"position", "end"}};
         return save(target(), tree, {}, job.context(rank));
       })) {
    EXPECT_THAT(end.text(), AllOf(HasSubstr("the ranks do not save the same"), HasSubstr("of_each_rank")));
  }
}

TEST_F(EachRank, RefusesWhatItCannotKeep) {
  EXPECT_THAT(
      [] {
        static_cast<void>(of_each_rank(1, {3, 3}));
      },
      Fails(Errc::invalid_argument, HasSubstr("no rank 3 among 3")));
  EXPECT_THAT(
      [] {
        static_cast<void>(of_each_rank(std::string(100, 'x'), {0, 3}, 64));
      },
      Fails(Errc::invalid_argument, HasSubstr("has room for 64")));
  EXPECT_THAT(
      [] {
        static_cast<void>(of_each_rank(Tree{{"a", of_each_rank(State{}, {0, 1})}}, {0, 3}));
      },
      Fails(Errc::invalid_argument, HasSubstr("'a'")));
  EXPECT_THAT([] { static_cast<void>(values_of_ranks(Tree(7))); }, Fails(Errc::type_mismatch));
  EXPECT_THAT(
      [] {
        static_cast<void>(values_of_ranks(Array::zeros({std::uint64_t{1} << 40, 0}, DType::int8)));
      },
      Fails(Errc::shape_mismatch, HasSubstr("1099511627776 rows")));
  EXPECT_THAT([] { static_cast<void>(values_of_ranks(Array::zeros({}, DType::int8))); },
              Fails(Errc::shape_mismatch));
}

TEST_F(EachRank, RefusesBytesThatAreDamaged) {
  const Tree whole = of_each_rank(position_of(2), {0, 1}, 2048);
  const Array row = whole.as<ShardedArray>().shards()[0].data;
  std::size_t refused = 0;
  for (std::size_t at = 0; at < 1200; ++at) {
    for (const std::uint8_t flip : {std::uint8_t{1}, std::uint8_t{0x80}}) {
      Array damaged = row.clone();
      damaged.data<std::uint8_t>()[at] ^= flip;
      try {
        static_cast<void>(values_of_ranks(damaged));
      } catch (const Error& error) {
        EXPECT_EQ(error.code().category(), make_error_code(Errc::malformed_metadata).category())
            << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100u);
  for (std::size_t bytes = 16; bytes < 300; ++bytes) {
    EXPECT_THAT(
        [&] {
          static_cast<void>(values_of_ranks(row.part(Box({0, 0}, {1, bytes})).clone()));
        },
        Fails(Errc::malformed_metadata))
        << bytes;
  }
}

}  // namespace
}  // namespace cairn
