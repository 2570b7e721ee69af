// SPDX-License-Identifier: Apache-2.0
// Arrays with several names, saved and loaded by several ranks.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "cairn/sharding/shards.hpp"

#include "api/fixture.hpp"
#include "core/joint_job.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JointJob;
using testing::RankEnd;

Array numbered(const Shape& shape) {
  Array array(shape, DType::int32);
  const auto elements = array.data<std::int32_t>();
  std::iota(elements.begin(), elements.end(), 0);
  return array;
}

class AliasesOfRanks : public testing::ApiTest {
 protected:
  /// A model whose head may be its embedding: what a rank holds of both.
  using Model = std::function<Tree(std::uint32_t rank)>;

  [[nodiscard]] ShardedArray part_of(const Sharding& sharding, std::uint32_t rank) const {
    std::vector<Array> locals;
    for (const PlacedBox& placed : sharding.boxes(rank, whole_.shape())) {
      locals.push_back(whole_.part(placed.box).clone());
    }
    return shard(sharding, rank, whole_.shape(), whole_.dtype(), std::move(locals));
  }

  static Sharding rows_of(std::uint32_t ranks) {
    return Sharding::of_spec(Mesh({ranks}, {"data"}), {{"data"}});
  }

  void save_on(JointJob& job, const Model& model) const {
    SaveOptions options;
    options.overwrite = true;
    for (const RankEnd& end : job.on_all([&](std::size_t rank) {
           return save(target(), model(static_cast<std::uint32_t>(rank)), options, job.context(rank));
         })) {
      EXPECT_EQ(end.text(), "committed");
    }
    EXPECT_TRUE(verify(target(), {}, *context_).is_sound());
    EXPECT_EQ(load(target(), LoadOptions(), *context_), (Tree{{"embed", whole_}, {"head", whole_}}));
  }

  [[nodiscard]] std::vector<std::string> aliases() const {
    std::vector<std::string> names;
    const CheckpointMetadata metadata = checkpointables_metadata(target(), *context_);
    const Description description = metadata.at("state").description();
    for (const ArrayEntry& array : description.arrays) {
      if (!array.alias_of.empty()) {
        names.emplace_back(array.name);
      }
    }
    return names;
  }

  [[nodiscard]] std::uint64_t data_bytes() const {
    std::uint64_t bytes = 0;
    for (const std::string& name : testing::list_tree(target() / "state")) {
      bytes += name.ends_with(".safetensors") ? std::filesystem::file_size(target() / "state" / name) : 0;
    }
    return bytes;
  }

  /// The same memory under both names.
  [[nodiscard]] Tree tied(const Sharding& sharding, std::uint32_t rank) const {
    const ShardedArray mine = part_of(sharding, rank);
    return {{"embed", mine}, {"head", mine}};
  }

  const Array whole_ = numbered({512, 300});
};

TEST_F(AliasesOfRanks, AreSavedOnceByTheRankThatHoldsThem) {
  JointJob job{JointJob::Options(4)};

  save_on(job, [&](std::uint32_t rank) { return tied(rows_of(4), rank); });

  EXPECT_THAT(aliases(), ElementsAre("head"));
  EXPECT_LT(data_bytes(), whole_.byte_count() * 3 / 2);
}

TEST_F(AliasesOfRanks, AreSavedOnceWhereRanksHaveReplicas) {
  JointJob job{JointJob::Options(3)};

  save_on(job, [&](std::uint32_t rank) { return tied(Sharding::replicated(3), rank); });

  EXPECT_THAT(aliases(), ElementsAre("head"));
  EXPECT_LT(data_bytes(), whole_.byte_count() * 3 / 2);
}

TEST_F(AliasesOfRanks, AreRankZerosWhereNothingIsSharded) {
  JointJob job{JointJob::Options(2)};

  save_on(job, [&](std::uint32_t rank) {
    return Tree{{"embed", whole_}, {"head", rank == 0 ? whole_ : whole_.clone()}};
  });

  EXPECT_THAT(aliases(), ElementsAre("head"));
}

