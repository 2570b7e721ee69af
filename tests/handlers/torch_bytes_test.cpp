// SPDX-License-Identifier: Apache-2.0
// How much of a distributed checkpoint is read for what is wanted of it.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/abstract_sharded_array.hpp"
#include "cairn/array/sharded_array.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/sharding/flat_range.hpp"

#include "core/internal/start.hpp"
#include "handlers/store.hpp"
#include "support/noise.hpp"
#include "support/torch_files.hpp"

namespace cairn {
namespace {

using testing::DcpWriter;
using testing::TorchTensor;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kItemBytes = 4;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class BytesOfDistributedCheckpoint : public testing::StoreTest {
 protected:
  Loaded read(AbstractTree wanted) {
    TreeLoadOptions tree_options;
    tree_options.partial = true;
    LoadOptions options;
    options.handler_options.set(tree_options);
    return core::start_load(folder(), {Request("state", std::move(wanted))}, handlers_, options, context_)
        .wait();
  }

  /// Writes an array of 8 MiB in eight shards of rows.
  void write_rows() {
    DcpWriter writer(folder());
    const TorchTensor whole{"w", DType::float32, {2048, 1024}};
    for (std::uint64_t shard = 0; shard < 8; ++shard) {
      const auto bytes = std::span(rows_).subspan(shard * kMiB, kMiB);
      writer.add(fmt::format("__{}_0.distcp", shard % 2), whole, Box({256 * shard, 0}, {256, 1024}),
                 text_of(bytes));
    }
    writer.finish();
  }

  void expect_rows(std::uint64_t begin, std::uint64_t count) {
    AbstractTree wanted;
    wanted["w"] = AbstractArray({2048, 1024}, DType::float32);
    wanted["w"].as_array().box = Box({begin, 0}, {count, 1024});

    Loaded loaded = read(std::move(wanted));

    const std::uint64_t needed = count * 1024 * kItemBytes;
    EXPECT_LE(loaded.result().bytes, needed + needed / 20) << begin;
    const Tree tree = loaded.take<Tree>("state");
    EXPECT_EQ(text_of(tree.at("w").as<Array>().view().bytes()),
              text_of(std::span(rows_).subspan(begin * 1024 * kItemBytes, needed)));
  }

  [[nodiscard]] std::filesystem::path folder() const { return folder_ / "dcp"; }

  const std::vector<std::byte> rows_ = testing::noise(8 * kMiB, 1);
};

TEST_F(BytesOfDistributedCheckpoint, AreThoseOfTheRowsThatAreWanted) {
  write_rows();

  expect_rows(512, 256);   // One shard.
  expect_rows(1100, 256);  // Of two.
}

TEST_F(BytesOfDistributedCheckpoint, AreThoseOfAPieceOfAFlattenedState) {
  // An array of 4 MiB in two blocks of rows, as tensor parallelism cuts it, each flattened and in three pieces.
  const std::vector<std::byte> elements = testing::noise(4 * kMiB, 2);
  const std::uint64_t block = 512 * 1024;
  const TorchTensor whole{"w", DType::float32, {2, 1, block}};
  DcpWriter writer(folder());
  const std::uint64_t cuts[] = {0, 174'000, 349'500, block};
  for (std::uint64_t row = 0; row < 2; ++row) {
    for (std::size_t piece = 0; piece < 3; ++piece) {
      const std::uint64_t begin = cuts[piece];
      const std::uint64_t count = cuts[piece + 1] - begin;
      writer.add(fmt::format("__{}_0.distcp", row * 3 + piece), whole, Box({row, 0, begin}, {1, 1, count}),
                 text_of(std::span(elements).subspan((row * block + begin) * kItemBytes, count * kItemBytes)),
                 {1024, 1024});
    }
  }
  writer.finish();
  // The piece of one of five ranks, of the second block.
  const std::uint64_t begin = block / 5 * 2 + 77;
  const std::uint64_t count = block / 5;
  AbstractShardedArray boxes({1024, 1024}, DType::float32);
  const std::vector<FlatPiece> pieces = boxes_of_flat_range(Box({512, 0}, {512, 1024}), begin, begin + count);
  for (const FlatPiece& piece : pieces) {
    boxes.want(piece.box);
  }
  AbstractTree wanted;
  wanted["w"] = std::move(boxes);

  Loaded loaded = read(std::move(wanted));

  EXPECT_LE(loaded.result().bytes, count * kItemBytes * 11 / 10);
  const Tree tree = loaded.take<Tree>("state");
  const auto shards = tree.at("w").as<ShardedArray>().shards();
  ASSERT_EQ(shards.size(), pieces.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto bytes = shards[i].data.view().bytes();
    EXPECT_EQ(text_of(bytes), text_of(std::span(elements).subspan(
                                  (block + begin + pieces[i].first) * kItemBytes, bytes.size())));
  }
}

TEST_F(BytesOfDistributedCheckpoint, AreThoseOfItsFilesWhereChunksAreSmall) {
  constexpr std::uint64_t kChunk = 64 << 10;
  constexpr std::uint64_t kChunks = 300;
  const std::vector<std::byte> elements = testing::noise(kChunks * kChunk, 3);
  DcpWriter writer(folder());
  for (std::uint64_t i = 0; i < kChunks; ++i) {
    writer.add("__0_0.distcp", {fmt::format("w{:03}", i), DType::float32, {128, 128}},
               Box({0, 0}, {128, 128}), text_of(std::span(elements).subspan(i * kChunk, kChunk)));
  }
  writer.finish();

  Loaded loaded = core::start_load(folder(), {"state"}, handlers_, LoadOptions(), context_).wait();

  EXPECT_LE(loaded.result().bytes, std::filesystem::file_size(folder() / "__0_0.distcp") +
                                       std::filesystem::file_size(folder() / ".metadata"));
  const Tree tree = loaded.take<Tree>("state");
  for (std::uint64_t i = 0; i < kChunks; ++i) {
    EXPECT_EQ(text_of(tree.at(fmt::format("w{:03}", i)).as<Array>().view().bytes()),
              text_of(std::span(elements).subspan(i * kChunk, kChunk)));
  }
}

}  // namespace
}  // namespace cairn
