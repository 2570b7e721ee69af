// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/training/checkpointer.hpp"
#include "cairn/training/partial_save.hpp"

#include "bench/measure.hpp"
#include "bench/operations.hpp"
#include "bench/report.hpp"

namespace cairn::bench {

void run_training(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  std::vector<Array> arrays = make_arrays(workload, pool, 0);
  const Tree tree = make_tree(workload, arrays);
  ContextOptions with_room;
  with_room.staging_bytes = workload.bytes() + (std::size_t{64} << 20);
  with_room.reserve_bytes = with_room.staging_bytes;
  const Context context(with_room);
  const std::filesystem::path root = workload.directory / "run";
  std::filesystem::remove_all(root);
  sync_file_system(workload.directory);
  CheckpointerOptions options;
  if (workload.keep > 0) {
    options.keep = keep::latest(workload.keep);
  }
  std::vector<double> blocking;
  const Usage usage;
  const Stopwatch watch;
  {
    Checkpointer run(root, options, context);
    for (int step = 0; step < workload.saves; ++step) {
      const Stopwatch call;
      run.save(static_cast<std::uint64_t>(step), {{"state", tree}});
      blocking.push_back(call.seconds());
      mutate(arrays);
    }
    run.close();
  }
  nlohmann::ordered_json line = line_of("training", workload);
  line["steps"] = workload.saves;
  line["keep"] = workload.keep;
  line["loop_s"] = watch.seconds();
  std::sort(blocking.begin(), blocking.end());
  line["blocking_s"] = blocking[blocking.size() / 2];
  line["left"] = StepDirectory(root, {}, context).steps()->size();
  add_usage(line, usage);
  print(line);
}

void run_partial(const Workload& workload) {
  const ValuePool pool(workload.pool_file);
  const std::vector<Array> arrays = make_arrays(workload, pool, 0);
  Workload part = workload;
  part.count = workload.count / static_cast<std::size_t>(workload.saves);
  const std::filesystem::path target = workload.directory / "ck";
  std::filesystem::remove_all(target);
  sync_file_system(workload.directory);
  PartialSave partial(target);
  std::vector<double> adds;
  const Usage usage;
  for (int number = 0; number < workload.saves; ++number) {
    const auto first =
        arrays.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(number) * part.count);
    const Tree tree = make_tree(part, {first, first + static_cast<std::ptrdiff_t>(part.count)});
    const Stopwatch call;
    partial.add({{"state", Tree{{"part" + std::to_string(number), tree}}}});
    adds.push_back(call.seconds());
  }
  const Stopwatch watch;
  partial.finalize();
  const double finalize_s = watch.seconds();
  nlohmann::ordered_json line = line_of("partial", workload);
  std::sort(adds.begin(), adds.end());
  line["parts"] = workload.saves;
  line["add_s"] = adds[adds.size() / 2];
  line["finalize_s"] = finalize_s;
  add_usage(line, usage);
  print(line);
}

}  // namespace cairn::bench
