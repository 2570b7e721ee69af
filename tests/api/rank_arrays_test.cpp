// SPDX-License-Identifier: Apache-2.0
// A handler as a user writes one whose arrays are divided among ranks: public headers only.
#include "cairn/handlers/rank_arrays.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/contract/handler.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "api/trees_of_ranks.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::counted;
using ::testing::ElementsAre;
using testing::filled;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JointJob;
using testing::part_of;
using testing::RankEnd;
using testing::rows_of;

/// What a rank has of arrays, by key.
struct Parts {
  std::map<std::string, ShardedArray> arrays;
  std::map<std::string, Array> whole;
  std::vector<std::uint32_t> group;
  std::size_t most_files = 16;
};

class PartsHandler final : public CheckpointableHandler<Parts> {
 public:
  std::string_view id() const noexcept override { return "test.parts/1"; }
  Participation participation() const noexcept override { return Participation::all; }

  // outlives: copied before the first suspension; copies of arrays share their elements.
  Awaitable<Background<>> save(SaveContext context, const Parts& parts) const override {
    RankArrayOptions options;
    options.paths = RankPaths::joined;
    options.is_covered_by_main = true;
    options.replicas = ReplicaChoice::balanced;
    options.group = parts.group;
    options.most_files = parts.most_files;
    RankArrays arrays(std::move(context), std::move(options));
    for (const auto& [key, array] : parts.arrays) {
      arrays.add(key, array);
    }
    for (const auto& [key, array] : parts.whole) {
      arrays.add(key, array);
    }
    return std::move(arrays).write();
  }

  Awaitable<Background<Parts>> load(LoadContext, std::optional<Parts>) const override { co_return none(); }
  Awaitable<Parts> metadata(LoadContext) const override { co_return Parts(); }

 private:
  static Background<Parts> none() { co_return Parts(); }
};

/// Reads what the handler has written as a tree.
class PartsAsTree final : public CheckpointableHandler<Tree, AbstractTree> {
 public:
  std::string_view id() const noexcept override { return "test.parts/1"; }
  Awaitable<Background<>> save(SaveContext context, const Tree& tree) const override {
    return trees_.save(std::move(context), tree);
  }
  Awaitable<Background<Tree>> load(LoadContext context, std::optional<AbstractTree> wanted) const override {
    return trees_.load(std::move(context), std::move(wanted));
  }
  Awaitable<AbstractTree> metadata(LoadContext context) const override {
    return trees_.metadata(std::move(context));
  }

 private:
  TreeHandler trees_;
};

class RankArraysOfAHandler : public testing::TreesOfRanks {
 protected:
  using PartsOfRank = std::function<Parts(std::uint32_t rank)>;

  std::vector<RankEnd> save_parts(JointJob& job, const PartsOfRank& parts) const {
    SaveOptions options = testing::overwriting_save();
    options.registry.add<PartsHandler>();
    return job.on_all([&](std::size_t rank) {
      const Parts mine = parts(static_cast<std::uint32_t>(rank));
      return save_checkpointables(target(), {{"state", mine}}, options, job.context(rank));
    });
  }

  void expect_parts(const PartsOfRank& parts, std::size_t ranks) const {
    JointJob job{JointJob::Options(ranks)};
    for (const RankEnd& end : save_parts(job, parts)) {
      EXPECT_EQ(end.text(), "committed");
    }
    EXPECT_TRUE(verify(target(), {}, *context_).is_sound());
  }

  void expect_no_parts(const PartsOfRank& parts, const ::testing::Matcher<std::string>& why,
                       std::size_t ranks) const {
    JointJob job{JointJob::Options(ranks)};
    for (const RankEnd& end : save_parts(job, parts)) {
      EXPECT_THAT(end.text(), why);
    }
    EXPECT_THAT(left(), IsEmpty());
  }

  [[nodiscard]] Tree load_parts() const {
    LoadOptions options;
    options.registry.add<PartsAsTree>();
    return load_checkpointables(target(), {}, options, *context_).take<Tree>("state");
  }

  /// A box of `whole_` as a replica of that number.
  [[nodiscard]] ShardedArray box_of(const Box& box, std::uint32_t replica) const {
    return {whole_.shape(), whole_.dtype(), {{box, whole_.part(box).clone(), replica}}};
  }

  const Box upper_ = Box({0, 0}, {6, 10});
  const Box lower_ = Box({6, 0}, {7, 10});
};

TEST_F(RankArraysOfAHandler, HaveTheKeysOfAllRanks) {
  expect_parts(
      [&](std::uint32_t rank) {
        Parts parts;
        parts.arrays[rank == 0 ? "first" : "second"] = part_of(whole_, rows_of(1), 0);
        return parts;
      },
      2);

  EXPECT_EQ(load_parts(), (Tree{{"first", whole_}, {"second", whole_}}));
  EXPECT_THAT(data_files(), ElementsAre("data-r00000-000.safetensors", "data-r00001-000.safetensors"));
}

