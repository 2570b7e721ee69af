// SPDX-License-Identifier: Apache-2.0
// Several ranks save one matrix together, each its rows, or load it, each its columns (--together) or all (--copies):
//   mpirun -n 4 build/release/cairn_rank_bench --dir D
// With --dict they save matrices as a state dict in Megatron-Core's words: divided among them, or copies that all have.
// Prints a JSON object a line, rank 0 for all. Seconds are those of the slowest rank, cpu_s those of all processors.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <mpi.h>

#include "cairn/cairn.hpp"
#include "cairn/megatron/dist_checkpointing.hpp"
#include "cairn/mpi/transport.hpp"
#include "cairn/sharding/shards.hpp"

#include "bench/counting_transport.hpp"
#include "bench/measure.hpp"

namespace cairn::bench {
namespace {

constexpr std::uint64_t kColumns = 4096;

struct Settings {
  std::filesystem::path directory;
  std::uint64_t mebibytes = 1024;  ///< Of all ranks together.
  int rounds = 5;
  bool reduces = false;      ///< Measure a loop of MPI_Allreduce beside the saves, too.
  bool has_columns = false;  ///< Instead of saves measure loads of a column shard each.
  bool has_copies = false;   ///< Likewise of the whole matrix by each.
  bool is_alone = false;     ///< Each rank loads by itself, not together with the others.
  bool is_warm = false;      ///< What is loaded is in the page cache.
  std::string dict;          ///< "sharded" or "replicated": save a state dict; empty: a tree.
  std::size_t objects = 0;   ///< Of each rank, in the state dict; they change with every save.

  [[nodiscard]] bool loads() const { return has_columns || has_copies; }
};

int rank_of_this() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int count_of_ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

/// What all ranks have, as one.
double reduced(double mine, MPI_Op operation) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, operation, MPI_COMM_WORLD);
  return all;
}

/// The most of any rank.
double most(double mine) {
  return reduced(mine, MPI_MAX);
}

std::uint64_t rows_of(const Settings& settings) {
  return (settings.mebibytes << 20) / sizeof(float) / kColumns;
}

ShardedArray rows_of_this(const Settings& settings) {
  const auto rank = static_cast<std::uint32_t>(rank_of_this());
  const auto ranks = static_cast<std::uint32_t>(count_of_ranks());
  const Sharding sharding = Sharding::of_spec(Mesh({ranks}, {"data"}), {{"data"}});
  const Shape shape{rows_of(settings), kColumns};
  std::vector<Array> locals;
  for (const PlacedBox& placed : sharding.boxes(rank, shape)) {
    Array local(placed.box.extents(), DType::float32);
    const auto values = local.data<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 8191 + rank);
    }
    locals.push_back(std::move(local));
  }
  return shard(sharding, rank, shape, DType::float32, std::move(locals));
}

/// 16 matrices as a state dict; with as many bytes in all, divided among the ranks or each on all of them.
megatron::StateDict dict_of_this(const Settings& settings) {
  constexpr std::uint64_t kMatrices = 16;
  const auto rank = static_cast<std::uint32_t>(rank_of_this());
  const auto ranks = static_cast<std::uint32_t>(count_of_ranks());
  const bool is_replicated = settings.dict == "replicated";
  const std::uint64_t rows = rows_of(settings) / kMatrices / (is_replicated ? 1 : ranks);
  megatron::StateDict dict;
  for (std::uint64_t i = 0; i < kMatrices; ++i) {
    Array local({rows, kColumns}, DType::float32);
    const auto values = local.data<float>();
    std::fill(values.begin(), values.end(), static_cast<float>(i + (is_replicated ? 0 : rank)));
    const std::string key = fmt::format("w{}", i);
    dict[key] = is_replicated
                    ? megatron::ShardedTensor::from_rank_offsets(key, std::move(local), {}, {rank})
                    : megatron::ShardedTensor::from_rank_offsets(key, std::move(local), {{0, rank, ranks}});
  }
  return dict;
}

/// Texts of 4 to 6 KiB, which are others in each round.
void put_objects(megatron::StateDict& dict, const Settings& settings, int round) {
  const auto rank = static_cast<std::uint32_t>(rank_of_this());
  const auto ranks = static_cast<std::uint32_t>(count_of_ranks());
  for (std::size_t i = 0; i < settings.objects; ++i) {
    const std::size_t size = 4096 + (static_cast<std::size_t>(round) * 977 + i * 131 + rank) % 2048;
    dict[fmt::format("object{}", i)] = megatron::ShardedObject{
        fmt::format("object{}", i), std::string(size, static_cast<char>('a' + round % 26)), {ranks}, {rank}};
  }
}

