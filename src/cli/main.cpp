// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cairn/array/shape.hpp"
#include "cairn/base/error.hpp"
#include "cairn/version.hpp"

#include "cli/argument_checks.hpp"
#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "cli/paths.hpp"
#include "cli/stop_signals.hpp"
#include "cli/usage.hpp"
#include "cli/usage_error.hpp"

namespace {

using cairn::cli::Arguments;
using cairn::cli::Output;

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;
constexpr int kDiffFailed = 2;  // 1 says that there are differences, as with diff(1).

constexpr std::uint64_t kMostShown = 10'000'000;  // They are held in memory, as texts.
constexpr std::uint64_t kMostThreads = 1024;
constexpr std::size_t kHelpColumns = 100;  // Of help that no terminal shows.
constexpr std::uint64_t kMostDepth = 1000;
constexpr std::uint64_t kMostDigits = 20;  // Of 64 bits.
constexpr double kLeastIntervalSeconds = 0.001;

constexpr const char* kPathHelp =
    "A checkpoint, the directory of one of its checkpointables, or a file or folder of another program";

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

void add_layout(CLI::App& command, Arguments& arguments) {
  command.add_option("--layout", arguments.layout,
                     "How files of other programs are read: torch.distributed, safetensors or torch.archive "
                     "(default: as their names say)");
}

void add_wide(CLI::App& command, Arguments& arguments) {
  command.add_flag("--wide", arguments.is_wide, "Print all columns, however narrow the terminal is");
}

void add_path(CLI::App& command, Arguments& arguments) {
  command.add_option("PATH", arguments.path, kPathHelp)->required();
  add_layout(command, arguments);
}

void add_renames(CLI::App& command, Arguments& arguments) {
  command
      .add_option(
          "--rename", arguments.renames,
          "Rename paths that match a pattern: 'module.**=**', 'model/**=network/model/**'. May be given "
          "several times; the first pattern that matches a path is applied")
      ->type_name("P=Q")
      ->allow_extra_args(false)
      ->transform(cairn::cli::rename_words());
  command
      .add_option("--strip", arguments.strips,
                  "Remove the prefix P and the dot after it from names, as --rename 'P.**=**' does")
      ->type_name("P")
      ->allow_extra_args(false);
}

CLI::App* add_ls(CLI::App& app, Arguments& arguments) {
  CLI::App* ls = add_command(
      app, "ls", "List the checkpointables of a checkpoint, or the checkpoints of a directory", arguments);
  ls->add_option("PATH", arguments.path, fmt::format("{} (default: the current directory)", kPathHelp));
  add_layout(*ls, arguments);
  add_wide(*ls, arguments);
  ls->add_flag("--all", arguments.lists_arrays, "List every array too");
  ls->add_option(
        "--numbers", arguments.numbers,
        "How numbers in the names of checkpoints are read: apart, as in versions (1.9, 1.10), or decimal "
        "(0.15, 0.2) (default: as both say, else by the time of the commit)")
      ->type_name("apart|decimal")
      ->transform(cairn::cli::one_of({"apart", "decimal"}));
  return ls;
}

CLI::App* add_inspect(CLI::App& app, Arguments& arguments) {
  CLI::App* inspect = add_command(
      app, "inspect", "Show handlers, types, shapes, dtypes and sizes; of a file of records its chunks",
      arguments);
  add_path(*inspect, arguments);
  add_wide(*inspect, arguments);
  inspect->add_option(
      "NAME", arguments.names,
      "Checkpointables, arrays or values, also by patterns: 'model/**/weights', where * stands for "
      "any characters of a key and ** for any keys (default: everything)");
  inspect->add_option("--depth", arguments.depth, "Show only how many arrays have the same first N keys")
      ->type_name("N")
      ->transform(cairn::cli::whole_number(1, kMostDepth));
  inspect->add_flag("--all", arguments.lists_arrays,
                    "Give each array a line, also where names differ in a number only");
  inspect->add_flag(
      "--stats", arguments.has_statistics,
      "Read the arrays; show the smallest and largest number, the mean, NaNs and zeros of each");
  return inspect;
}

CLI::App* add_show(CLI::App& app, Arguments& arguments) {
  CLI::App* show =
      add_command(app, "show", "Show the values of an array, a value or a JSON document", arguments);
  add_path(*show, arguments);
  show->add_option("NAME", arguments.name,
                   "An array, value or document; of an array also a part, as in numpy: 'params/w[0:5, -1]' "
                   "(default: list the names)");
  show->add_option(
          "--limit", arguments.limit,
          "Most elements, or lines of a document, to show; of larger arrays only the corners are shown")
      ->transform(cairn::cli::whole_number(1, kMostShown))
      ->capture_default_str();
  using cairn::cli::ElementForm;
  std::vector<CLI::Option*> forms{show->get_option("--json")};
  const auto add_form = [&](ElementForm form, const std::string& name, const std::string& help) {
    CLI::Option* flag = show->add_flag_callback(
        name, [&arguments, form] { arguments.form = form; }, help);
    for (CLI::Option* other : forms) {
      flag->excludes(other);
    }
    forms.push_back(flag);
  };
  add_form(ElementForm::npy, "--npy", "Write all that is selected of an array as a .npy file of numpy");
  add_form(ElementForm::csv, "--csv", "Write it as text, a row of the last dimension on each line");
  add_form(ElementForm::raw, "--raw", "Write the bytes of its elements, row-major");
  return show;
}

CLI::App* add_verify(CLI::App& app, Arguments& arguments) {
  CLI::App* verify = add_command(app, "verify", "Compare every byte with the checksums", arguments);
  verify
      ->add_option("PATH", arguments.paths,
                   fmt::format("{}; or a directory of checkpoints, or a file of records", kPathHelp))
      ->required();
  verify
      ->add_option("--jobs", arguments.jobs,
                   "Checkpoints to verify at the same time (default 0: one for each thread)")
      ->transform(cairn::cli::whole_number(0, kMostThreads));
  verify
      ->add_option("--threads", arguments.threads,
                   "Threads that read and hash, for all checkpoints together (default 0: one for each core)")
      ->transform(cairn::cli::whole_number(0, kMostThreads));
  add_layout(*verify, arguments);
  return verify;
}

CLI::App* add_recover(CLI::App& app, Arguments& arguments) {
  CLI::App* recover =
      add_command(app, "recover", "List what crashed saves left behind; --remove removes it", arguments);
  recover->add_option("ROOT", arguments.path, "A directory of checkpoints")->required();
  add_wide(*recover, arguments);
  recover->add_flag("--remove", arguments.removes, "Remove it; without this nothing is changed");
  recover->add_flag("--other-hosts", arguments.other_hosts,
                    "Include what other machines left on a shared file system. Use this only when none of "
                    "them writes there now");
  return recover;
}

CLI::App* add_diff(CLI::App& app, Arguments& arguments) {
  CLI::App* diff =
      add_command(app, "diff", "Compare two checkpoints: structure, types and values", arguments);
  diff->add_option("A", arguments.path, kPathHelp)->required();
  diff->add_option("B", arguments.other, "What to compare A with")->required();
  CLI::Option* metadata = diff->add_flag("--metadata", arguments.metadata_only,
                                         "Compare names, types and shapes only, not values");
  diff->add_option(
          "--tolerance", arguments.tolerance,
          "Treat numbers that differ by at most this as equal, and NaNs too (default: compare every bit)")
      ->transform(cairn::cli::number(0))
      ->excludes(metadata);
  diff->add_option("--relative", arguments.relative_tolerance,
                   "Treat numbers as equal, too, that differ by at most this part of the larger: 0.001 is a "
                   "thousandth")
      ->transform(cairn::cli::number(0))
      ->excludes(metadata);
  diff->add_flag("--read", arguments.reads_same_files,
                 "Read and compare also what has the same hashes in both")
      ->excludes(metadata);
  diff->add_option("--top", arguments.top,
                   "Show N differences only: those of arrays last, the largest of them first")
      ->type_name("N")
      ->transform(cairn::cli::whole_number(1, kMostShown));
  add_renames(*diff, arguments);
  add_layout(*diff, arguments);
  return diff;
}

CLI::App* add_export(CLI::App& app, Arguments& arguments) {
  CLI::App* command = add_command(
      app, "export",
      "Write whole arrays into files of safetensors or torch, or a protobuf message, for other programs",
      arguments);
  command->add_option("SOURCE", arguments.path, kPathHelp)->required();
  command
      ->add_option(
          "TARGET", arguments.other,
          "A file or folder that does not exist yet. A protobuf message becomes a .pb or, where it is "
          "stored in chunks, a .cpb; the records of a file become a .records")
      ->required();
  command->add_option("--name", arguments.name,
                      "The checkpointable (default: the only one that has arrays, or is a message)");
  command
      ->add_option(
          "--format", arguments.exporting.format,
          "safetensors: a single file; hf: a folder in the layout of Hugging Face; torch: a file that "
          "torch.load reads, with all values; dcp: a folder for torch.distributed.checkpoint; torch_dist: "
          "one "
          "for Megatron-Core, of a state dict (default: "
          "safetensors if TARGET ends in .safetensors, torch if in .pt or .pth, else hf)")
      ->type_name("safetensors|hf|torch|dcp|torch_dist")
      ->transform(cairn::cli::one_of({"safetensors", "hf", "torch", "dcp", "torch_dist"}));
  command
      ->add_option(
          "--only", arguments.exporting.only,
          "Export only the paths that match a pattern, such as 'model/**'. May be given several times")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--dtype", arguments.exporting.dtype,
          "Cast arrays, also where that loses values: bfloat16, float32 (a floating-point type leaves "
          "integers as they are)")
      ->type_name("DTYPE");
  command
      ->add_option("--separator", arguments.exporting.separator,
                   "Text between the keys of a path, in the names of arrays; of safetensors and hf")
      ->capture_default_str();
  command
      ->add_option("--max-file", arguments.exporting.max_file_bytes,
                   "Largest size of a file of --format hf, dcp or torch_dist (default 5GiB)")
      ->type_name("SIZE")
      ->transform(cairn::cli::size_in_bytes());
  command->add_flag("--first-names", arguments.exporting.first_names_only,
                    "Write an array that has several names (tied weights) under its first name only");
  command->add_flag(
      "--leave-out", arguments.exporting.leaves_out,
      "Export the arrays even if the files of another program hold more that cannot be exported (sparse and "
      "quantised tensors, objects), and name what is left out");
  add_renames(*command, arguments);
  add_layout(*command, arguments);
  return command;
}

