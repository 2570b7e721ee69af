// SPDX-License-Identifier: Apache-2.0
// What a program does with checkpoints every day: saves that are accepted, loads into a struct, a list of many
// checkpoints, some rows of a table, many small checkpointables.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"
#include "cairn/handlers/describe.hpp"

#include "bench/interference.hpp"
#include "bench/measure.hpp"
#include "bench/operations.hpp"
#include "bench/report.hpp"

namespace cairn::bench {

struct Layer {
  std::vector<float> weights;
};
BOOST_DESCRIBE_STRUCT(Layer, (), (weights))

struct Model {
  std::int64_t step = 0;
  std::vector<Layer> layers;
};
BOOST_DESCRIBE_STRUCT(Model, (), (step, layers))

namespace {

constexpr double kIdleSeconds = 0.4;
constexpr std::uint64_t kRows = 100;

template <class F>
double median_seconds(std::size_t times, F function) {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < times; ++i) {
    const Stopwatch watch;
    function();
    seconds.push_back(watch.seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[times / 2];
}

ContextOptions small_context() {
  ContextOptions options;
  options.staging_bytes = std::size_t{256} << 20;
  return options;
}

ContextOptions roomy_context(const Workload& workload) {
  ContextOptions options;
  options.staging_bytes = workload.bytes() + (std::size_t{64} << 20);
  options.reserve_bytes = options.staging_bytes;
  return options;
}

/// How many products a thread makes in kIdleSeconds while as many others do the same.
std::uint64_t products_in_idle_time(std::size_t threads) {
  constexpr std::uint64_t kTried = 100;
  const double seconds = multiply_matrices(threads, kTried);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(kTried * kIdleSeconds / seconds));
}

struct Accepted {
  double call_s = 0;
  double lost_s = 0;  ///< Until the values may be changed, less what the computation takes alone.
};

/// A computation by so many threads beside the copy of a save that was accepted.
Accepted compute_beside_save(std::size_t threads, const Tree& tree, const std::filesystem::path& target,
                             const Context& context) {
  const std::uint64_t products = products_in_idle_time(threads);
  const double before = multiply_matrices(threads, products);
  std::filesystem::remove_all(target);
  sync_file_system(target.parent_path());
  Accepted found;
  const Stopwatch watch;
  const AsyncResponse saving = save_async(target, tree, return_when_accepted, context);
  found.call_s = watch.seconds();
  multiply_matrices(threads, products);
  saving.wait_staged();
  const double beside = watch.seconds();
  static_cast<void>(saving.wait());
  found.lost_s = beside - (before + multiply_matrices(threads, products)) / 2;
  return found;
}

double blocking_of_copy(const Tree& tree, const std::filesystem::path& target, const Context& context) {
  std::filesystem::remove_all(target);
  sync_file_system(target.parent_path());
  const Stopwatch watch;
  const AsyncResponse saving = save_async(target, tree, {}, context);
  const double blocking = watch.seconds();
  static_cast<void>(saving.wait());
  return blocking;
}

Model make_model(const Workload& workload, const ValuePool& pool) {
  Model model;
  model.layers.resize(workload.count);
  for (std::size_t k = 0; k < workload.count; ++k) {
    model.layers[k].weights.resize(workload.elements());
    pool.fill(k, workload.step, model.layers[k].weights);
  }
  return model;
}

/// The stored tree, asked for in the vectors of `model`.
AbstractTree into_vectors(const std::filesystem::path& path, Model& model, const Context& context) {
  AbstractTree wanted = metadata(path, context);
  for (std::size_t k = 0; k < model.layers.size(); ++k) {
    wanted["layers"][k]["weights"].as_array().place_into(MutableArrayView(model.layers[k].weights));
  }
  return wanted;
}

void require_values(const Model& model, const Workload& workload, const ValuePool& pool) {
  for (const std::size_t k : {std::size_t{0}, workload.count - 1}) {
    if (!pool.matches(k, workload.step, model.layers[k].weights))
      throw std::runtime_error("other values were loaded than were saved");
  }
}

std::size_t entries_of(const std::filesystem::path& root) {
  if (!std::filesystem::is_directory(root))
    return 0;
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(root), {}));
}

/// Saves small checkpoints under `root`, several at a time, unless they are there.
void make_checkpoints(const std::filesystem::path& root, std::size_t count, const Context& context) {
  constexpr std::size_t kAtOnce = 16;
  if (entries_of(root) == count)
    return;
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root);
  const std::vector<float> weights = {1, 2, 3, 4};
  std::deque<AsyncResponse> saving;
  for (std::size_t i = 0; i < count; ++i) {
    const Tree state = {{"weights", weights}, {"step", static_cast<std::int64_t>(i)}};
    saving.push_back(save_async(root / fmt::format("step-{}", i), state, {}, context));
    if (saving.size() == kAtOnce) {
      static_cast<void>(saving.front().wait());
      saving.pop_front();
    }
  }
  for (const AsyncResponse& each : saving) {
    static_cast<void>(each.wait());
  }
}

/// The tool that was built beside this program; nothing where there is none.
std::optional<double> seconds_of_tool(const std::filesystem::path& root) {
  const auto tool = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "cairn";
  if (!std::filesystem::exists(tool))
    return std::nullopt;
  const std::string command = fmt::format("'{}' ls '{}' >/dev/null", tool.string(), root.string());
  return median_seconds(5, [&] {
    if (std::system(command.c_str()) != 0)
      throw std::runtime_error("failed: " + command);
  });
}

}  // namespace

