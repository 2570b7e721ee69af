// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/workload.hpp"

namespace cairn::bench {

/// Each runs one operation and prints its JSON lines on standard output.
/// Errors: std::exception with a sentence.
void run_save(const Workload& workload);
void run_load(const Workload& workload);
void run_metadata(const Workload& workload);
/// How much a save in the background slows down two threads that compute.
void run_interference(const Workload& workload);
void run_ceilings(const Workload& workload);
/// One matrix as 8 row shards, into D/ck; with layout "whole" as one array.
void run_reshard_save(const Workload& workload);
/// The matrix in D/ck into used memory, as other shards, one layout after the other or the one that is asked for.
void run_reshard_load(const Workload& workload);

/// A training that saves at each of `saves` steps, removes all but the newest `keep`, and changes its state in between.
void run_training(const Workload& workload);
/// A checkpoint of `saves` parts, into D/ck.
void run_partial(const Workload& workload);

/// Saves that are accepted while the program computes 0.4 s long: on all cores but one, and on all. What it loses
/// beside computing alone, and how long a save with copies blocks it.
void run_accepted(const Workload& workload);
/// A struct of `count` vectors, loaded with load_into and with place_into in turns; `saves` rounds, each cold and warm.
void run_load_into(const Workload& workload);
/// The list of `count` small checkpoints in D/run, made when missing; by the library and by the tool beside the
/// program.
void run_list(const Workload& workload);
/// The first 100 rows of one array.
void run_rows(const Workload& workload);
/// Saves into memory beside copies into a warm mapping: `saves` of them, one that is skipped, and the first ones of a
/// program that has gone on from memory, and from disk.
void run_flash_save(const Workload& workload);
/// Loads from memory, into used and into fresh memory, beside copies out of a mapping; `saves` rounds.
void run_flash_load(const Workload& workload);
/// Under an agent: saves while it serves and while it is stopped, and an image that is persisted while all cores
/// compute. Then the program is killed: how long its last word takes. `saves` copies of an image beside raw writes.
void run_flash_agent(const Workload& workload);
/// The program of run_flash_agent.
void run_flash_program(const Workload& workload);
/// `count` checkpointables of four floats, saved at once, `saves` times.
void run_checkpointables(const Workload& workload);

/// `count` arrays into used memory, from an archive of torch.save and from a checkpoint of Cairn's in turns; `saves`
/// rounds. The files of this and of what follows are made in D when they are missing.
void run_foreign_archive(const Workload& workload);
/// A matrix in 8 shards of rows, from a distributed checkpoint of torch and from one of Cairn's: whole, as 8 columns,
/// and one shard.
void run_foreign_distributed(const Workload& workload);
/// The metadata of a distributed checkpoint of `count` chunks.
void run_foreign_metadata(const Workload& workload);
/// `count` arrays, each one chunk, from a distributed checkpoint of torch and from one of Cairn's.
void run_foreign_chunks(const Workload& workload);
/// The metadata of an archive of `count` tensors, warm.
void run_foreign_tensors(const Workload& workload);
/// A data-parallel piece of `count` arrays whose states Megatron-Core up to 0.15 has flattened.
void run_foreign_flattened(const Workload& workload);

/// `count` small tensors as a state dict of Megatron-Core's and as a tree of sharded arrays, whole and in three boxes
/// each; `saves` rounds of saves and cold loads.
void run_megatron_tensors(const Workload& workload);
/// A flat optimizer state of `count` parameters, saved by 8 ranks (TP 2, DP 4) and loaded by 8 others (TP 4, DP 2),
/// which are threads: together and alone, with tensor parallelism along either axis; `saves` rounds.
void run_megatron_reshard(const Workload& workload);

}  // namespace cairn::bench