constexpr std::uint64_t kMostParts = 100'000;

CLI::App* add_reshard(CLI::App& app, Arguments& arguments) {
  CLI::App* command =
      add_command(app, "reshard", "Rewrite a checkpoint with its arrays divided differently", arguments);
  cairn::cli::RecutArguments& how = arguments.recutting;
  command->add_option("SOURCE", arguments.path, "A checkpoint, or a file or folder of another program")
      ->required();
  add_layout(*command, arguments);
  command->add_option("TARGET", arguments.other, "The checkpoint to write; it must not exist yet")
      ->required();
  command->add_option("--name", arguments.name, "The checkpointable (default: all that have arrays)");
  command->add_option("--parts", how.parts, "Divide each array into that many equal parts, in as many files")
      ->transform(cairn::cli::whole_number(1, kMostParts));
  command->add_option("--axis", how.axis, "The axis along which --parts divides arrays (default 0)")
      ->transform(cairn::cli::whole_number(0, cairn::kMaxRank - 1));
  command->add_option("--max-file", how.max_file_bytes, "Largest size of a file, for example 500MiB")
      ->type_name("SIZE")
      ->transform(cairn::cli::size_in_bytes());
  command->add_flag("--one-file", how.is_one_file, "Write all arrays, whole, into one file");
  command
      ->add_option(
          "--tiles", how.tile_bytes,
          "Divide arrays into tiles of at most this size, for example 16MiB, so that any box is quick to "
          "read")
      ->type_name("SIZE")
      ->transform(cairn::cli::size_in_bytes());
  return command;
}