void run_accepted(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  const Tree tree = make_tree(workload, make_arrays(workload, pool, workload.step));
  const Context context(roomy_context(workload));
  const std::filesystem::path target = workload.directory / "ck";
  const std::size_t cores = std::max(2U, std::thread::hardware_concurrency());
  blocking_of_copy(tree, target, context);  // The first save of a process touches its memory.
  for (int round = 0; round < workload.saves; ++round) {
    const Accepted one_idle = compute_beside_save(cores - 1, tree, target, context);
    const Accepted none_idle = compute_beside_save(cores, tree, target, context);
    nlohmann::ordered_json line = line_of("accepted", workload);
    line["accepted_s"] = std::max(one_idle.call_s, none_idle.call_s);
    line["lost_one_core_idle_s"] = one_idle.lost_s;
    line["lost_no_core_idle_s"] = none_idle.lost_s;
    line["copy_s"] = blocking_of_copy(tree, target, context);
    print(line);
  }
}

void run_load_into(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  const Context context(small_context());
  const std::filesystem::path target = workload.directory / "ck";
  Model model = make_model(workload, pool);
  std::filesystem::remove_all(target);
  SaveOptions borrowed;
  borrowed.snapshot = Snapshot::borrow;
  save(target, to_tree(model), borrowed, context);
  const AbstractTree wanted = into_vectors(target, model, context);
  for (int round = 0; round < 2 * workload.saves; ++round) {
    const bool is_cold = round % 2 == 0 && drop_page_cache(workload.directory);
    nlohmann::ordered_json line = line_of("load_into", workload);
    line["cache"] = is_cold ? "cold" : "warm";
    for (const int turn : {0, 1}) {
      if (is_cold)
        drop_page_cache(workload.directory);
      const bool is_struct = (round / 2 + turn) % 2 == 0;  // Each is the first in every other round.
      model.layers.front().weights.assign(workload.elements(), 0.0F);
      const Stopwatch watch;
      if (is_struct) {
        load_into(target, model, {}, context);
      } else {
        static_cast<void>(load(target, wanted, {}, context));
      }
      line[is_struct ? "load_into_s" : "place_into_s"] = watch.seconds();
      require_values(model, workload, pool);
    }
    print(line);
  }
}

void run_list(const Workload& workload) {
  const Context context(small_context());
  const std::filesystem::path root = workload.directory / "run";
  make_checkpoints(root, workload.count, context);
  const auto list = [&] {
    const auto found = list_checkpoints(root, {}, context);
    if (found.size() != workload.count || found.back().committed.empty())
      throw std::runtime_error(fmt::format("{} checkpoints are listed", found.size()));
  };
  nlohmann::ordered_json line = line_of("list", workload);
  line["checkpoints"] = workload.count;
  if (drop_page_cache(workload.directory))
    line["list_cold_s"] = median_seconds(1, list);
  line["list_warm_s"] = median_seconds(5, list);
  line["latest_warm_s"] = median_seconds(5, [&] { static_cast<void>(latest_checkpoint(root, {}, context)); });
  if (const auto seconds = seconds_of_tool(root))
    line["cairn_ls_warm_s"] = *seconds;
  print(line);
}

void run_rows(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  const Context context(small_context());
  const std::filesystem::path target = workload.directory / "ck";
  {
    Workload table = workload;
    table.count = 1;
    const Tree tree = {{"table", make_arrays(table, pool, workload.step).front()}};
    std::filesystem::remove_all(target);
    SaveOptions borrowed;
    borrowed.snapshot = Snapshot::borrow;
    save(target, tree, borrowed, context);
  }
  const std::uint64_t rows = std::min<std::uint64_t>(kRows, workload.rows);
  std::uint64_t bytes = 0;
  const auto load_rows = [&] {
    AbstractTree wanted = metadata(target, context);
    wanted["table"].as_array().want(Box({0, 0}, {rows, workload.columns}));
    const LoadResponse loading = load_checkpointables_async(target, {{"state", wanted}}, {}, context);
    Loaded loaded = loading.wait();
    bytes = loaded.result().bytes;
    const Tree tree = loaded.take<Tree>("state");
    if (!pool.matches(0, workload.step, tree["table"].as<Array>().data<const float>()))
      throw std::runtime_error("other rows were loaded than were saved");
  };
  nlohmann::ordered_json line = line_of("rows", workload);
  line["rows"] = rows;
  if (drop_page_cache(workload.directory))
    line["load_cold_s"] = median_seconds(1, load_rows);
  line["load_warm_s"] = median_seconds(11, load_rows);
  line["read_bytes"] = bytes;
  line["wanted_bytes"] = rows * workload.columns * sizeof(float);
  print(line);
}

void run_checkpointables(const Workload& workload) {
  const Context context;
  const std::filesystem::path target = workload.directory / "ck";
  std::deque<Array> arrays;  // Items refer to them.
  Checkpointables items;
  for (std::size_t i = 0; i < workload.count; ++i) {
    items.emplace_back(fmt::format("item-{}", i), arrays.emplace_back(Array::zeros({4}, DType::float32)));
  }
  for (int round = 0; round < workload.saves; ++round) {
    std::filesystem::remove_all(target);
    const Usage usage;
    const Stopwatch watch;
    const SaveResult result = save_checkpointables(target, items, {}, context);
    nlohmann::ordered_json line = line_of("checkpointables", workload);
    line["checkpointables"] = workload.count;
    line["save_s"] = watch.seconds();
    line["files"] = result.files;
    add_usage(line, usage);
    print(line);
  }
}

}  // namespace cairn::bench