/// How this rank saves what it has.
using Saving = std::function<AsyncResponse(const std::filesystem::path& path, int round)>;

Saving saving_of_this(const Settings& settings, const Context& context) {
  if (settings.dict.empty()) {
    return [state = Tree{{"w", rows_of_this(settings)}}, &context](const std::filesystem::path& path, int) {
      return save_async(path, state, {}, context);
    };
  }
  return [dict = dict_of_this(settings), &settings, &context](const std::filesystem::path& path,
                                                              int round) mutable {
    put_objects(dict, settings, round);
    megatron::StateDictSaveOptions options;
    options.strategy = std::make_shared<megatron::FullyParallelSave>();
    return megatron::save_async(dict, path, options, context);
  };
}

/// Loops over one Allreduce until `is_over` says so on every rank; seconds of one.
double reduce_until(std::vector<float>& gradients, const std::function<bool()>& is_over) {
  std::vector<float> sums(gradients.size());
  const Stopwatch watch;
  int loops = 0;
  for (int all_over = 0; all_over == 0; ++loops) {
    MPI_Allreduce(gradients.data(), sums.data(), static_cast<int>(gradients.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    const int over = is_over() ? 1 : 0;
    MPI_Allreduce(&over, &all_over, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  }
  return watch.seconds() / loops;
}

/// Of all ranks.
std::uint64_t sum_of(std::uint64_t mine) {
  std::uint64_t all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

/// What the last rank, a leaf of the tree of messages, has.
std::uint64_t at_leaf(std::uint64_t mine) {
  MPI_Bcast(&mine, 1, MPI_UINT64_T, count_of_ranks() - 1, MPI_COMM_WORLD);
  return mine;
}

void save_once(const Settings& settings, const Saving& save_this, const Context& context,
               const CountingTransport::Count& sent_bytes, int round) {
  const std::filesystem::path path = settings.directory / fmt::format("ck{}", round);
  std::vector<float> gradients(std::size_t{1} << 18, 1.0F);
  double alone = 0;
  if (settings.reduces) {
    const Stopwatch watch;
    alone = reduce_until(gradients, [&] { return watch.seconds() > 1; });
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const std::uint64_t sent_before = *sent_bytes;
  const Stopwatch watch;
  const AsyncResponse saving = save_this(path, round);
  const double blocking = watch.seconds();
  const double beside = settings.reduces ? reduce_until(gradients, [&] { return saving.is_done(); }) : 0;
  const SaveResult result = saving.wait();
  const double whole = watch.seconds();
  const double most_blocking = most(blocking);
  const double most_whole = most(whole);
  const std::uint64_t leaf_sent = at_leaf(*sent_bytes - sent_before);
  if (rank_of_this() == 0) {
    std::string line = fmt::format(
        R"({{"op":"rank_save","form":"{}","ranks":{},"mebibytes":{},"round":{},"blocking_s":{},"save_s":{})",
        settings.dict.empty() ? "tree" : settings.dict + " dict", count_of_ranks(), settings.mebibytes, round,
        most_blocking, most_whole);
    if (settings.reduces) {
      line += fmt::format(R"(,"allreduce_s":{},"allreduce_beside_s":{})", alone, beside);
    }
    line += fmt::format(R"(,"bytes":{},"files":{},"leaf_sent_bytes":{}}})", result.bytes, result.files,
                        leaf_sent);
    std::puts(line.c_str());
    std::fflush(stdout);
    remove_checkpoint(path, {}, context);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Has the page cache hold all of a checkpoint, or nothing of it.
void prepare_cache(const Settings& settings, const std::filesystem::path& path) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_of_this() == 0) {
    static_cast<void>(drop_page_cache(path));
    std::vector<char> buffer(std::size_t{1} << 20);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      std::ifstream file(entry.path(), std::ios::binary);
      while (settings.is_warm && entry.is_regular_file() &&
             file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
      }
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Each rank loads its columns of what was saved in rows, or all of it; together they read each byte once.
void load_once(const Settings& settings, const Context& context, const CountingTransport::Count& sent_bytes,
               int round) {
  const auto ranks = static_cast<std::uint32_t>(count_of_ranks());
  AbstractTree wanted;
  wanted["w"] = AbstractArray({rows_of(settings), kColumns}, DType::float32);
  if (settings.has_columns) {
    const Sharding columns = Sharding::of_spec(Mesh({ranks}, {"model"}), {{}, {"model"}});
    wanted["w"].shard(columns, static_cast<std::uint32_t>(rank_of_this()));
  }
  LoadOptions options;
  options.together = !settings.is_alone;
  prepare_cache(settings, settings.directory / "ck");
  const std::uint64_t sent_before = *sent_bytes;
  const Usage usage;
  const Stopwatch watch;
  const LoadResponse response =
      load_checkpointables_async(settings.directory / "ck", {{"state", wanted}}, options, context);
  const Loaded loaded = response.wait();
  const double seconds = watch.seconds();
  const double cpu_seconds = reduced(usage.process_seconds(), MPI_SUM);
  const double most_seconds = most(seconds);
  const std::uint64_t read_bytes = sum_of(loaded.result().bytes);
  const std::uint64_t fallbacks = sum_of(loaded.result().fallbacks.size());
  const std::uint64_t all_sent_bytes = sum_of(*sent_bytes - sent_before);
  if (rank_of_this() == 0) {
    const auto wanted_bytes =
        static_cast<double>(settings.mebibytes << 20) * (settings.has_copies ? ranks : 1);
    std::puts(
        fmt::format(
            R"({{"op":"rank_load_{}","form":"{}","warm":{},"ranks":{},"mebibytes":{},"round":{},"load_s":{:.4f},"cpu_s":{:.3f},"cpu_s_per_gib":{:.3f},"read_per_wanted":{},"sent_bytes":{},"fallbacks":{}}})",
            settings.is_alone ? "alone" : "together", settings.has_copies ? "copies" : "columns",
            settings.is_warm, ranks, settings.mebibytes, round, most_seconds, cpu_seconds,
            cpu_seconds / wanted_bytes * static_cast<double>(1U << 30),
            static_cast<double>(read_bytes) / wanted_bytes, all_sent_bytes, fallbacks)
            .c_str());
    std::fflush(stdout);
  }
}

void run(const Settings& settings) {
  const auto sent_bytes = std::make_shared<std::atomic<std::uint64_t>>(0);
  ContextOptions options;
  options.coordinator =
      std::make_shared<coord::Coordinator>(std::make_unique<CountingTransport>(mpi_transport(), sent_bytes));
  options.staging_bytes =
      (settings.mebibytes << 20) / static_cast<std::uint64_t>(count_of_ranks()) + (64U << 20);
  options.reserve_bytes = options.staging_bytes;
  const Context context(std::move(options));
  const Saving save_this = saving_of_this(settings, context);
  if (settings.loads()) {
    save_this(settings.directory / "ck", 0).wait();
  }
  for (int round = 0; round < settings.rounds; ++round) {
    if (settings.loads()) {
      load_once(settings, context, sent_bytes, round);
    } else {
      save_once(settings, save_this, context, sent_bytes, round);
    }
  }
  if (settings.loads() && rank_of_this() == 0) {
    remove_checkpoint(settings.directory / "ck", {}, context);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace cairn::bench

int main(int count, char** arguments) {
  using cairn::bench::Settings;

  int provided = 0;
  MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &provided);
  Settings settings;
  CLI::App app("Measures saves of several ranks; prints a JSON object a line.");
  app.add_option("--dir", settings.directory, "where checkpoints go")->required();
  app.add_option("--mib", settings.mebibytes, "MiB of the matrix, of all ranks together")
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", settings.rounds)->check(CLI::PositiveNumber);
  app.add_flag("--allreduce", settings.reduces, "a loop of MPI_Allreduce beside the saves");
  CLI::Option* const columns = app.add_flag("--together", settings.has_columns,
                                            "instead of saves, loads of a column shard each, together");
  app.add_option("--dict", settings.dict, "save a state dict: sharded or replicated")
      ->check(CLI::IsMember({"sharded", "replicated"}))
      ->excludes(columns);
  app.add_option("--objects", settings.objects, "objects of each rank in the state dict");
  app.add_flag("--copies", settings.has_copies,
               "instead of saves, loads of the whole matrix by each, together")
      ->excludes(columns);
  app.add_flag("--alone", settings.is_alone, "these loads by each rank for itself");
  app.add_flag("--warm", settings.is_warm, "these loads from the page cache");
  CLI11_PARSE(app, count, arguments);
  try {
    cairn::bench::run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cairn_rank_bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
