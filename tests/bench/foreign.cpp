// SPDX-License-Identifier: Apache-2.0
// Files of torch beside checkpoints of Cairn's with the same arrays. The files are made as torch makes them, when they
// are missing; peers.py beside this file reads them with torch.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"
#include "cairn/sharding/flat_range.hpp"

#include "base/internal/aligned_memory.hpp"
#include "bench/measure.hpp"
#include "bench/operations.hpp"
#include "bench/report.hpp"
#include "support/torch_files.hpp"

namespace cairn::bench {
namespace {

using testing::DcpWriter;
using testing::TorchArchiveWriter;
using testing::TorchTensor;

constexpr std::uint64_t kShards = 8;
constexpr std::size_t kStagingBytes = std::size_t{256} << 20;

ContextOptions context_for_files() {
  ContextOptions options;
  options.staging_bytes = kStagingBytes;
  return options;
}

std::string name_of(std::size_t number) {
  return fmt::format("t{:07}", number);
}

std::string_view text_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

Array used_array(const Shape& shape) {
  Array array(shape, DType::float32);
  const std::span<std::byte> bytes = array.mutable_view().bytes();
  touch(bytes.data(), bytes.size());
  return array;
}

/// Makes something unless it is there; what was begun before and not finished is made anew.
void make_once(const std::filesystem::path& path,
               const std::function<void(const std::filesystem::path&)>& make) {
  if (!std::filesystem::exists(path)) {
    const std::filesystem::path unfinished = path.string() + ".unfinished";
    std::filesystem::remove_all(unfinished);
    make(unfinished);
    std::filesystem::rename(unfinished, path);
  }
}

/// The arrays of a workload as a checkpoint of Cairn's.
void save_own(const std::filesystem::path& path, const Workload& workload, const ValuePool& pool,
              const Context& context) {
  make_once(path, [&](const std::filesystem::path& target) {
    Tree::Map arrays;
    for (std::size_t i = 0; i < workload.count; ++i) {
      Array array({workload.rows, workload.columns}, DType::float32);
      pool.fill(i, 0, array.data<float>());
      arrays.emplace(name_of(i), std::move(array));
    }
    SaveOptions shared;
    shared.snapshot = Snapshot::share;
    save(target, Tree(std::move(arrays)), shared, context);
  });
}

/// The same as an archive of torch.save.
void write_archive(const std::filesystem::path& path, const Workload& workload, const ValuePool& pool) {
  make_once(path, [&](const std::filesystem::path& target) {
    std::ofstream out(target, std::ios::binary);
    TorchArchiveWriter archive(out);
    std::vector<TorchTensor> tensors;
    for (std::size_t i = 0; i < workload.count; ++i) {
      tensors.push_back({name_of(i), DType::float32, {workload.rows, workload.columns}});
    }
    archive.add("data.pkl", testing::torch_pickle(tensors));
    archive.add("byteorder", "little");
    std::vector<float> values(workload.elements());
    for (std::size_t i = 0; i < workload.count; ++i) {
      pool.fill(i, 0, values);
      archive.add(fmt::format("data/{}", i), text_of(values));
    }
    archive.finish();
  });
}

/// The same as a distributed checkpoint of eight ranks, each array in one chunk.
void write_chunks(const std::filesystem::path& path, const Workload& workload, const ValuePool& pool) {
  make_once(path, [&](const std::filesystem::path& target) {
    DcpWriter writer(target);
    std::vector<float> values(workload.elements());
    const Shape shape{workload.rows, workload.columns};
    for (std::size_t i = 0; i < workload.count; ++i) {
      pool.fill(i, 0, values);
      writer.add(fmt::format("__{}_0.distcp", i * kShards / workload.count),
                 {name_of(i), DType::float32, shape}, Box::whole(shape), text_of(values));
    }
    writer.finish();
  });
}

/// Shard `number` of the rows of the matrix of a workload.
Box rows_of(const Workload& workload, std::uint64_t number) {
  const std::uint64_t height = workload.rows / kShards;
  return Box({number * height, 0}, {height, workload.columns});
}

/// The matrix as a distributed checkpoint, and as one of Cairn's, both in eight shards of rows.
void write_matrix(const Workload& workload, const ValuePool& pool, const Context& context) {
  const Shape shape{workload.rows, workload.columns};
  const auto values_of = [&](std::uint64_t shard) {
    Array values(rows_of(workload, shard).extents(), DType::float32);
    pool.fill(shard, 0, values.data<float>());
    return values;
  };
  make_once(workload.directory / "matrix_dcp", [&](const std::filesystem::path& target) {
    DcpWriter writer(target);
    for (std::uint64_t shard = 0; shard < kShards; ++shard) {
      const Array values = values_of(shard);
      writer.add(fmt::format("__{}_0.distcp", shard), {"w", DType::float32, shape}, rows_of(workload, shard),
                 text_of(values.data<const float>()));
    }
    writer.finish();
  });
  make_once(workload.directory / "matrix", [&](const std::filesystem::path& target) {
    std::vector<Shard> shards;
    for (std::uint64_t shard = 0; shard < kShards; ++shard) {
      shards.push_back({rows_of(workload, shard), values_of(shard)});
    }
    const Tree tree = {{"w", ShardedArray(shape, DType::float32, std::move(shards))}};
    SaveOptions shared;
    shared.snapshot = Snapshot::share;
    save(target, tree, shared, context);
  });
}

/// The seconds that a load took.
struct Taken {
  double seconds = 0;
  std::uint64_t bytes = 0;
};

Taken timed_load(const std::filesystem::path& path, const AbstractTree& wanted, const Context& context) {
  TreeLoadOptions of_tree;
  of_tree.partial = true;
  LoadOptions options;
  options.handler_options.set(of_tree);
  const Stopwatch watch;
  const LoadResponse response = load_checkpointables_async(path, {{"state", wanted}}, options, context);
  const Loaded loaded = response.wait();
  return {watch.seconds(), response.result().bytes};
}

/// Loads the same from both paths, one after the other, in turns; each cold where the cache can be emptied.
void compare(const char* operation, const Workload& workload, const std::filesystem::path& own,
             const std::filesystem::path& foreign,
             const std::function<AbstractTree(const std::filesystem::path&)>& wanted_of,
             const Context& context, std::uint64_t needed) {
  for (int round = 0; round < workload.saves; ++round) {
    nlohmann::ordered_json line = line_of(operation, workload);
    std::map<bool, Taken> taken;
    bool is_cold = true;
    const Usage usage;
    for (const int turn : {0, 1}) {
      const bool is_own = (round + turn) % 2 == 0;
      const std::filesystem::path& path = is_own ? own : foreign;
      const AbstractTree wanted = wanted_of(path);
      is_cold = drop_page_cache(workload.directory) && is_cold;
      taken[is_own] = timed_load(path, wanted, context);
    }
    line["cache"] = is_cold ? "cold" : "warm";
    line["own_s"] = taken[true].seconds;
    line["foreign_s"] = taken[false].seconds;
    line["own_over_foreign"] = taken[true].seconds / taken[false].seconds;
    line["wanted_bytes"] = needed;
    line["own_bytes"] = taken[true].bytes;
    line["foreign_bytes"] = taken[false].bytes;
    line["foreign_read_over_wanted"] = static_cast<double>(taken[false].bytes) / static_cast<double>(needed);
    add_usage(line, usage);
    print(line);
  }
}

void require_values(const Workload& workload, const ValuePool& pool, std::span<const Array> arrays) {
  for (const std::size_t i : {std::size_t{0}, arrays.size() / 2, arrays.size() - 1}) {
    if (!pool.matches(i, 0, arrays[i].data<const float>())) {
      throw std::runtime_error(
          fmt::format("array {} of '{}' has other values than were saved", i, workload.name));
    }
  }
}

}  // namespace

void run_foreign_archive(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  const Context context(context_for_files());
  const std::filesystem::path own = workload.directory / "arrays";
  const std::filesystem::path archive = workload.directory / "arrays.pt";
  save_own(own, workload, pool, context);
  write_archive(archive, workload, pool);
  std::vector<Array> memory;
  for (std::size_t i = 0; i < workload.count; ++i) {
    memory.push_back(used_array({workload.rows, workload.columns}));
  }
  const auto wanted_of = [&](const std::filesystem::path& path) {
    AbstractTree wanted = metadata(path, context);
    for (std::size_t i = 0; i < workload.count; ++i) {
      wanted[name_of(i)].as_array().place_into(memory[i]);
    }
    return wanted;
  };
  compare("foreign_archive", workload, own, archive, wanted_of, context, workload.bytes());
  static_cast<void>(timed_load(archive, wanted_of(archive), context));
  require_values(workload, pool, memory);
}

void run_foreign_distributed(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  const Context context(context_for_files());
  write_matrix(workload, pool, context);
  const Shape shape{workload.rows, workload.columns};
  const std::uint64_t bytes = workload.elements() * sizeof(float);
  const auto of_boxes = [&](const std::vector<Box>& boxes) {
    std::vector<Array> memory;
    for (const Box& box : boxes) {
      memory.push_back(used_array(box.extents()));
    }
    return [shape, boxes, memory](const std::filesystem::path&) {
      AbstractShardedArray sharded(shape, DType::float32);
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        sharded.place_into(boxes[i], memory[i]);
      }
      AbstractTree wanted;
      wanted["w"] = sharded;
      return wanted;
    };
  };
  std::vector<Box> columns;
  for (std::uint64_t i = 0; i < kShards; ++i) {
    const std::uint64_t width = workload.columns / kShards;
    columns.push_back(Box({0, i * width}, {workload.rows, width}));
  }
  Workload whole = workload;
  whole.variant = "whole";
  Workload cut = workload;
  cut.variant = "columns";
  Workload block = workload;
  block.variant = "rows";
  const std::filesystem::path own = workload.directory / "matrix";
  const std::filesystem::path foreign = workload.directory / "matrix_dcp";
  compare("foreign_distributed", whole, own, foreign, of_boxes({Box::whole(shape)}), context, bytes);
  compare("foreign_distributed", cut, own, foreign, of_boxes(columns), context, bytes);
  compare("foreign_distributed", block, own, foreign, of_boxes({rows_of(workload, 3)}), context,
          bytes / kShards);
}

