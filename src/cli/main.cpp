// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cairn/base/error.hpp"
#include "cairn/version.hpp"

#include "cli/commands.hpp"

namespace {

using cairn::cli::Arguments;
using cairn::cli::Output;

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;
constexpr int kDiffFailed = 2;  // 1 says that there are differences, as with diff(1).

constexpr std::uint64_t kMostShown = 10'000'000;  // They are held in memory, as texts.

constexpr const char* kPathHelp =
    "A checkpoint, the directory of one of its checkpointables, a safetensors file or a folder of them";

struct Command {
  CLI::App* parser;
  int (*run)(const Arguments& arguments, Output& out);
  int failed = kFailed;  ///< The status when it cannot answer.
};

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& help, Arguments& arguments) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_flag("--json", arguments.is_json, "Answer in JSON");
  return command;
}

void add_path(CLI::App& command, Arguments& arguments) {
  command.add_option("PATH", arguments.path, kPathHelp)->required();
}

CLI::App* add_ls(CLI::App& app, Arguments& arguments) {
  CLI::App* ls =
      add_command(app, "ls", "List the checkpointables, or the checkpoints of a directory", arguments);
  add_path(*ls, arguments);
  ls->add_flag("--all", arguments.lists_arrays, "List every array too");
  return ls;
}

CLI::App* add_inspect(CLI::App& app, Arguments& arguments) {
  CLI::App* inspect =
      add_command(app, "inspect", "Show handlers, types, shapes, dtypes and sizes", arguments);
  add_path(*inspect, arguments);
  inspect->add_option("NAME", arguments.name, "One checkpointable; without it, all");
  inspect->add_flag(
      "--stats", arguments.has_statistics,
      "Read the arrays, and tell of each its smallest and largest number, mean, NaNs and zeros");
  return inspect;
}

CLI::App* add_show(CLI::App& app, Arguments& arguments) {
  CLI::App* show =
      add_command(app, "show", "Show the values of an array, a value or a JSON document", arguments);
  add_path(*show, arguments);
  show->add_option("NAME", arguments.name,
                   "What, and which part of an array as numpy would say it: 'params/w[0:5, -1]'")
      ->required();
  show->add_option("--limit", arguments.limit,
                   "Elements that are shown; of larger arrays, the corners. Of documents, lines")
      ->check(CLI::Range(std::uint64_t{1}, kMostShown))
      ->capture_default_str();
  return show;
}

CLI::App* add_verify(CLI::App& app, Arguments& arguments) {
  CLI::App* verify = add_command(app, "verify", "Compare every byte with the checksums", arguments);
  verify->add_option("PATH", arguments.paths, fmt::format("{}; or a directory of checkpoints", kPathHelp))
      ->required();
  verify->add_option("--jobs", arguments.jobs,
                     "Checkpoints that are verified at once; 0: one for each thread");
  verify->add_option("--threads", arguments.threads,
                     "Threads that read and hash, for all of them together; 0: one for each core");
  return verify;
}

CLI::App* add_recover(CLI::App& app, Arguments& arguments) {
  CLI::App* recover =
      add_command(app, "recover",
                  "Tell what crashed saves have left in a directory, and remove it when asked", arguments);
  recover->add_option("ROOT", arguments.path, "A directory of checkpoints")->required();
  recover->add_flag("--remove", arguments.removes, "Remove it; without this nothing is changed");
  recover->add_flag("--other-hosts", arguments.other_hosts,
                    "Also what other machines have left on a shared file system: only when none of them "
                    "writes there now");
  return recover;
}

CLI::App* add_diff(CLI::App& app, Arguments& arguments) {
  CLI::App* diff =
      add_command(app, "diff", "Compare two checkpoints: structure, types and values", arguments);
  diff->add_option("A", arguments.path, kPathHelp)->required();
  diff->add_option("B", arguments.other, "Likewise")->required();
  CLI::Option* metadata = diff->add_flag("--metadata", arguments.metadata_only,
                                         "Compare no values: names, types and shapes only");
  diff->add_option(
          "--tolerance", arguments.tolerance,
          "Numbers that differ by no more than this are equal, and so are NaNs; without it every bit counts")
      ->check(CLI::NonNegativeNumber)
      ->excludes(metadata);
  return diff;
}

CLI::App* add_export(CLI::App& app, Arguments& arguments) {
  CLI::App* command =
      add_command(app, "export", "Write arrays, whole, into safetensors files for other programs", arguments);
  command->add_option("SOURCE", arguments.path, kPathHelp)->required();
  command->add_option("TARGET", arguments.other, "A file or folder that is not there yet")->required();
  command->add_option("--name", arguments.name,
                      "The checkpointable; without it, the only one that has arrays");
  command
      ->add_option("--format", arguments.exporting.format,
                   "safetensors, a single file; or hf, a folder as Hugging Face has it. Without it, by the "
                   "target's name")
      ->check(CLI::IsMember({"safetensors", "hf"}));
  command->add_option("--separator", arguments.exporting.separator, "Between the keys of a path, in names")
      ->capture_default_str();
  command
      ->add_option("--max-file", arguments.exporting.max_file_bytes, "Of hf: how large a file may be; 5GiB")
      ->transform(CLI::AsSizeValue(false));
  return command;
}

