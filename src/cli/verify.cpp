// SPDX-License-Identifier: Apache-2.0
#include "cairn/io/verify.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/io/committed_directory.hpp"

#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/json_writer.hpp"
#include "cli/progress_bar.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

std::filesystem::path without_trailing_slash(const std::filesystem::path& path) {
  const std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

/// Whether `path` is the directory of a checkpointable of the checkpoint above it.
bool is_checkpointable(const std::filesystem::path& path) {
  try {
    const auto checkpoint = io::CommittedDirectory::open(io::posix_syscalls(), path.parent_path());
    const auto& entries = checkpoint.manifest().checkpointables;
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto& entry) { return entry.directory == path.filename(); });
  } catch (const Error& error) {
    if (error.code() == Errc::not_committed || error.code() == Errc::not_found) {
      return false;
    }
    throw;
  }
}

/// Nothing for files that no Cairn wrote.
std::optional<io::VerifyReport> check(const Arguments& arguments) {
  ProgressBar bar(stderr);
  io::VerifyOptions options;
  options.threads = arguments.threads;
  options.progress = [&bar](const io::VerifyProgress& progress) {
    bar.update(progress.checked_bytes, progress.total_bytes);
  };
  try {
    return io::verify(io::posix_syscalls(), arguments.path, options);
  } catch (const Error& error) {
    if (error.code() != Errc::not_committed) {
      throw;
    }
  }
  const std::filesystem::path path = without_trailing_slash(arguments.path);
  if (!is_checkpointable(path)) {
    return std::nullopt;
  }
  options.directory = path.filename();
  return io::verify(io::posix_syscalls(), path.parent_path(), options);
}

void write_report(JsonWriter json, const io::VerifyReport& report) {
  json.begin_object().key("path").text(report.path.string()).key("is_sound").boolean(report.is_sound());
  json.key("has_checksums").boolean(true).key("files").number(report.files).key("bytes").number(report.bytes);
  json.key("problem_count").number(report.problem_count).key("problems").begin_list();
  for (const io::VerifyProblem& problem : report.problems) {
    json.begin_object(JsonWriter::Layout::line).key("file").text(problem.file);
    json.key("damage").text(name(problem.damage));
    if (problem.chunk) {
      json.key("chunk").number(*problem.chunk).key("begin").number(problem.begin_bytes);
      json.key("end").number(problem.end_bytes);
    }
    json.key("text").text(problem.text).end();
  }
  json.end().end();
}

void print_report(Output& out, const io::VerifyReport& report) {
  for (const io::VerifyProblem& problem : report.problems) {
    out.print("{:<10}  {}\n", name(problem.damage), printable(problem.text));
  }
  if (report.problem_count > report.problems.size()) {
    out.print("… and {} more\n", count_text(report.problem_count - report.problems.size()));
  }
  out.print("{}: {} and {} checked, {}\n", printable(report.path.string()), count_text(report.files, "file"),
            size_text(report.bytes),
            report.is_sound() ? "every byte is as it was written"
                              : count_text(report.problem_count, "problem") + " found");
}

/// Files of other programs have no checksums: that their headers hold together is all that can be told.
int verify_foreign(const Arguments& arguments, Output& out) {
  const CheckpointMetadata metadata = describe(arguments.path);
  if (arguments.is_json) {
    JsonWriter json(out);
    json.begin_object().key("path").text(metadata.path.string()).key("is_sound").boolean(true);
    json.key("has_checksums").boolean(false).key("bytes").number(total_bytes(metadata));
    json.key("problem_count").number(0).key("problems").begin_list().end().end();
    return 0;
  }
  out.print("{}: the headers are sound; there are no checksums that could tell of the {} of data\n",
            printable(metadata.path.string()), size_text(total_bytes(metadata)));
  return 0;
}

}  // namespace

int verify(const Arguments& arguments, Output& out) {
  const std::optional<io::VerifyReport> report = check(arguments);
  if (!report) {
    return verify_foreign(arguments, out);
  }
  if (arguments.is_json) {
    write_report(JsonWriter(out), *report);
  } else {
    print_report(out, *report);
  }
  if (report->is_sound()) {
    return 0;
  }
  out.flush();
  const std::uint64_t others = report->problem_count - 1;
  complain(report->problems.front().text +
           (others == 0 ? "" : fmt::format(" (and {})", count_text(others, "more problem"))));
  return 1;
}

}  // namespace cairn::cli