TEST_F(AliasesOfRanks, AreSavedOnceWhereSomeRanksHoldNothing) {
  JointJob job{JointJob::Options(5)};

  save_on(job, [&](std::uint32_t rank) {
    return rank < 3 ? tied(rows_of(3), rank)
                    : Tree{{"embed", ShardedArray(whole_.shape(), whole_.dtype())},
                           {"head", ShardedArray(whole_.shape(), whole_.dtype())}};
  });

  EXPECT_THAT(aliases(), ElementsAre("head"));
}

TEST_F(AliasesOfRanks, AreArraysOfTheirOwnWhereOneRankHasTwo) {
  JointJob job{JointJob::Options(3)};

  save_on(job, [&](std::uint32_t rank) {
    return rank == 1 ? Tree{{"embed", part_of(rows_of(3), 1)}, {"head", part_of(rows_of(3), 1)}}
                     : tied(rows_of(3), rank);
  });

  EXPECT_THAT(aliases(), IsEmpty());
}

TEST_F(AliasesOfRanks, AreArraysOfTheirOwnOnTheStagesOfAPipeline) {
  JointJob job{JointJob::Options(4)};
  const ShardedArray none(whole_.shape(), whole_.dtype());

  save_on(job, [&](std::uint32_t rank) {
    return Tree{{"embed", rank == 0 ? part_of(rows_of(1), 0) : none},
                {"head", rank == 3 ? part_of(rows_of(1), 0) : none}};
  });

  EXPECT_THAT(aliases(), IsEmpty());
}

TEST_F(AliasesOfRanks, MayComeAndGoFromSaveToSave) {
  JointJob job{JointJob::Options(3)};
  const Model of_their_own = [&](std::uint32_t rank) {
    return Tree{{"embed", part_of(rows_of(3), rank)}, {"head", part_of(rows_of(3), rank)}};
  };
  const Model with_alias = [&](std::uint32_t rank) { return tied(rows_of(3), rank); };
  for (int round = 0; round < 2; ++round) {
    save_on(job, of_their_own);
    EXPECT_THAT(aliases(), IsEmpty());
    save_on(job, with_alias);
    save_on(job, with_alias);
    EXPECT_THAT(aliases(), ElementsAre("head"));
  }
}

TEST_F(AliasesOfRanks, AreLoadedTogether) {
  JointJob saving{JointJob::Options(2)};
  save_on(saving, [&](std::uint32_t rank) { return tied(rows_of(2), rank); });
  JointJob job{JointJob::Options(3)};
  std::vector<Tree> loaded(3);
  LoadOptions options;
  options.together = true;

  for (const RankEnd& end : job.on_all([&](std::size_t rank) {
         AbstractTree wanted;
         wanted["embed"] = cairn::wanted(AbstractArray{whole_.shape(), whole_.dtype()}, rows_of(3),
                                         static_cast<std::uint32_t>(rank));
         wanted["head"] = AbstractArray{whole_.shape(), DType::float64};
         loaded[rank] = load(target(), wanted, options, job.context(rank));
         return SaveResult();
       })) {
    EXPECT_EQ(end.text(), "committed");
  }

  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(loaded[rank].at("embed").as<ShardedArray>(), part_of(rows_of(3), rank));
    EXPECT_EQ(loaded[rank].at("head").as<Array>().data<const double>().back(), 153'599.0);
  }
}

TEST_F(AliasesOfRanks, ShareMemoryInOneOfSeveralRequests) {
  save_checkpointables(target(),
                       {{"a", Tree{{"embed", whole_}, {"head", whole_}}}, {"b", Tree{{"w", whole_}}}}, {},
                       *context_);
  const Array memory(whole_.shape(), whole_.dtype());
  AbstractTree model;
  for (const char* name : {"embed", "head"}) {
    model[name] = into(memory);
  }
  AbstractTree other;
  other["w"] = AbstractArray{whole_.shape(), whole_.dtype()};

  static_cast<void>(load_checkpointables(target(), {{"a", model}, {"b", other}}, {}, *context_));

  EXPECT_EQ(memory, whole_);
  other["w"] = into(memory);
  EXPECT_THAT(
      [&] {
        static_cast<void>(load_checkpointables(target(), {{"a", model}, {"b", other}}, {}, *context_));
      },
      Fails(Errc::invalid_argument, HasSubstr("'b/w' overlap")));
}

}  // namespace
}  // namespace cairn
