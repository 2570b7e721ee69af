// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/sharding/shards.hpp"

#include "api/fixture.hpp"
#include "core/joint_job.hpp"

namespace cairn::testing {

/// An array whose elements are their numbers.
inline Array counted(const Shape& shape) {
  Array array(shape, DType::int32);
  const auto elements = array.data<std::int32_t>();
  std::iota(elements.begin(), elements.end(), 0);
  return array;
}

inline Array filled(const Shape& shape, std::int32_t value) {
  Array array(shape, DType::int32);
  std::ranges::fill(array.data<std::int32_t>(), value);
  return array;
}

/// Returns what a rank holds of an array.
inline ShardedArray part_of(const Array& whole, const Sharding& sharding, std::uint32_t rank) {
  std::vector<Array> locals;
  for (const PlacedBox& placed : sharding.boxes(rank, whole.shape())) {
    locals.push_back(whole.part(placed.box).clone());
  }
  return shard(sharding, rank, whole.shape(), whole.dtype(), std::move(locals));
}

inline Sharding rows_of(std::uint32_t ranks) {
  return Sharding::of_spec(Mesh({ranks}, {"data"}), {{"data"}});
}

class TreesOfRanks : public ApiTest {
 protected:
  using TreeOfRank = std::function<Tree(std::uint32_t rank)>;

  std::vector<RankEnd> save_on(JointJob& job, const TreeOfRank& tree, const SaveOptions& options = {}) const {
    return job.on_all([&](std::size_t rank) {
      return save(target(), tree(static_cast<std::uint32_t>(rank)), options, job.context(rank));
    });
  }

  void expect_saved(const TreeOfRank& tree, std::size_t ranks = 4, const SaveOptions& options = {}) const {
    JointJob job{JointJob::Options(ranks)};
    for (const RankEnd& end : save_on(job, tree, options)) {
      EXPECT_EQ(end.text(), "committed");
    }
    EXPECT_TRUE(verify(target(), {}, *context_).is_sound());
  }

  /// Expects that all ranks are told why, and that nothing stays.
  void expect_refused(const TreeOfRank& tree, const ::testing::Matcher<std::string>& why,
                      std::size_t ranks = 4) const {
    JointJob job{JointJob::Options(ranks)};
    for (const RankEnd& end : save_on(job, tree)) {
      EXPECT_THAT(end.text(), why);
      const std::string text = end.text();
      EXPECT_EQ(text.find("'state'"), text.rfind("'state'")) << "named once: " << text;
      EXPECT_TRUE(text.find("peer failed") == std::string::npos || text.starts_with("save of ")) << text;
    }
    EXPECT_THAT(left(), ::testing::IsEmpty());
  }

  /// Says what no rank alone has done wrong: blames neither the handler nor the rank that has found it.
  static auto of_all() {
    return ::testing::AllOf(::testing::StartsWith("save of "),
                            ::testing::Not(::testing::HasSubstr("handler ")),
                            ::testing::Not(::testing::HasSubstr("rank 0: ")),
                            ::testing::Not(::testing::HasSubstr("peer failed")));
  }

  [[nodiscard]] Tree load_whole() const { return load(target(), {}, *context_); }

  [[nodiscard]] std::vector<std::string> data_files() const {
    std::vector<std::string> names;
    for (const std::string& name : list_tree(target() / "state")) {
      if (name.ends_with(".safetensors")) {
        names.push_back(name);
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  [[nodiscard]] std::uint64_t data_bytes() const {
    std::uint64_t bytes = 0;
    for (const std::string& name : data_files()) {
      bytes += std::filesystem::file_size(target() / "state" / name);
    }
    return bytes;
  }

  [[nodiscard]] std::uint64_t data_bytes_of(std::size_t rank) const {
    std::uint64_t bytes = 0;
    for (const std::string& name : data_files()) {
      const bool is_of_rank = name.starts_with(fmt::format("data-r{:05}-", rank));
      bytes += is_of_rank ? std::filesystem::file_size(target() / "state" / name) : 0;
    }
    return bytes;
  }

  /// Expects that each of four ranks wrote about a fourth of so many bytes of elements.
  void expect_shared_out(std::uint64_t bytes) const {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      EXPECT_NEAR(static_cast<double>(data_bytes_of(rank)), static_cast<double>(bytes / 4),
                  static_cast<double>(bytes / 80 + (12 << 10)))
          << rank;
    }
  }

  const Array whole_ = counted({13, 10});
  const Array bias_ = counted({5});
};

}  // namespace cairn::testing
