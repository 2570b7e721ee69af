// SPDX-License-Identifier: Apache-2.0
// One matrix in shards: saved as row shards by one process, loaded in others.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/cairn.hpp"
#include "cairn/sharding/policy.hpp"

#include "base/internal/aligned_memory.hpp"
#include "bench/operations.hpp"
#include "bench/report.hpp"
#include "bench/thread_ranks.hpp"

namespace cairn::bench {
namespace {

constexpr std::size_t kSavedShards = 8;
constexpr const char* kPath = "w";

/// The matrix in as many equal boxes: of rows, of columns, or itself.
std::vector<Box> boxes_of(const std::string& layout, const Workload& workload) {
  const std::uint64_t rows = workload.rows;
  const std::uint64_t columns = workload.columns;
  const bool is_rows = layout.starts_with("rows");
  if (!is_rows && !layout.starts_with("cols")) {
    if (layout != "whole") {
      throw std::invalid_argument("layout '" + layout + "' is not offered: whole, rowsN, colsN");
    }
    return {Box::whole({rows, columns})};
  }
  const std::uint64_t parts = std::stoull(layout.substr(4));
  std::vector<Box> boxes;
  for (std::uint64_t i = 0; i < parts; ++i) {
    const auto cut = [&](std::uint64_t extent, bool is_cut) {
      const std::uint64_t size = is_cut ? extent / parts : extent;
      return std::pair(is_cut ? i * size : 0, size);
    };
    const auto [top, height] = cut(rows, is_rows);
    const auto [left, width] = cut(columns, !is_rows);
    boxes.push_back(Box({top, left}, {height, width}));
  }
  return boxes;
}

/// Shard i of the rows has the values of array number i.
Array values_of(const Box& box, const ValuePool& pool, std::size_t number) {
  Array values(box.extents(), DType::float32);
  pool.fill(number, 0, values.data<float>());
  return values;
}

Tree make_matrix(const Workload& workload, const ValuePool& pool) {
  const Shape shape{workload.rows, workload.columns};
  std::vector<Shard> shards;
  for (Box& box : boxes_of(fmt::format("rows{}", kSavedShards), workload)) {
    Array values = values_of(box, pool, shards.size());
    shards.push_back({std::move(box), std::move(values)});
  }
  if (workload.layout != "whole") {
    return {{kPath, ShardedArray(shape, DType::float32, std::move(shards))}};
  }
  Array whole(shape, DType::float32);
  for (const Shard& shard : shards) {
    const auto part = whole.data<float>().subspan(shard.box.begin(0) * workload.columns);
    const auto values = shard.data.data<float>();
    std::copy(values.begin(), values.end(), part.begin());
  }
  return {{kPath, whole}};
}

/// Memory for a box that was used before.
Array used_memory(const Box& box) {
  Array memory(box.extents(), DType::float32);
  const std::span<std::byte> bytes = memory.mutable_view().bytes();
  touch(bytes.data(), bytes.size());
  return memory;
}

/// Compares the corners of a loaded box with what was saved there.
bool has_right_corners(const Box& box, const Array& loaded, const Workload& workload,
                       const std::vector<Array>& saved) {
  const std::uint64_t rows_a_shard = workload.rows / kSavedShards;
  const std::uint64_t width = box.extents()[1];
  const auto values = loaded.data<float>();
  for (const std::uint64_t row : {box.begin(0), box.end(0) - 1}) {
    for (const std::uint64_t column : {box.begin(1), box.end(1) - 1}) {
      const float found = values[(row - box.begin(0)) * width + column - box.begin(1)];
      const Array& shard = saved[row / rows_a_shard];
      if (found != shard.data<float>()[row % rows_a_shard * workload.columns + column]) {
        return false;
      }
    }
  }
  return true;
}

/// A box, and the memory that it is loaded into.
using Place = std::pair<Box, Array>;

/// Loads boxes of the matrix. Returns how many bytes were read for that.
std::uint64_t load_boxes(std::span<Place> places, const Workload& workload, const Context& context,
                         const LoadOptions& options = {}) {
  AbstractShardedArray boxes({workload.rows, workload.columns}, DType::float32);
  for (auto& [box, memory] : places) {
    boxes.place_into(box, memory);
  }
  AbstractTree wanted;
  wanted[kPath] = boxes;
  const LoadResponse response =
      load_checkpointables_async(workload.directory / "ck", {{"state", wanted}}, options, context);
  static_cast<void>(response.wait());
  return response.result().bytes;
}

ContextOptions context_for_loads() {
  ContextOptions options;
  options.staging_bytes = std::size_t{256} << 20;
  return options;
}

/// Ranks load one box each, all together.
std::uint64_t load_together(const ThreadRanks& ranks, std::span<Place> places, const Workload& workload) {
  LoadOptions together;
  together.together = true;
  return ranks.on_all([&](std::size_t rank, const Context& context) {
    return load_boxes(places.subspan(rank, 1), workload, context, together);
  });
}

/// "alone8": each box of cols8 by a load of its own, as of a rank that knows of no other. "together8": by eight ranks
/// together.
void load_as(const std::string& layout, const Workload& workload, const Context& context,
             const std::vector<Array>& saved) {
  const bool is_alone = layout.starts_with("alone");
  const bool is_together = layout.starts_with("together");
  std::vector<Place> places;
  const std::string boxes =
      is_alone || is_together ? "cols" + layout.substr(layout.find_first_of("0123456789")) : layout;
  for (const Box& box : boxes_of(boxes, workload)) {
    places.emplace_back(box, used_memory(box));
  }
  std::optional<ThreadRanks> ranks;
  if (is_together) {
    ranks.emplace(places.size());
  }
  const bool is_cold = drop_page_cache(workload.directory);
  const Usage usage;
  const Stopwatch watch;
  std::uint64_t read_bytes = 0;
  if (ranks) {
    read_bytes = load_together(*ranks, places, workload);
  } else if (is_alone) {
    for (Place& place : places) {
      read_bytes += load_boxes(std::span(&place, 1), workload, context);
    }
  } else {
    read_bytes = load_boxes(places, workload, context);
  }
  nlohmann::ordered_json line = line_of("reshard_load", workload);
  line["layout"] = layout;
  line["cache"] = is_cold ? "cold" : "perhaps warm";
  line["load_s"] = watch.seconds();
  add_usage(line, usage);
  line["read_bytes"] = read_bytes;
  const bool is_right = std::all_of(places.begin(), places.end(), [&](const Place& place) {
    return has_right_corners(place.first, place.second, workload, saved);
  });
  line["check"] = is_right ? "ok" : "wrong";
  line["engine"] = context.engine();
  print(line);
}

}  // namespace

void run_reshard_save(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  const Tree tree = make_matrix(workload, pool);
  ContextOptions options;
  options.staging_bytes = workload.bytes() + (std::size_t{64} << 20);
  options.reserve_bytes = options.staging_bytes;
  const Context context(std::move(options));
  SaveOptions how;
  if (workload.tile_mebibytes > 0) {
    how.handler_options.set(ShardingOptions(std::make_shared<Tiles>(workload.tile_mebibytes << 20)));
  }
  const Usage usage;
  const Stopwatch watch;
  const AsyncResponse saving = save_async(workload.directory / "ck", tree, how, context);
  const double blocking = watch.seconds();
  const SaveResult result = saving.wait();
  nlohmann::ordered_json line = line_of("reshard_save", workload);
  line["layout"] = workload.layout == "whole" ? "whole" : fmt::format("rows{}", kSavedShards);
  line["tile_mib"] = workload.tile_mebibytes;
  line["blocking_s"] = blocking;
  line["save_s"] = watch.seconds();
  add_usage(line, usage);
  line["files"] = disk_use(workload.directory / "ck").files;
  line["file_bytes"] = result.bytes;
  line["engine"] = result.engine;
  print(line);
}

void run_reshard_load(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  std::vector<Array> saved;
  for (const Box& box : boxes_of(fmt::format("rows{}", kSavedShards), workload)) {
    saved.push_back(values_of(box, pool, saved.size()));
  }
  const Context context(context_for_loads());
  for (const std::string& layout : {std::string("rows4"), std::string("rows16"), std::string("cols8")}) {
    if (workload.layout.empty() || workload.layout == layout) {
      load_as(layout, workload, context, saved);
    }
  }
  if (workload.layout == "whole" || workload.layout == "alone8" || workload.layout == "together8") {
    load_as(workload.layout, workload, context, saved);
  }
}

}  // namespace cairn::bench
