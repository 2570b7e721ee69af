// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include "cairn/base/error.hpp"

#include "cli/commands.hpp"

namespace {

using cairn::cli::Arguments;
using cairn::cli::Output;

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

constexpr const char* kPathHelp =
    "A checkpoint, the directory of one of its checkpointables, a safetensors file or a folder of them";

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& help, Arguments& arguments) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("PATH", arguments.path, kPathHelp)->required();
  command->add_flag("--json", arguments.is_json, "Answer in JSON");
  return command;
}

int run(const CLI::App& app, const Arguments& arguments) {
  Output out(stdout);
  int status = 0;
  if (app.got_subcommand("ls")) {
    status = cairn::cli::ls(arguments, out);
  } else if (app.got_subcommand("inspect")) {
    status = cairn::cli::inspect(arguments, out);
  } else {
    status = cairn::cli::verify(arguments, out);
  }
  out.flush();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that has seen enough, such as head, ends the tool quietly, even where a parent ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  Arguments arguments;
  CLI::App app("Lists, describes and verifies checkpoints.", "cairn");
  app.set_version_flag("--version", "cairn " CAIRN_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0; 1 when something is wrong, with one line on standard error; 2 for wrong usage.");

  CLI::App* ls =
      add_command(app, "ls", "List the checkpointables, or the checkpoints of a directory", arguments);
  ls->add_flag("--all", arguments.lists_arrays, "List every array too");
  CLI::App* inspect =
      add_command(app, "inspect", "Show handlers, types, shapes, dtypes and sizes", arguments);
  inspect->add_option("NAME", arguments.name, "One checkpointable; without it, all");
  CLI::App* verify = add_command(app, "verify", "Compare every byte with the checksums", arguments);
  verify->add_option("--threads", arguments.threads, "Threads that read and hash; 0: one for each core");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  try {
    return run(app, arguments);
  } catch (...) {
    cairn::cli::complain(cairn::describe(std::current_exception()));
    return kFailed;
  }
}