constexpr std::uint64_t kMostParts = 100'000;

CLI::App* add_reshard(CLI::App& app, Arguments& arguments) {
  CLI::App* command = add_command(
      app, "reshard", "Write a checkpoint of the same values, whose arrays are cut otherwise", arguments);
  cairn::cli::RecutArguments& how = arguments.recutting;
  command->add_option("SOURCE", arguments.path, "A checkpoint")->required();
  command->add_option("TARGET", arguments.other, "A checkpoint that is not there yet")->required();
  command->add_option("--name", arguments.name, "The checkpointable; without it, all that have arrays");
  command->add_option("--parts", how.parts, "Equal parts of each array, and as many files")
      ->check(CLI::Range(std::uint64_t{1}, kMostParts));
  command->add_option("--axis", how.axis, "Along which arrays are cut into parts; 0");
  command->add_option("--max-file", how.max_file_bytes, "How large a file may be: 500MiB")
      ->transform(CLI::AsSizeValue(false));
  command->add_flag("--one-file", how.is_one_file, "All arrays, whole, in one file");
  command
      ->add_option("--tiles", how.tile_bytes,
                   "Tiles in the files, for readers of any boxes, and how large they may be: 16MiB")
      ->transform(CLI::AsSizeValue(false));
  return command;
}

CLI::App* add_prune(CLI::App& app, Arguments& arguments) {
  CLI::App* prune = add_command(
      app, "prune",
      "Tell which steps of a training would be removed, and why others stay, and remove them when asked",
      arguments);
  prune->add_option("ROOT", arguments.path, "A directory of steps")->required();
  cairn::cli::PruneArguments& how = arguments.prune;
  CLI::Option_group* kept = prune->add_option_group("Kept", "What any of these keeps is kept");
  kept->require_option(1, 0);
  kept->add_option("--latest", how.latest, "The N highest steps")->type_name("N");
  kept->add_option("--every-steps", how.every_steps, "Multiples of N")->type_name("N");
  kept->add_option("--steps-apart", how.steps_apart, "Each that is N above the one kept before")
      ->type_name("N");
  kept->add_option("--nearest-to-every", how.nearest_to_every, "The nearest to each multiple of N")
      ->type_name("N");
  kept->add_option("--seconds-apart", how.seconds_apart,
                   "Each that was committed S seconds after the one kept before")
      ->type_name("S");
  kept->add_option("--younger-than", how.younger_than, "Those committed less than S seconds ago")
      ->type_name("S");
  kept->add_option("--steps", how.steps, "These steps")->type_name("STEP,...")->delimiter(',');
  kept->add_option("--best", how.best, "The N best by a metric")->type_name("METRIC:N:lower|higher");
  prune->add_option("--prefix", how.prefix, "What stands before the number in the names of steps");
  prune->add_option("--width", how.width,
                    "How many digits the number has, with zeros before it; 0: what it needs");
  prune->add_flag("--remove", arguments.removes, "Remove them; without this nothing is changed");
  return prune;
}

int run(const Command& command, const Arguments& arguments) {
  try {
    Output out(stdout);
    const int status = command.run(arguments, out);
    out.flush();
    return status;
  } catch (...) {
    cairn::cli::complain(cairn::describe(std::current_exception()));
    return command.failed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that has seen enough, such as head, ends the tool quietly, even where a parent ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  Arguments arguments;
  CLI::App app(
      "Lists, describes, shows, verifies, compares, exports, reshards, recovers and prunes checkpoints.",
      "cairn");
  app.set_version_flag("--version", fmt::format("cairn {}.{}.{}", CAIRN_VERSION_MAJOR, CAIRN_VERSION_MINOR,
                                                CAIRN_VERSION_PATCH));
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0; 1 when something is wrong, with one line on standard error; 2 for wrong usage.\n"
      "Of diff: 0 when the two are equal, 1 when they differ, 2 when that cannot be told.");

  const std::array<Command, 9> commands{{{add_ls(app, arguments), &cairn::cli::ls},
                                         {add_inspect(app, arguments), &cairn::cli::inspect},
                                         {add_show(app, arguments), &cairn::cli::show},
                                         {add_verify(app, arguments), &cairn::cli::verify},
                                         {add_diff(app, arguments), &cairn::cli::diff, kDiffFailed},
                                         {add_export(app, arguments), &cairn::cli::export_arrays},
                                         {add_reshard(app, arguments), &cairn::cli::reshard},
                                         {add_recover(app, arguments), &cairn::cli::recover},
                                         {add_prune(app, arguments), &cairn::cli::prune}}};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return run(*std::find_if(commands.begin(), commands.end(),
                           [](const Command& each) { return each.parser->parsed(); }),
             arguments);
}