void run_foreign_metadata(const Workload& workload) {
  constexpr std::size_t kChunksAnArray = 100;
  const Context context(context_for_files());
  const std::filesystem::path folder = workload.directory / fmt::format("described_{}", workload.count);
  make_once(folder, [&](const std::filesystem::path& target) {
    DcpWriter writer(target);
    for (std::size_t i = 0; i < workload.count; ++i) {
      const std::uint64_t row = i % kChunksAnArray;
      writer.describe(fmt::format("__{}_0.distcp", row),
                      {fmt::format("model.layers.{}.weight", i / kChunksAnArray),
                       DType::float32,
                       {64 * kChunksAnArray, 512}},
                      Box({64 * row, 0}, {64, 512}), i / kChunksAnArray * 132'672, 132'672);
    }
    writer.finish();
  });
  const std::uint64_t bytes = std::filesystem::file_size(folder / ".metadata");
  for (int round = 0; round < workload.saves; ++round) {
    nlohmann::ordered_json line = line_of("foreign_metadata", workload);
    const Usage usage;
    const Stopwatch watch;
    const AbstractTree described = metadata(folder, context);
    line["chunks"] = workload.count;
    line["metadata_s"] = watch.seconds();
    line["file_bytes"] = bytes;
    add_usage(line, usage);
    print(line);
  }
}

