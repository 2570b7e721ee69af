// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/text.hpp"
#include "cli/verification.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

std::uint64_t problem_count(const Verdict& verdict) {
  const std::uint64_t found = verdict.report ? verdict.report->problem_count : 0;
  return found + (verdict.subject.problem.empty() ? 0 : 1);
}

void write_verdict(JsonWriter& json, const Verdict& verdict) {
  const store::VerifyReport report = verdict.report.value_or(store::VerifyReport());
  json.begin_object()
      .key("path")
      .value(verdict.subject.path.string())
      .key("is_sound")
      .value(verdict.is_sound());
  json.key("has_checksums").value(!verdict.subject.is_foreign);
  if (verdict.report) {
    json.key("files").value(report.files);
  }
  json.key("bytes").value(verdict.report ? report.bytes : verdict.subject.bytes);
  if (!verdict.subject.problem.empty()) {
    json.key("problem").value(verdict.subject.problem);
  }
  json.key("problem_count").value(problem_count(verdict)).key("problems").begin_list();
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
  json.end().end();
}

void print_report(Output& out, const fs::path& path, const store::VerifyReport& report) {
  for (const store::VerifyProblem& problem : report.problems) {
    out.print("{:<10}  {}\n", name(problem.damage), printable(problem.text));
  }
  if (report.problem_count > report.problems.size()) {
    out.print("… and {} more\n", count_text(report.problem_count - report.problems.size()));
  }
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

/// Files of other programs have no checksums: only their headers can be checked.
void print_foreign(Output& out, const Subject& subject) {
  out.print("{}: headers are valid; {} of data have no checksums to verify\n", path_text(subject.path),
            size_text(subject.bytes));
}

/// Names the path once: as a rule the problem does.
void print_problem(Output& out, const Subject& subject) {
  const std::string path = path_text(subject.path);
  const std::string problem = printable(subject.problem);
  out.print("{}{}\n", problem.starts_with(path) ? "" : path + ": ", problem);
}

void print_verdict(Output& out, const Verdict& verdict) {
  if (!verdict.subject.aside.empty()) {
    out.print("{}: {}\n", path_text(verdict.subject.path), printable(verdict.subject.aside));
  } else if (verdict.report) {
    print_report(out, verdict.subject.path, *verdict.report);
  } else if (verdict.subject.problem.empty()) {
    print_foreign(out, verdict.subject);
  } else {
    print_problem(out, verdict.subject);
  }
}

/// Everything that was asked for. One of several paths that cannot be opened does not keep the others from
/// being verified.
std::vector<Subject> all_subjects(const std::vector<fs::path>& paths) {
  if (paths.size() == 1) {
    return subjects_of(paths.front());
  }
  std::vector<Subject> subjects;
  for (const fs::path& path : paths) {
    try {
      const std::vector<Subject> some = subjects_of(path);
      subjects.insert(subjects.end(), some.begin(), some.end());
    } catch (const Error& error) {
      Subject& subject = subjects.emplace_back();
      subject.path = path;
      subject.problem = as_typed(error.what(), std::span(&path, 1));
    }
  }
  return subjects;
}

std::vector<Verdict> verify_with_bar(std::span<const Subject> subjects, const Arguments& arguments) {
  ProgressBar bar(stderr);
  VerifyManyOptions options;
  options.jobs = arguments.jobs;
  options.threads = arguments.threads;
  options.progress = [&bar](std::uint64_t done_bytes, std::uint64_t total_bytes) {
    bar.update(done_bytes, total_bytes);
  };
  return verify_all(subjects, options);
}

void write_list(JsonWriter json, std::span<const Verdict> verdicts) {
  const bool is_sound = std::all_of(verdicts.begin(), verdicts.end(),
                                    [](const Verdict& verdict) { return verdict.is_sound(); });
  json.begin_object().key("is_sound").value(is_sound).key("checkpoints").begin_list();
  for (const Verdict& verdict : verdicts) {
    if (verdict.subject.aside.empty()) {
      write_verdict(json, verdict);
    }
  }
  json.end().key("others").begin_list();
  for (const Verdict& verdict : verdicts) {
    if (!verdict.subject.aside.empty()) {
      json.begin_object(JsonLayout::line).key("path").value(verdict.subject.path.string());
      json.key("why").value(verdict.subject.aside).end();
    }
  }
  json.end().end();
}

void print_list(Output& out, std::span<const Verdict> verdicts) {
  std::uint64_t bytes = 0;
  for (const Verdict& verdict : verdicts) {
    print_verdict(out, verdict);
    bytes += verdict.report ? verdict.report->bytes : 0;
  }
  std::uint64_t count = 0;
  std::uint64_t sound = 0;
  for (const Verdict& verdict : verdicts) {
    const bool counts = verdict.subject.aside.empty();
    count += counts ? 1 : 0;
    sound += counts && verdict.is_sound() ? 1 : 0;
  }
  out.print("{}, {} checked: {} sound, {} not\n", count_text(count, "checkpoint"), size_text(bytes), sound,
            count - sound);
}

/// Tells of the first problem on standard error: the exit status.
int judge(std::span<const Verdict> verdicts, Output& out) {
  std::string first;
  std::uint64_t problems = 0;
  for (const Verdict& verdict : verdicts) {
    problems += problem_count(verdict);
    if (first.empty() && !verdict.is_sound()) {
      first = verdict.report ? verdict.report->problems.front().text : verdict.subject.problem;
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
  const std::vector<Subject> subjects = all_subjects(arguments.paths);
  const std::vector<Verdict> verdicts = verify_with_bar(subjects, arguments);
  const bool is_list = arguments.paths.size() > 1 || subjects.empty() || subjects.front().is_listed;
  if (is_list && arguments.is_json) {
    write_list(json_to(out), verdicts);
  } else if (is_list) {
    print_list(out, verdicts);
  } else if (verdicts.front().subject.problem.empty()) {
    if (arguments.is_json) {
      JsonWriter json = json_to(out);
      write_verdict(json, verdicts.front());
    } else {
      print_verdict(out, verdicts.front());
    }
  }
  return judge(verdicts, out);
}

}  // namespace cairn::cli
