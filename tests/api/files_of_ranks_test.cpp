// SPDX-License-Identifier: Apache-2.0
// The data files that several ranks write, as programs see them that know nothing of Cairn's index: torch's reader,
// say.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"

#include "api/trees_of_ranks.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using testing::JointJob;
using testing::part_of;
using testing::RankEnd;

/// An array of 1 to 3 dimensions whose elements are their numbers.
Array some_array(std::mt19937& random) {
  std::vector<std::uint64_t> extents(1 + random() % 3);
  for (std::uint64_t& extent : extents) {
    extent = 1 + random() % 7;
  }
  Array array(Shape(extents), DType::int32);
  const auto elements = array.data<std::int32_t>();
  std::iota(elements.begin(), elements.end(), 0);
  return array;
}

Sharding some_sharding(std::mt19937& random, std::uint32_t ranks, std::size_t dimensions) {
  if (random() % 2 == 0) {
    return Sharding::replicated(ranks);
  }
  std::vector<std::vector<std::string>> spec(dimensions);
  spec[random() % dimensions].emplace_back("data");
  return Sharding::of_spec(Mesh({ranks}, {"data"}), spec);
}

class FilesOfRanks : public testing::ApiTest {
 protected:
  /// Saves the arrays, each divided by the sharding of its number, on that many ranks. Whether one of them has told
  /// of marked files.
  bool save_on(std::uint32_t ranks, const Tree& wholes, const std::vector<Sharding>& shardings,
               const SaveOptions& options) {
    JointJob job{JointJob::Options(ranks)};
    bool is_marked = false;
    for (const RankEnd& end : job.on_all([&](std::size_t rank) {
           Tree tree;
           for (std::size_t i = 0; i < shardings.size(); ++i) {
             const std::string name = "a" + std::to_string(i);
             tree[name] =
                 part_of(wholes.at(name).as<Array>(), shardings[i], static_cast<std::uint32_t>(rank));
           }
           return save(target(), tree, options, job.context(rank));
         })) {
      end.rethrow();
      for (const std::string& problem : end.result->problems) {
        is_marked |= problem.find("torch refuses") != std::string::npos;
      }
    }
    return is_marked;
  }

  /// A copy of the data files, without the index.
  [[nodiscard]] std::filesystem::path alone() const {
    const std::filesystem::path folder = directory_ / "alone";
    std::filesystem::remove_all(folder);
    std::filesystem::copy(target() / "state", folder);
    std::filesystem::remove(folder / "index.fb");
    return folder;
  }
};

TEST_F(FilesOfRanks, AreReadWholeByOthersOrRefused) {
  std::mt19937 random(29);
  int refused = 0;
  for (std::uint32_t round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const auto ranks = static_cast<std::uint32_t>(2 + random() % 4);
    Tree wholes;
    std::vector<Sharding> shardings;
    for (int array = 0; array < 4; ++array) {
      const Array whole = some_array(random);
      shardings.push_back(some_sharding(random, ranks, whole.shape().size()));
      wholes["a" + std::to_string(array)] = whole;
    }
    const std::uint64_t bytes = 40 + random() % 200;
    std::shared_ptr<const ShardingPolicy> policy;
    if (round % 4 == 1) {
      policy = std::make_shared<MaxFileSize>(bytes);
    } else if (round % 4 == 2) {
      policy = std::make_shared<MaxShardSize>(bytes);
    } else if (round % 4 == 3) {
      policy = std::make_shared<Tiles>(bytes);
    }
    SaveOptions options = testing::overwriting_save();
    options.handler_options.set(ShardingOptions(policy));

    const bool is_marked = save_on(ranks, wholes, shardings, options);

    if (!is_marked) {
      EXPECT_EQ(load(alone(), {}, *context_), wholes);
      continue;
    }
    ++refused;
    EXPECT_GE(round % 4, 2u) << "what Cairn divides itself, and MaxFileSize, mark nothing";
    EXPECT_THAT([&] { static_cast<void>(load(alone(), {}, *context_)); },
                Fails(Errc::malformed_metadata, HasSubstr("is missing from DCP_SHARDING_INFO")));
  }
  EXPECT_GT(refused, 5);
}

}  // namespace
}  // namespace cairn
