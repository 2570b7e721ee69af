// SPDX-License-Identifier: Apache-2.0
#include "bench/operations.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"

#include "base/internal/aligned_memory.hpp"
#include "bench/ceilings.hpp"
#include "bench/interference.hpp"
#include "bench/measure.hpp"
#include "bench/report.hpp"

namespace cairn::bench {
namespace {

constexpr std::size_t kSmallBudget = std::size_t{256} << 20;

/// Without memory for arrays.
ContextOptions engine_options(const Workload& workload) {
  ContextOptions options;
  if (workload.engine == "uring")
    options.engine = io::EngineKind::uring;
  if (workload.engine == "threads" || workload.variant == "threads")
    options.engine = io::EngineKind::threads;
  return options;
}

ContextOptions context_options(const Workload& workload) {
  ContextOptions options = engine_options(workload);
  if (workload.variant == "budget256") {
    options.staging_bytes = kSmallBudget;
    options.reserve_bytes = kSmallBudget;
  } else if (workload.variant == "default" || workload.variant == "threads") {
    // Room for the state and for the file's header and last buffer.
    options.staging_bytes = workload.bytes() + (std::size_t{64} << 20);
    options.reserve_bytes = options.staging_bytes;
  } else {
    options.staging_bytes = kSmallBudget;
  }
  return options;
}

SaveOptions save_options(const Workload& workload) {
  SaveOptions options;
  if (workload.variant == "borrow")
    options.snapshot = Snapshot::borrow;
  if (workload.variant == "share")
    options.snapshot = Snapshot::share;
  return options;
}

/// Loads need little staging memory: large arrays are read to where they belong.
ContextOptions load_options(const Workload& workload) {
  ContextOptions options = engine_options(workload);
  options.staging_bytes = kSmallBudget;
  return options;
}

void require_known_variant(const Workload& workload) {
  constexpr std::array kKnown = {"default", "borrow", "share", "threads", "budget256", "into"};
  if (std::find(kKnown.begin(), kKnown.end(), workload.variant) == kKnown.end()) {
    throw std::invalid_argument("variant '" + workload.variant + "' is not offered");
  }
}

/// Reads a byte of every page, so that nothing of the load is left to page faults later.
unsigned touch_pages(const Tree& tree) {
  unsigned sum = 0;
  visit_leaves(tree, [&sum](std::string_view, const Tree& leaf) {
    if (const Array* array = leaf.array_if()) {
      const auto bytes = array->view().bytes();
      for (std::size_t at = 0; at < bytes.size(); at += 4096) {
        sum += std::to_integer<unsigned>(bytes[at]);
      }
    }
  });
  return sum;
}

bool check_values(const Tree& tree, const Workload& workload, const ValuePool& pool) {
  const std::size_t checks = std::min<std::size_t>(workload.count, 8);
  for (std::size_t i = 0; i < checks; ++i) {
    const std::size_t k = checks == 1 ? 0 : i * (workload.count - 1) / (checks - 1);
    const Array array = tree.at(path_of(workload, k)).as<Array>();
    if (!pool.matches(k, workload.step, array.data<float>())) {
      return false;
    }
  }
  return true;
}

/// The stored tree, asked for in memory that the caller has and that was used before.
AbstractTree into_arrays(const Workload& workload, const Context& context) {
  AbstractTree wanted = metadata(workload.directory / "ck1", context);
  for (std::size_t k = 0; k < workload.count; ++k) {
    AbstractTree& array = wanted.at(path_of(workload, k));
    Array destination(array.as_array().shape, array.as_array().dtype);
    const std::span<std::byte> bytes = destination.mutable_view().bytes();
    touch(bytes.data(), bytes.size());
    array.place_into(std::move(destination));
  }
  return wanted;
}

double visit_metadata(const Workload& workload, const Context& context) {
  const Stopwatch watch;
  const CheckpointMetadata metadata = checkpointables_metadata(workload.directory / "ck1", context);
  std::size_t count = 0;
  std::uint64_t sum = 0;
  for (const ArrayEntry& array : arrays(metadata.at("state"))) {
    ++count;
    sum += array.name.size() + static_cast<std::uint64_t>(array.dtype) + array.shape.size();
  }
  const double seconds = watch.seconds();
  if (count != workload.count || sum == 0) {
    throw std::runtime_error(fmt::format("metadata has {} arrays, not {}", count, workload.count));
  }
  return seconds;
}

/// Looks up single arrays by name in opened metadata; the median.
double find_in_metadata(const Workload& workload, const Context& context) {
  const CheckpointMetadata metadata = checkpointables_metadata(workload.directory / "ck1", context);
  const auto& tree = metadata.at("state").as<AbstractTree>();
  std::array<double, 101> times{};
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::string path = path_of(workload, i * (workload.count - 1) / (times.size() - 1));
    const Stopwatch watch;
    const AbstractTree found = tree.at(path);
    times[i] = watch.seconds();
    if (found.as_array().shape.size() != 2) {
      throw std::runtime_error("metadata has another '" + path + "'");
    }
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

void run_save(const Workload& workload) {
  require_known_variant(workload);
  const ValuePool pool(workload.pool_file);
  const int first_step = workload.saves == 1 ? workload.step : 0;
  std::vector<Array> arrays = make_arrays(workload, pool, first_step);
  const Tree tree = make_tree(workload, arrays);
  const Context context(context_options(workload));
  SaveOptions options = save_options(workload);
  const bool may_change_at_staged = options.snapshot == Snapshot::copy;
  for (int i = 0; i < workload.saves; ++i) {
    const std::filesystem::path target =
        workload.directory / fmt::format("ck{}", workload.saves == 1 ? 1 : i);
    std::filesystem::remove_all(target);
    sync_file_system(workload.directory);
    if (!workload.trace_directory.empty())
      options.trace = trace_to_file(workload.trace_directory / fmt::format("save{}.json", i));
    const Usage usage;
    const Stopwatch watch;
    const AsyncResponse saving = save_async(target, tree, options, context);
    const double blocking = watch.seconds();
    if (may_change_at_staged && i + 1 < workload.saves)
      mutate(arrays);
    const SaveResult result = saving.wait();
    const double saved = watch.seconds();
    sync_file_system(workload.directory);
    const double durable = watch.seconds();
    nlohmann::ordered_json line = line_of("save", workload);
    line["step"] = first_step + i;
    line["blocking_s"] = blocking;
    line["save_s"] = saved;
    line["durable_s"] = durable;
    add_usage(line, usage);
    const DiskUse disk = disk_use(target);
    line["files"] = disk.files;
    line["file_bytes"] = disk.file_bytes;
    line["disk_bytes"] = disk.disk_bytes;
    line["engine"] = result.engine;
    line["direct_bytes"] = result.direct_bytes;
    print(line);
    if (!may_change_at_staged && i + 1 < workload.saves)
      mutate(arrays);
  }
}

void run_load(const Workload& workload) {
  require_known_variant(workload);
  const ValuePool pool(workload.pool_file);
  const Context context(load_options(workload));
  std::optional<AbstractTree> wanted;
  if (workload.variant == "into")
    wanted = into_arrays(workload, context);
  for (const char* cache : {"cold", "warm"}) {
    if (std::string_view(cache) == "cold" && !drop_page_cache(workload.directory)) {
      std::fputs("the page cache could not be dropped: the cold load may be warm\n", stderr);
    }
    LoadOptions options;
    if (!workload.trace_directory.empty())
      options.trace = trace_to_file(workload.trace_directory / fmt::format("load-{}.json", cache));
    const Usage usage;
    const Stopwatch watch;
    const Tree tree = load_async(workload.directory / "ck1", wanted, options, context).wait();
    const double returned = watch.seconds();
    const unsigned touched = touch_pages(tree);
    const double loaded = watch.seconds();
    nlohmann::ordered_json line = line_of("load", workload);
    line["cache"] = cache;
    line["return_s"] = returned;
    line["load_s"] = loaded;
    add_usage(line, usage);
    line["check"] = check_values(tree, workload, pool) ? "ok" : "wrong";
    line["touched"] = touched;
    line["engine"] = context.engine();
    print(line);
  }
}

void run_metadata(const Workload& workload) {
  const Context context(engine_options(workload));
  const double first = visit_metadata(workload, context);
  std::array<double, 3> warm{};
  for (double& time : warm) {
    time = visit_metadata(workload, context);
  }
  std::sort(warm.begin(), warm.end());
  const double find = find_in_metadata(workload, context);
  drop_page_cache(workload.directory);
  const double cold = visit_metadata(workload, context);
  nlohmann::ordered_json line = line_of("meta", workload);
  line["first_s"] = first;
  line["warm_s"] = warm[1];
  line["cold_s"] = cold;
  line["find_s"] = find;
  line["check"] = "ok";
  print(line);
}

void run_interference(const Workload& workload) {
  require_known_variant(workload);
  constexpr std::chrono::seconds kAlone{3};
  const ValuePool pool(workload.pool_file);
  const Tree tree = make_tree(workload, make_arrays(workload, pool, workload.step));
  const Context context(context_options(workload));
  const std::filesystem::path target = workload.directory / "ck1";
  for (int i = 0; i < workload.saves; ++i) {
    std::filesystem::remove_all(target);
    sync_file_system(workload.directory);
    const MatrixProducts products(2);
    const Stopwatch alone;
    std::this_thread::sleep_for(kAlone);
    const double rate_alone = static_cast<double>(products.made()) / alone.seconds();

    const AsyncResponse saving = save_async(target, tree, save_options(workload), context);
    const std::uint64_t before = products.made();
    const Stopwatch beside;
    static_cast<void>(saving.wait());
    const double seconds = beside.seconds();
    const double rate_beside = static_cast<double>(products.made() - before) / seconds;
    nlohmann::ordered_json line = line_of("interference", workload);
    line["background_s"] = seconds;
    line["slowdown"] = 1 - rate_beside / rate_alone;
    print(line);
  }
}

void run_ceilings(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  AlignedMemory source(workload.bytes());
  const std::span<float> values(reinterpret_cast<float*>(source.data()), workload.bytes() / sizeof(float));
  pool.fill(0, 0, values);
  const Ceilings found = measure_ceilings(workload.directory, source.data(), workload.bytes());
  nlohmann::ordered_json line = line_of("ceilings", workload);
  line["memcpy1_s"] = found.memcpy1_s;
  line["memcpy2_s"] = found.memcpy2_s;
  line["memcpy2_fresh_s"] = found.memcpy2_fresh_s;
  line["write_s"] = found.write_s;
  line["read_s"] = found.read_s;
  line["touch2_s"] = found.touch2_s;
  line["read_fresh_s"] = found.read_fresh_s;
  line["read_buffered_s"] = found.read_buffered_s;
  line["xxh3_gbs"] = found.xxh3_gbs;
  line["fsync_s"] = found.fsync_s;
  line["bytes"] = found.bytes;
  print(line);
}

}  // namespace cairn::bench
