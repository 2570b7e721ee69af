// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/text.hpp"
#include "cli/verification.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

std::uint64_t problem_count(const VerifyOutcome& outcome) {
  const std::uint64_t found = outcome.report ? outcome.report->problem_count : 0;
  return found + (outcome.target.problem.empty() ? 0 : 1);
}

void write_outcome(JsonWriter& json, const VerifyOutcome& outcome) {
  const store::VerifyReport report = outcome.report.value_or(store::VerifyReport());
  json.begin_object()
      .key("path")
      .value(outcome.target.path.string())
      .key("is_sound")
      .value(outcome.is_sound());
  const bool is_foreign = outcome.target.is_foreign;
  json.key("has_checksums").value(!is_foreign || outcome.members > 0);
  if (outcome.report && !is_foreign) {
    json.key("files").value(report.files);
  }
  json.key("bytes").value(outcome.report && !is_foreign ? report.bytes : outcome.target.bytes);
  if (is_foreign) {
    json.key("members").value(outcome.members).key("checked_bytes").value(report.bytes);
    json.key("unchecked_bytes").value(outcome.unchecked_bytes).key("unchecked_files").begin_list();
    for (const std::string& file : outcome.unchecked_files) {
      json.value(file);
    }
    json.end();
  }
  if (!outcome.target.problem.empty()) {
    json.key("problem").value(outcome.target.problem);
  }
  json.key("problem_count").value(problem_count(outcome)).key("problems").begin_list();
  for (const store::VerifyProblem& problem : report.problems) {
    json.begin_object(JsonLayout::line).key("file").value(problem.file);
    if (problem.rank) {
      json.key("rank").value(std::uint64_t{*problem.rank});
    }
    json.key("damage").value(name(problem.damage));
    if (problem.chunk) {
      json.key("chunk").value(*problem.chunk).key("begin").value(problem.begin_bytes);
      json.key("end").value(problem.end_bytes);
    }
    json.key("text").value(problem.text).end();
  }
  json.end().key("foreign").begin_list();
  for (const std::string& file : report.foreign) {
    json.value(file);
  }
  json.end();
  write_notes(json, outcome.notes);
  json.end();
}

void print_problems(Output& out, const store::VerifyReport& report) {
  for (const store::VerifyProblem& problem : report.problems) {
    out.print("{:<10}  {}\n", name(problem.damage), printable(problem.text));
  }
  if (report.problem_count > report.problems.size()) {
    out.print("… and {} more\n", count_text(report.problem_count - report.problems.size()));
  }
}

void print_report(Output& out, const fs::path& path, const store::VerifyReport& report) {
  print_problems(out, report);
  for (const std::string& file : report.foreign) {
    out.print("{:<10}  {}: not the checkpoint's\n", "foreign", path_text(path / file));
  }
  if (report.foreign_count > report.foreign.size()) {
    out.print("… and {} more foreign\n", count_text(report.foreign_count - report.foreign.size()));
  }
  out.print("{}: {} and {} checked, {}\n", path_text(path), count_text(report.files, "file"),
            size_text(report.bytes),
            report.is_sound() ? "every byte is as it was written"
                              : count_text(report.problem_count, "problem") + " found");
}

/// Files of other programs: what has no sum can only be compared with what else they say.
void print_foreign(Output& out, const VerifyOutcome& outcome) {
  const store::VerifyReport& report = *outcome.report;
  print_problems(out, report);
  print_notes(out, outcome.notes);
  std::string text;
  const std::string problems =
      report.is_sound() ? "" : count_text(report.problem_count, "problem") + " found";
  if (outcome.members > 0) {
    text = fmt::format("{} of archives and {} checked, {}", count_text(outcome.members, "member"),
                       size_text(report.bytes),
                       report.is_sound() ? "every byte of them is as it was written" : problems);
  } else {
    text = report.is_sound() ? "headers are valid" : problems;
  }
  if (outcome.unchecked_bytes > 0 || outcome.members == 0) {
    text += fmt::format("; {} of data have no checksums to verify", size_text(outcome.unchecked_bytes));
  }
  if (!outcome.unchecked_files.empty()) {
    constexpr std::size_t kMostNamed = 5;
    const std::size_t named = std::min(outcome.unchecked_files.size(), kMostNamed);
    const std::span<const std::string> names = std::span(outcome.unchecked_files).first(named);
    text += fmt::format(" ({}{})", printable(fmt::format("{}", fmt::join(names, ", "))),
                        named < outcome.unchecked_files.size() ? " and others" : "");
  }
  out.print("{}: {}\n", path_text(outcome.target.path), text);
}

/// Names the path once: as a rule the problem does.
void print_problem(Output& out, const VerifyTarget& target) {
  const std::string path = path_text(target.path);
  const std::string problem = printable(target.problem);
  out.print("{}{}\n", problem.starts_with(path) ? "" : path + ": ", problem);
}