void run_foreign_chunks(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  const Context context(context_for_files());
  const std::filesystem::path own = workload.directory / "many";
  const std::filesystem::path chunks = workload.directory / "many_dcp";
  save_own(own, workload, pool, context);
  write_chunks(chunks, workload, pool);
  compare(
      "foreign_chunks", workload, own, chunks,
      [&](const std::filesystem::path& path) { return metadata(path, context); }, context, workload.bytes());
  const Tree tree = load(chunks, LoadOptions(), context);
  for (const std::size_t i : {std::size_t{0}, workload.count / 2, workload.count - 1}) {
    if (!pool.matches(i, 0, tree.at(name_of(i)).as<Array>().data<const float>())) {
      throw std::runtime_error("chunks have other values than were saved");
    }
  }
}

void run_foreign_tensors(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  const Context context(context_for_files());
  const std::filesystem::path archive = workload.directory / fmt::format("tensors_{}.pt", workload.count);
  write_archive(archive, workload, pool);
  for (int round = 0; round < workload.saves; ++round) {
    nlohmann::ordered_json line = line_of("foreign_tensors", workload);
    const Stopwatch watch;
    const AbstractTree described = metadata(archive, context);
    line["metadata_ms"] = watch.seconds() * 1e3;
    line["tensors"] = workload.count;
    print(line);
  }
}

