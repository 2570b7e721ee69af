// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "cairn/api/context.hpp"
#include "cairn/core/load.hpp"
#include "cairn/tools/export.hpp"

namespace cairn {

/// Writes a checkpointable as a state dict that torch.load(path, weights_only=True) reads: the maps, lists, numbers,
/// texts, bytes and arrays of a tree, in an archive as torch.save makes it. Returns what was written, when it is on the
/// disk. Blocks.
///
/// Arrays become tensors on the CPU that need no gradient; those that have several names share one storage, as tied
/// weights do. Keys of maps are texts. Renames apply to values, too; a list of which elements are missing, or are
/// called otherwise, is a map. Objects, of a distributed checkpoint or of a state dict (kStateDictId), are trees at
/// their names, and so is common state, as `common_state/shard_0_1`; arrays in them stay as they are. What of them has
/// no place in a tree is an error, or left out and named in ExportPlan::notes (ExportOptions::leave_out).
/// `separator`, `is_folder` and `max_file_bytes` of the options do not count.
/// Memory: as export_arrays, the values and the objects.
/// Errors: as export_arrays; Errc::invalid_argument, naming the path, for a dtype that torch does not have, an odd
///         number of float4 along the last axis, a key or text that is not UTF-8, renames that make one path a leaf and
///         a map, names and values of more than 2 GiB. Nothing is left behind.
/// Example: cairn::write_torch_archive("run/100", "model.pt");
ExportPlan write_torch_archive(const std::filesystem::path& from, const std::filesystem::path& target,
                               const ExportOptions& options = {}, const Context& context = default_context());
/// The same for a checkpoint that was described before.
ExportPlan write_torch_archive(const CheckpointMetadata& from, const std::filesystem::path& target,
                               const ExportOptions& options = {});

/// Writes a checkpointable as a distributed checkpoint that torch.distributed.checkpoint.load reads: a folder with
/// `.metadata` and files `__0_0.distcp`, `__0_1.distcp` and so on of at most `max_file_bytes` of the options each,
/// unless one array is larger. Returns what was written, when it is on the disk. Blocks.
///
/// Names are those that torch makes of a state dict: keys and places in lists, joined by points. An array is one chunk,
/// whatever parts it was saved in, and is written under each of its names. A value, or a list of values, is an object.
/// What has no place is left out as by write_torch_archive, and so are empty maps, which torch leaves out itself.
/// Memory: as export_arrays, the values and objects, and one KiB for each array.
/// Errors: as write_torch_archive; Errc::invalid_argument, too, for two paths that would have one name, and for arrays
///         of float4. Nothing is left behind.
/// Example: cairn::write_torch_distributed("run/100", "model_dcp");
ExportPlan write_torch_distributed(const std::filesystem::path& from, const std::filesystem::path& target,
                                   const ExportOptions& options = {},
                                   const Context& context = default_context());
/// The same for a checkpoint that was described before.
ExportPlan write_torch_distributed(const CheckpointMetadata& from, const std::filesystem::path& target,
                                   const ExportOptions& options = {});

/// Writes a state dict as Megatron-Core's `torch_dist` has it: tensors and objects by their keys in a distributed
/// checkpoint, common state in `common.pt`, and `metadata.json`. A state dict is a checkpointable of the handler
/// `kStateDictId`, or a folder of Megatron-Core's. Returns what was written, when it is on the disk. Blocks.
///
/// A tensor is one chunk. Objects keep their unique keys, so that random states of another grid are not found.
/// Memory: as write_torch_distributed.
/// Errors: as write_torch_distributed; Errc::invalid_argument, too, for what is not a state dict, and, naming the path,
///         for what is neither a tensor nor has the name of an object. Nothing is left behind.
/// Example: cairn::write_torch_dist("run/100", "iter_0000100");
ExportPlan write_torch_dist(const std::filesystem::path& from, const std::filesystem::path& target,
                            const ExportOptions& options = {}, const Context& context = default_context());
/// The same for a checkpoint that was described before.
ExportPlan write_torch_dist(const CheckpointMetadata& from, const std::filesystem::path& target,
                            const ExportOptions& options = {});

}  // namespace cairn