TEST_F(RankArraysOfAHandler, MayBeWholeAndAreWrittenByTheLowestRankThatHasThem) {
  expect_parts(
      [&](std::uint32_t rank) {
        Parts parts;
        if (rank > 0) {
          parts.whole["bias"] = filled({3}, static_cast<std::int32_t>(rank));
        }
        parts.arrays["w"] = part_of(whole_, rows_of(3), rank);
        return parts;
      },
      3);

  EXPECT_EQ(load_parts(), (Tree{{"bias", filled({3}, 1)}, {"w", whole_}}));
}

TEST_F(RankArraysOfAHandler, AreSavedByOneProcess) {
  SaveOptions options;
  options.registry.add<PartsHandler>();
  Parts parts;
  parts.arrays["w"] =
      ShardedArray(whole_.shape(), whole_.dtype(),
                   {{upper_, whole_.part(upper_).clone()}, {lower_, whole_.part(lower_).clone()}});
  parts.whole["bias"] = bias_;
  save_checkpointables(target(), {{"state", parts}}, options, *context_);

  EXPECT_EQ(load_parts(), (Tree{{"bias", bias_}, {"w", whole_}}));
}

TEST_F(RankArraysOfAHandler, PutTheirBoxesIntoAsManyFilesAsAskedFor) {
  Parts parts;
  parts.arrays["w"] =
      ShardedArray(whole_.shape(), whole_.dtype(),
                   {{upper_, whole_.part(upper_).clone()}, {lower_, whole_.part(lower_).clone()}});
  SaveOptions options = testing::overwriting_save();
  options.registry.add<PartsHandler>();
  for (const std::size_t most : {1U, 2U}) {
    parts.most_files = most;
    const SaveResult result = save_checkpointables(target(), {{"state", parts}}, options, *context_);

    EXPECT_EQ(data_files().size(), most);
    EXPECT_EQ(result.problems.size(), 0u);  // A file of two boxes was asked for.
    EXPECT_EQ(load_parts(), (Tree{{"w", whole_}}));
  }
}

TEST_F(RankArraysOfAHandler, MayHaveCopiesThatAreCutOtherwise) {
  expect_parts(
      [&](std::uint32_t rank) {
        Parts parts;
        const Box box = rank == 0 ? upper_ : rank == 1 ? lower_ : Box({0, 0}, {9, 10});
        parts.arrays["w"] = box_of(box, rank < 2 ? 0 : 1);
        return parts;
      },
      4);

  EXPECT_EQ(load_parts(), (Tree{{"w", whole_}}));
  EXPECT_THAT(data_files(), ElementsAre("data-r00000-000.safetensors", "data-r00001-000.safetensors"));
}

TEST_F(RankArraysOfAHandler, NameWhatNoRankHoldsAsMainReplica) {
  expect_no_parts(
      [&](std::uint32_t rank) {
        Parts parts;
        parts.arrays["w"] = rank == 0 ? box_of(upper_, 0) : box_of(lower_, rank);
        return parts;
      },
      AllOf(HasSubstr(
                "'w': no rank holds box [6:13, 0:10] of [13, 10] as main replica; ranks 1 and 2 hold it as "
                "another"),
            of_all()),
      3);
  expect_no_parts(
      [&](std::uint32_t) {
        Parts parts;
        parts.arrays["w"] = part_of(whole_, rows_of(1), 0);
        return parts;
      },
      AllOf(HasSubstr("'w': ranks 0 and 1 both hold box [0:13, 0:10] as main replica"), of_all()), 2);
}

TEST_F(RankArraysOfAHandler, AreWrittenInTheGroupOfTheirMainReplica) {
  const auto parts_of = [&](std::uint32_t rank) {
    Parts parts;
    for (const char* key : {"a", "b"}) {
      parts.arrays[key] = box_of(Box::whole(whole_.shape()), rank == 1 ? 0 : 7);
    }
    parts.group = rank % 2 == 0 ? std::vector<std::uint32_t>{0, 2} : std::vector<std::uint32_t>{3, 1};
    return parts;
  };
  expect_parts(parts_of, 4);

  EXPECT_EQ(load_parts(), (Tree{{"a", whole_}, {"b", whole_}}));
  EXPECT_THAT(data_files(), ElementsAre("data-r00001-000.safetensors", "data-r00003-000.safetensors"));
}

TEST_F(RankArraysOfAHandler, NameGroupsThatContradictEachOther) {
  const auto parts_of = [&](std::uint32_t rank) {
    Parts parts;
    parts.arrays["w"] = box_of(Box::whole(whole_.shape()), rank);
    parts.group = {rank == 2 ? 2U : 0U, rank == 2 ? 2U : 1U, rank};
    return parts;
  };
  expect_parts(parts_of, 3);
  std::filesystem::remove_all(target());

  expect_no_parts(
      [&](std::uint32_t rank) {
        Parts parts = parts_of(rank);
        if (rank == 1) {
          parts.group = {1};
        }
        return parts;
      },
      AllOf(HasSubstr("groups of ranks contradict each other: the group that rank 0 names"), of_all()), 3);
  expect_no_parts(
      [&](std::uint32_t rank) {
        Parts parts = parts_of(rank);
        if (rank == 2) {
          parts.group = {1};
        }
        return parts;
      },
      HasSubstr("rank 2 says that its group is rank 1"), 3);
}

}  // namespace
}  // namespace cairn