CLI::App* add_copy(CLI::App& app, Arguments& arguments) {
  CLI::App* command = add_command(
      app, "copy", "Copy a checkpoint as it is, compared with its checksums on the way", arguments);
  command->add_option("FROM", arguments.path, "A checkpoint")->required();
  command->add_option("TO", arguments.other, "The checkpoint to make, or one that is the same")->required();
  command->add_flag("--overwrite", arguments.overwrites, "Replace another checkpoint at TO");
  return command;
}

CLI::App* add_prune(CLI::App& app, Arguments& arguments) {
  CLI::App* prune = add_command(
      app, "prune",
      "List which steps of a training would be removed, and why others stay; --remove removes them",
      arguments);
  prune->add_option("ROOT", arguments.path, "A directory of steps")->required();
  add_wide(*prune, arguments);
  using cairn::cli::whole_number;
  cairn::cli::PruneArguments& how = arguments.prune;
  CLI::Option_group* kept =
      prune->add_option_group("Kept", "A step stays if any of these keeps it; at least one is required");
  kept->add_option("--latest", how.latest, "The N highest steps")->type_name("N")->transform(whole_number(0));
  kept->add_option("--every-steps", how.every_steps, "Multiples of N")
      ->type_name("N")
      ->transform(whole_number(1));
  kept->add_option("--steps-apart", how.steps_apart, "Each step that is at least N above the one kept before")
      ->type_name("N")
      ->transform(whole_number(1));
  kept->add_option("--nearest-to-every", how.nearest_to_every, "The step nearest to each multiple of N")
      ->type_name("N")
      ->transform(whole_number(1));
  kept->add_option("--seconds-apart", how.seconds_apart,
                   "Each step that was committed at least S seconds after the one kept before")
      ->type_name("S")
      ->transform(cairn::cli::number(kLeastIntervalSeconds));
  kept->add_option("--younger-than", how.younger_than, "Steps that were committed less than S seconds ago")
      ->type_name("S")
      ->transform(cairn::cli::number(0));
  kept->add_option("--steps", how.steps, "These steps")
      ->type_name("STEP,...")
      ->delimiter(',')
      ->transform(whole_number(0));
  kept->add_option("--best", how.best, "The N best by a metric")->type_name("METRIC:N:lower|higher");
  prune->add_option("--prefix", how.prefix, "Prefix of step names");
  prune
      ->add_option("--width", how.width,
                   "Digits of the number in step names, with leading zeros (default 0: as many as it needs)")
      ->transform(whole_number(0, kMostDigits));
  prune->add_flag("--rewound", how.is_of_rewound,
                  "Instead list what rewinds of the training have set aside; --remove removes all of it");
  prune->add_flag("--remove", arguments.removes, "Remove the steps; without this nothing is changed");
  return prune;
}