void print_outcome(Output& out, const VerifyOutcome& outcome) {
  if (!outcome.target.aside.empty()) {
    out.print("{}: {}\n", path_text(outcome.target.path), printable(outcome.target.aside));
  } else if (outcome.report && outcome.target.is_foreign) {
    print_foreign(out, outcome);
  } else if (outcome.report) {
    print_report(out, outcome.target.path, *outcome.report);
  } else {
    print_problem(out, outcome.target);
  }
}

/// Everything that was asked for. One of several paths that cannot be opened does not keep the others from
/// being verified.
std::vector<VerifyTarget> all_targets(const std::vector<fs::path>& paths, const std::string& layout) {
  if (paths.size() == 1) {
    return verify_targets_of(paths.front(), layout);
  }
  std::vector<VerifyTarget> targets;
  for (const fs::path& path : paths) {
    try {
      const std::vector<VerifyTarget> some = verify_targets_of(path, layout);
      targets.insert(targets.end(), some.begin(), some.end());
    } catch (const Error& error) {
      VerifyTarget& target = targets.emplace_back();
      target.path = path;
      target.problem = as_typed(error.what(), std::span(&path, 1));
    }
  }
  return targets;
}

std::vector<VerifyOutcome> verify_with_bar(std::span<const VerifyTarget> targets,
                                           const Arguments& arguments) {
  ProgressBar bar(stderr);
  VerifyManyOptions options;
  options.jobs = arguments.jobs;
  options.threads = arguments.threads;
  options.progress = [&bar](std::uint64_t done_bytes, std::uint64_t total_bytes) {
    bar.update(done_bytes, total_bytes);
  };
  return verify_all(targets, options);
}

void write_list(JsonWriter json, std::span<const VerifyOutcome> outcomes) {
  const bool is_sound = std::all_of(outcomes.begin(), outcomes.end(),
                                    [](const VerifyOutcome& outcome) { return outcome.is_sound(); });
  json.begin_object().key("is_sound").value(is_sound).key("checkpoints").begin_list();
  for (const VerifyOutcome& outcome : outcomes) {
    if (outcome.target.aside.empty()) {
      write_outcome(json, outcome);
    }
  }
  json.end().key("others").begin_list();
  for (const VerifyOutcome& outcome : outcomes) {
    if (!outcome.target.aside.empty()) {
      json.begin_object(JsonLayout::line).key("path").value(outcome.target.path.string());
      json.key("why").value(outcome.target.aside).end();
    }
  }
  json.end().end();
}

void print_list(Output& out, std::span<const VerifyOutcome> outcomes) {
  std::uint64_t bytes = 0;
  for (const VerifyOutcome& outcome : outcomes) {
    print_outcome(out, outcome);
    bytes += outcome.report ? outcome.report->bytes : 0;
  }
  std::uint64_t count = 0;
  std::uint64_t sound = 0;
  for (const VerifyOutcome& outcome : outcomes) {
    const bool counts = outcome.target.aside.empty();
    count += counts ? 1 : 0;
    sound += counts && outcome.is_sound() ? 1 : 0;
  }
  out.print("{}, {} checked: {} sound, {} not\n", count_text(count, "checkpoint"), size_text(bytes), sound,
            count - sound);
}

/// Tells of the first problem on standard error: the exit status.
int judge(std::span<const VerifyOutcome> outcomes, Output& out) {
  std::string first;
  std::uint64_t problems = 0;
  for (const VerifyOutcome& outcome : outcomes) {
    problems += problem_count(outcome);
    if (first.empty() && !outcome.is_sound()) {
      first = outcome.report ? outcome.report->problems.front().text : outcome.target.problem;
    }
  }
  if (problems == 0) {
    return 0;
  }
  out.flush();
  complain(first + (problems == 1 ? "" : fmt::format(" (and {})", count_text(problems - 1, "more problem"))));
  return 1;
}

}  // namespace

int verify(const Arguments& arguments, Output& out) {
  const std::vector<VerifyTarget> targets = all_targets(arguments.paths, arguments.layout);
  const std::vector<VerifyOutcome> outcomes = verify_with_bar(targets, arguments);
  const bool is_list = arguments.paths.size() > 1 || targets.empty() || targets.front().is_listed;
  if (is_list && arguments.is_json) {
    write_list(json_to(out), outcomes);
  } else if (is_list) {
    print_list(out, outcomes);
  } else if (outcomes.front().target.problem.empty()) {
    if (arguments.is_json) {
      JsonWriter json = json_to(out);
      write_outcome(json, outcomes.front());
    } else {
      print_outcome(out, outcomes.front());
    }
  }
  return judge(outcomes, out);
}

}  // namespace cairn::cli
