// SPDX-License-Identifier: Apache-2.0
// Arrays that are stored in tiles, loaded in other layouts than they were saved in.
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>

#include <gmock/gmock.h>

#include "cairn/api/load.hpp"
#include "cairn/api/save.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/sharding/policy.hpp"

#include "api/fixture.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint32_t kReaders = 8;

class TilesTest : public testing::ApiTest {
 protected:
  TilesTest() {
    const std::span<float> values = weights_.data<float>();
    std::iota(values.begin(), values.end(), 0.0F);
  }

  void save(const SaveOptions& options) const {
    cairn::save(target(), Tree{{"weights", Array::borrow(weights_.view())}}, options, *context_);
  }
  static SaveOptions in_tiles(std::uint64_t bytes) {
    SaveOptions options;
    options.handler_options.set(ShardingOptions(std::make_shared<Tiles>(bytes)));
    options.overwrite = true;
    return options;
  }

  /// What eight programs read, of which each loads its columns, for each byte that they want.
  [[nodiscard]] double bytes_read_by_columns() const {
    const Sharding columns = Sharding::of_spec(Mesh({kReaders}, {"model"}), {{}, {"model"}});
    std::uint64_t bytes = 0;
    for (std::uint32_t rank = 0; rank < kReaders; ++rank) {
      AbstractTree wanted = metadata(target(), {}, *context_);
      wanted["weights"].shard(columns, rank);
      const LoadResponse response = load_checkpointables_async(target(), {{"state", wanted}}, {}, *context_);
      Loaded loaded = response.wait();
      const auto array = loaded.take<Tree>("state").get<ShardedArray>("weights");
      const Box box = columns.boxes(rank, weights_.shape()).at(0).box;
      EXPECT_EQ(array.shards()[0].data, weights_.part(box).clone());
      bytes += response.result().bytes;
    }
    return static_cast<double>(bytes) / static_cast<double>(weights_.byte_count());
  }

  Array weights_ = Array(Shape{1024, 8192}, DType::float32);  // 32 MiB.
};

TEST_F(TilesTest, AreReadOnlyWhereWantedColumnsLie) {
  save(in_tiles(4 * kMiB));
  EXPECT_LE(bytes_read_by_columns(), 1.26);  // A chunk at a border of each tile.

  save(in_tiles(16 * kMiB));  // Wider than what a reader wants.
  EXPECT_GE(bytes_read_by_columns(), 2.0);
}

TEST_F(TilesTest, WithoutThemAllIsReadForAFewColumns) {
  save({});

  EXPECT_GE(bytes_read_by_columns(), 7.9);
}

}  // namespace
}  // namespace cairn