CLI::App* add_unrewind(CLI::App& app, Arguments& arguments) {
  CLI::App* unrewind = add_command(
      app, "unrewind", "Bring back the steps that a rewind of a training has set aside", arguments);
  unrewind->add_option("ROOT", arguments.path, "A directory of steps")->required();
  unrewind->add_option(
      "LINE", arguments.name,
      "The line of steps, as ls of ROOT names it (default: the one that was set aside last)");
  return unrewind;
}

constexpr std::uint64_t kMostRestarts = 1'000'000;

CLI::App* add_agent(CLI::App& app, Arguments& arguments) {
  using cairn::cli::AgentDeed;
  cairn::cli::AgentArguments& how = arguments.agent;
  CLI::App* agent = app.add_subcommand(
      "agent",
      "Supervise a program that keeps steps in memory, and copy its newest step to disk when it dies");
  agent->add_option("--memory", arguments.path, "The directory in memory (a tmpfs) that holds the steps")
      ->required();
  agent->add_option(
      "--root", arguments.other,
      "The directory of steps on disk (default: the one that the memory names; required to supervise)");
  agent
      ->add_option("--grace", how.grace_seconds,
                   "How long a program that was told to end may take for a newer step")
      ->type_name("S")
      ->transform(cairn::cli::number(0))
      ->capture_default_str();
  agent->add_option("--restarts", how.restarts, "How often a program that fails is started again, in all")
      ->type_name("N")
      ->transform(cairn::cli::whole_number(0, kMostRestarts))
      ->capture_default_str();
  agent->add_flag("--detach", how.is_detached,
                  "Run in the background, and end together with the program that uses the memory now");
  agent->add_option(
      "PROGRAM", how.program,
      "After --: a program and its arguments (default: supervise the programs that use the memory)");
  const auto add = [&](AgentDeed deed, const std::string& name, const std::string& help) {
    CLI::App* one = agent->add_subcommand(name, help)->fallthrough();
    one->callback([&how, deed] { how.deed = deed; });
    return one;
  };
  const auto add_with_json = [&](AgentDeed deed, const std::string& name, const std::string& help) {
    CLI::App* one = add(deed, name, help);
    one->add_flag("--json", arguments.is_json, "Answer in JSON");
    return one;
  };
  add_with_json(AgentDeed::status, "status",
                "List the steps in memory, their state, and the process that uses it");
  add_with_json(AgentDeed::persist, "persist", "Copy the newest step in memory to disk, or another one")
      ->add_option("STEP", how.step, "The step to copy (default: the newest, if no step on disk is as new)")
      ->transform(cairn::cli::whole_number(0));
  add(AgentDeed::stop, "stop", "End the agent that supervises the memory, and wait until it has ended");
  add_with_json(AgentDeed::clean, "clean",
                "Free the memory of steps that are on disk, and memory that is reserved for later steps")
      ->add_flag("--all", how.all, "Free all steps, also those that are not on disk");
  add_with_json(AgentDeed::check, "check",
                "Measure the memory and the disk, and report what is wrong with the memory");
  return agent;
}

CLI::App* add_completion(CLI::App& app, Arguments& arguments) {
  CLI::App* completion =
      app.add_subcommand("completion", "Print the script by which a shell completes the words of cairn");
  completion->add_option("SHELL", arguments.name, "bash, zsh or fish")
      ->required()
      ->transform(cairn::cli::one_of({"bash", "zsh", "fish"}));
  return completion;
}

