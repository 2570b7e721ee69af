// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "bench/operations.hpp"

int main(int argc, char** argv) {
  using cairn::bench::Workload;

  const std::map<std::string, std::function<void(const Workload&)>> operations = {
      {"save", cairn::bench::run_save},
      {"load", cairn::bench::run_load},
      {"meta", cairn::bench::run_metadata},
      {"interference", cairn::bench::run_interference},
      {"ceilings", cairn::bench::run_ceilings},
      {"reshard_save", cairn::bench::run_reshard_save},
      {"reshard_load", cairn::bench::run_reshard_load},
      {"training", cairn::bench::run_training},
      {"partial", cairn::bench::run_partial},
      {"accepted", cairn::bench::run_accepted},
      {"load_into", cairn::bench::run_load_into},
      {"list", cairn::bench::run_list},
      {"rows", cairn::bench::run_rows},
      {"checkpointables", cairn::bench::run_checkpointables},
      {"flash_save", cairn::bench::run_flash_save},
      {"flash_load", cairn::bench::run_flash_load},
      {"flash_agent", cairn::bench::run_flash_agent},
      {"flash_program", cairn::bench::run_flash_program},
      {"foreign_archive", cairn::bench::run_foreign_archive},
      {"foreign_distributed", cairn::bench::run_foreign_distributed},
      {"foreign_metadata", cairn::bench::run_foreign_metadata},
      {"foreign_chunks", cairn::bench::run_foreign_chunks},
      {"foreign_tensors", cairn::bench::run_foreign_tensors},
      {"foreign_flattened", cairn::bench::run_foreign_flattened},
      {"megatron_tensors", cairn::bench::run_megatron_tensors},
      {"megatron_reshard", cairn::bench::run_megatron_reshard},
  };
  Workload workload;
  std::string operation;
  CLI::App app("Measures Cairn: one operation on one workload; prints a JSON object a line.");
  app.add_option(
         "operation", operation,
         "save, load, meta, interference, ceilings, reshard_save, reshard_load, training, partial, accepted, "
         "load_into, list, rows, checkpointables, flash_save, flash_load, flash_agent, foreign_archive, "
         "foreign_distributed, foreign_metadata, foreign_chunks, foreign_tensors, foreign_flattened, "
         "megatron_tensors or megatron_reshard")
      ->required();
  app.add_option("--workload", workload.name, "a name for the report");
  app.add_option("--dir", workload.directory, "where checkpoints go")->required();
  app.add_option("--pool", workload.pool_file, "256 MiB of values; made when missing")->required();
  app.add_option("--memory", workload.memory, "an existing directory on a tmpfs, for images");
  app.add_option("--count", workload.count, "arrays")->check(CLI::PositiveNumber);
  app.add_option("--rows", workload.rows)->check(CLI::PositiveNumber);
  app.add_option("--cols", workload.columns)->check(CLI::PositiveNumber);
  app.add_option("--per-layer", workload.arrays_a_layer, "arrays a layer")->check(CLI::PositiveNumber);
  app.add_option("--variant", workload.variant,
                 "default, borrow, share, threads, budget256, or into (loads)");
  app.add_option("--trace", workload.trace_directory, "an existing directory, for traces of saves and loads");
  app.add_option("--saves", workload.saves)->check(CLI::PositiveNumber);
  app.add_option("--step", workload.step, "whose values a single save has, and a load expects");
  app.add_option("--keep", workload.keep, "how many steps a training keeps; 0: all");
  app.add_option("--layout", workload.layout,
                 "of resharding: rows4, rows16, cols8 or whole; default all but the last; alone8: columns, "
                 "one load each; together8: by eight ranks together");
  app.add_option("--tiles", workload.tile_mebibytes,
                 "MiB of the tiles in which resharding saves; 0: whole shards");
  app.add_option("--engine", workload.engine, "auto, uring or threads")
      ->check(CLI::IsMember({"auto", "uring", "threads"}));
  CLI11_PARSE(app, argc, argv);

  const auto chosen = operations.find(operation);
  if (chosen == operations.end()) {
    std::fprintf(stderr, "operation '%s' is not offered\n", operation.c_str());
    return 2;
  }
  try {
    chosen->second(workload);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