void run_foreign_flattened(const Workload& workload) {
  constexpr std::uint64_t kPieces = 3;       // That each block was saved in,
  constexpr std::uint64_t kPiecesThere = 5;  // and is loaded in.
  const ValuePool pool(workload.pool_file);
  const Context context(context_for_files());
  const std::uint64_t block = workload.elements() / 2;
  const Shape whole{workload.rows, workload.columns};
  const std::filesystem::path folder = workload.directory / "flattened_dcp";
  make_once(folder, [&](const std::filesystem::path& target) {
    DcpWriter writer(target);
    std::vector<float> values(workload.elements());
    for (std::size_t i = 0; i < workload.count; ++i) {
      pool.fill(i, 0, values);
      for (std::uint64_t part = 0; part < 2 * kPieces; ++part) {
        const std::uint64_t begin = block * (part % kPieces) / kPieces;
        const std::uint64_t end = block * (part % kPieces + 1) / kPieces;
        writer.add(fmt::format("__{}_0.distcp", part), {name_of(i), DType::float32, {2, 1, block}},
                   Box({part / kPieces, 0, begin}, {1, 1, end - begin}),
                   text_of(std::span(values).subspan(part / kPieces * block + begin, end - begin)), whole);
      }
    }
    writer.finish();
  });
  AbstractTree wanted;
  const std::uint64_t begin = block / kPiecesThere;
  const std::uint64_t count = block / kPiecesThere;
  for (std::size_t i = 0; i < workload.count; ++i) {
    AbstractShardedArray boxes(whole, DType::float32);
    for (const FlatPiece& piece :
         boxes_of_flat_range(Box({0, 0}, {workload.rows / 2, workload.columns}), begin, begin + count)) {
      boxes.want(piece.box);
    }
    wanted[name_of(i)] = boxes;
  }
  const std::uint64_t needed = workload.count * count * sizeof(float);
  for (int round = 0; round < workload.saves; ++round) {
    nlohmann::ordered_json line = line_of("foreign_flattened", workload);
    line["cache"] = drop_page_cache(workload.directory) ? "cold" : "warm";
    const Taken taken = timed_load(folder, wanted, context);
    line["load_s"] = taken.seconds;
    line["wanted_bytes"] = needed;
    line["read_bytes"] = taken.bytes;
    line["read_over_wanted"] = static_cast<double>(taken.bytes) / static_cast<double>(needed);
    print(line);
  }
}

}  // namespace cairn::bench