/// How many words stand behind the first "--".
std::size_t words_behind_dashes(std::span<char* const> words) {
  const auto dashes = std::find_if(words.begin(), words.end(),
                                   [](const char* word) { return std::string_view(word) == "--"; });
  return dashes == words.end() ? 0 : static_cast<std::size_t>(words.end() - dashes) - 1;
}

int print_asked(const std::string& text) {
  try {
    Output out(stdout);
    out.write(text);
    out.flush();
    return 0;
  } catch (const std::exception& error) {
    cairn::cli::complain(error.what());
    return kFailed;
  }
}

int run(const CLI::App& app, const Command& command, const Arguments& arguments) {
  try {
    Output out(stdout);
    if (arguments.is_wide) {
      out.set_width(0);
    }
    const int status = command.run(arguments, out);
    out.flush();
    return status;
  } catch (const cairn::cli::UsageError& error) {
    cairn::cli::complain_of_usage(app, error.what());
    return kWrongUsage;
  } catch (const cairn::cli::Interrupted& stop) {
    cairn::cli::complain(stop.what());
    cairn::cli::end_by(stop.number());
  } catch (...) {
    std::vector<std::filesystem::path> typed = arguments.paths;
    typed.insert(typed.end(), {arguments.path, arguments.other});
    cairn::cli::complain(cairn::cli::as_typed(cairn::describe(std::current_exception()), typed));
    return command.failed;
  }
}

/// The parser of the tool, without its commands.
void describe_tool(CLI::App& app, const std::string& version) {
  app.description(
      "Lists, describes, shows, verifies, compares, exports, reshards, copies, recovers and prunes "
      "checkpoints, brings back steps that a rewind of a training has set aside, and supervises programs "
      "that keep steps in memory.");
  app.set_version_flag("--version", version);
  const std::size_t width = Output(stdout).width();
  app.formatter(std::make_shared<cairn::cli::HelpFormatter>(width == 0 ? kHelpColumns : width));
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 for success; 1 for damage and other failures, with one line on standard error; 2 for "
      "wrong usage. diff: 0 when the two are equal, 1 when they differ, 2 for failures and wrong usage. "
      "agent: that of its program.");
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that has seen enough, such as head, ends the tool quietly, even where a parent ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  Arguments arguments;
  CLI::App app("", "cairn");
  const std::string version =
      fmt::format("cairn {}.{}.{}", CAIRN_VERSION_MAJOR, CAIRN_VERSION_MINOR, CAIRN_VERSION_PATCH);
  describe_tool(app, version);
  const std::array<Command, 12> commands{{{add_ls(app, arguments), &cairn::cli::ls},
                                          {add_inspect(app, arguments), &cairn::cli::inspect},
                                          {add_show(app, arguments), &cairn::cli::show},
                                          {add_verify(app, arguments), &cairn::cli::verify},
                                          {add_diff(app, arguments), &cairn::cli::diff, kDiffFailed},
                                          {add_export(app, arguments), &cairn::cli::export_arrays},
                                          {add_reshard(app, arguments), &cairn::cli::reshard},
                                          {add_copy(app, arguments), &cairn::cli::copy},
                                          {add_recover(app, arguments), &cairn::cli::recover},
                                          {add_prune(app, arguments), &cairn::cli::prune},
                                          {add_unrewind(app, arguments), &cairn::cli::unrewind},
                                          {add_agent(app, arguments), &cairn::cli::agent}}};
  const CLI::App* const completion = add_completion(app, arguments);
  // Packages are built with what it prints; nobody types it.
  const CLI::App* const manual = app.add_subcommand("manual", "Print the manual page")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      std::ostringstream asked;
      app.exit(error, asked);  // Help or the version was asked for.
      return print_asked(asked.str());
    }
    cairn::cli::complain_of_usage(app, cairn::cli::usage_problem(app, error));
    return kWrongUsage;
  }
  if (completion->parsed() || manual->parsed()) {
    return print_asked(manual->parsed() ? cairn::cli::manual_page(app, version)
                                        : cairn::cli::completion_script(app, arguments.name));
  }
  const std::string problem =
      cairn::cli::program_problem(*commands.back().parser, arguments.agent.program,
                                  words_behind_dashes(std::span(argv, static_cast<std::size_t>(argc))));
  if (!problem.empty()) {
    cairn::cli::complain_of_usage(app, problem);
    return kWrongUsage;
  }
  return run(app,
             *std::find_if(commands.begin(), commands.end(),
                           [](const Command& each) { return each.parser->parsed(); }),
             arguments);
}
