// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "cli/recut_policy.hpp"

namespace cairn::cli {

/// Holds what is to be kept: each that is given keeps what it says.
struct PruneArguments {
  std::optional<std::uint64_t> latest;
  std::optional<std::uint64_t> every_steps;
  std::optional<std::uint64_t> steps_apart;
  std::optional<std::uint64_t> nearest_to_every;
  std::optional<double> seconds_apart;
  std::optional<double> younger_than;  ///< Seconds.
  std::vector<std::uint64_t> steps;
  std::vector<std::string> best;  ///< "METRIC:COUNT:lower" or "higher".
  std::string prefix;             ///< Of the names of steps.
  std::size_t width = 0;          ///< Of their numbers.
  bool is_of_rewound = false;     ///< --rewound: nothing of the above.
};

/// How arrays leave.
struct ExportArguments {
  ExportArguments() = default;

  std::string format;  ///< "safetensors", "hf", "torch", "dcp" or "torch_dist"; empty: by the target's name.
  std::vector<std::string> only;  ///< Patterns of what is taken; none: all.
  std::string dtype;              ///< That arrays are cast to; empty: they stay as they are.
  std::string separator = "/";    ///< Between the keys of a path, in names.
  std::uint64_t max_file_bytes = std::uint64_t{5} << 30;  ///< Of folders.
  bool first_names_only = false;                          ///< Of an array with several names.
  bool leaves_out = false;                                ///< What has no place in a tree.
};

/// How `show` writes the elements of an array: for people, or for other programs.
enum class ElementForm : std::uint8_t { shown, npy, csv, raw };

enum class AgentDeed : std::uint8_t { supervise, status, persist, stop, clean, check };

/// What `agent` does, and for which program.
struct AgentArguments {
  AgentArguments() = default;

  AgentDeed deed = AgentDeed::supervise;
  std::vector<std::string> program;  ///< supervise; empty: those that use the memory.
  double grace_seconds = 30;
  unsigned restarts = 0;
  bool is_detached = false;
  std::optional<std::uint64_t> step;  ///< persist; nothing: the newest.
  bool all = false;                   ///< clean --all.
};

/// Holds what stands after the name of a command.
struct Arguments {
  std::filesystem::path path = ".";
  std::vector<std::filesystem::path> paths;  ///< verify.
  std::string
      name;  ///< export, reshard: the checkpointable; empty: all, the only one. show: what, "w[0:5, :]"; empty:
             ///< the names. unrewind: the line; empty: the last.
  std::vector<std::string> names;    ///< inspect: what; empty: everything.
  std::optional<std::size_t> depth;  ///< inspect --depth: how many keys name a group.
  std::string layout;  ///< By which files of other programs are read; empty: the one that recognises them.
  std::uint64_t limit = 1000;             ///< show: elements and lines.
  ElementForm form = ElementForm::shown;  ///< show --npy, --csv, --raw.
  bool is_json = false;
  bool is_wide = false;              ///< --wide.
  bool lists_arrays = false;         ///< ls and inspect --all.
  std::string numbers;               ///< ls --numbers: "apart" or "decimal"; empty: as both say.
  bool has_statistics = false;       ///< inspect --stats.
  std::size_t threads = 0;           ///< verify; 0: as many as the machine has cores.
  std::size_t jobs = 0;              ///< verify: checkpoints at once; 0: likewise.
  bool removes = false;              ///< recover and prune --remove.
  bool other_hosts = false;          ///< recover --other-hosts.
  std::filesystem::path other;       ///< diff: the second; export, reshard, copy: the target.
  bool overwrites = false;           ///< copy --overwrite.
  std::vector<std::string> renames;  ///< diff and export --rename, "P=Q".
  std::vector<std::string> strips;   ///< diff and export --strip.
  std::optional<double> tolerance;   ///< diff --tolerance.
  bool metadata_only = false;        ///< diff --metadata.
  double relative_tolerance = 0;     ///< diff --relative.
  std::optional<std::size_t> top;    ///< diff --top; nothing: all.
  bool reads_same_files = false;     ///< diff --read.
  PruneArguments prune;
  ExportArguments exporting;
  RecutArguments recutting;
  AgentArguments agent;  ///< `path` is the memory, `other` the root.
};

/// Each command writes what was asked for and returns the exit status: 0, or 1 when it has told on standard
/// error what is wrong.
///
/// Errors: UsageError, of which main() makes the status 2; whatever keeps it from answering, of which it makes one
///         line and the status 1.
int ls(const Arguments& arguments, Output& out);
int inspect(const Arguments& arguments, Output& out);
int show(const Arguments& arguments, Output& out);
int verify(const Arguments& arguments, Output& out);
int recover(const Arguments& arguments, Output& out);
int prune(const Arguments& arguments, Output& out);
int unrewind(const Arguments& arguments, Output& out);
/// 1 when the two differ, with nothing on standard error; main() makes 2 of what it throws, as diff(1) does.
int diff(const Arguments& arguments, Output& out);
int export_arrays(const Arguments& arguments, Output& out);
/// `cairn export` of a protobuf message, or of records, as the ending of the target says.
[[nodiscard]] bool is_message_export(const Arguments& arguments);
int export_message(const Arguments& arguments, Output& out);
int reshard(const Arguments& arguments, Output& out);
int copy(const Arguments& arguments, Output& out);
/// While it supervises a program it returns the status of that.
int agent(const Arguments& arguments, Output& out);

}  // namespace cairn::cli
