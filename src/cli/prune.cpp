// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/api/maintain.hpp"
#include "cairn/base/error.hpp"
#include "cairn/core/context.hpp"
#include "cairn/training/keep_policy.hpp"
#include "cairn/training/step_directory.hpp"

#include "base/internal/clock.hpp"
#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/listing.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/report.hpp"
#include "cli/rewound.hpp"
#include "cli/steps.hpp"
#include "cli/text.hpp"
#include "cli/usage_error.hpp"

namespace cairn::cli {
namespace {

/// "loss:3:lower". A name may hold colons.
KeepPolicy best_of(const std::string& text) {
  const std::size_t last = text.rfind(':');
  const std::size_t before =
      last == std::string::npos || last == 0 ? std::string::npos : text.rfind(':', last - 1);
  std::size_t count = 0;
  if (before != std::string::npos && before != 0) {
    const std::string_view digits = std::string_view(text).substr(before + 1, last - before - 1);
    const std::string_view direction = std::string_view(text).substr(last + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    const bool is_count = error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
    if (is_count && count != 0 && (direction == "lower" || direction == "higher")) {
      return keep::best(text.substr(0, before), count, direction == "lower" ? Prefer::lower : Prefer::higher);
    }
  }
  throw UsageError(
      fmt::format("--best: '{}' is not METRIC:N:lower or METRIC:N:higher with N of at least 1", text));
}

KeepPolicy policy_of(const PruneArguments& how) {
  std::vector<KeepPolicy> policies;
  const auto add = [&policies](const auto& argument, const auto& make) {
    if (argument) {
      policies.push_back(make(*argument));
    }
  };
  const auto seconds = [](double count) { return std::chrono::duration<double>(count); };
  add(how.latest, [](std::uint64_t count) { return keep::latest(count); });
  add(how.every_steps, keep::every_steps);
  add(how.steps_apart, keep::steps_apart);
  add(how.nearest_to_every, keep::nearest_to_every);
  add(how.seconds_apart, [&](double count) { return keep::time_apart(seconds(count)); });
  add(how.younger_than, [&](double count) { return keep::younger_than(seconds(count)); });
  if (!how.steps.empty()) {
    policies.push_back(keep::at_steps(how.steps));
  }
  for (const std::string& best : how.best) {
    policies.push_back(best_of(best));
  }
  return keep::any_of(std::move(policies));
}

/// Refuses what does not say which steps stay, and what says so where it is not asked.
void require_policy(const KeepPolicy& policy, bool is_of_rewound) {
  if (policy.parts().empty() && !is_of_rewound) {
    throw UsageError(
        "nothing says which steps stay: give one or more of --latest, --every-steps, --steps-apart, "
        "--nearest-to-every, --seconds-apart, --younger-than, --steps, --best");
  }
  if (!policy.parts().empty() && is_of_rewound) {
    throw UsageError("--rewound removes all that was rewound: no option says which of it stays");
  }
}

StepFormat format_of(const PruneArguments& how) {
  try {
    return StepFormat(how.prefix, how.width);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--prefix: {}", error.what()));
  }
}

/// Checkpoints of the directory that are not steps: by their names, or because they have lost what makes them one.
struct Others {
  std::size_t count = 0;
  std::string first;
  std::size_t damaged = 0;  ///< Called like steps.
  std::string problem;      ///< Of the first of those.

  /// The options that read the first, if its name ends in a number.
  [[nodiscard]] std::string options() const {
    const std::size_t digits = first.find_last_not_of("0123456789") + 1;
    if (digits == first.size()) {
      return {};
    }
    std::string options = digits == 0 ? "" : fmt::format("--prefix '{}'", first.substr(0, digits));
    if (first[digits] == '0' && first.size() - digits > 1) {
      options += fmt::format("{}--width {}", options.empty() ? "" : " ", first.size() - digits);
    }
    return options;
  }
};

Others others_in(const std::filesystem::path& root, const StepDirectory& directory) {
  Others others;
  for (const store::FoundCheckpoint& each : find_checkpoints(root)) {
    const std::optional<std::uint64_t> step = directory.parse(each.name);
    if (each.counts() && step && !directory.has(*step) && !each.problem.empty()) {
      others.problem = others.damaged == 0 ? each.problem : others.problem;
      ++others.damaged;
    } else if (each.counts() && !step) {
      others.first = others.count == 0 ? each.name : others.first;
      ++others.count;
    }
  }
  return others;
}

ContextOptions small_context_of_prune() {
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  options.worker_threads = 1;
  return options;
}

/// The answer of the tool about a directory of steps.
struct PruneAnswer {
  std::vector<StepInfo> steps;
  Others others;
  RetentionPlan plan;
  bool is_dry = true;
  std::vector<std::string> failures;

  [[nodiscard]] std::uint64_t removed_bytes() const {
    std::uint64_t bytes = 0;
    for (const StepInfo& each : plan.removed) {
      bytes += each.bytes;
    }
    return bytes;
  }
};

/// Removes what the plan says, the lowest first; what cannot be removed is left, and taken out of the plan.
void remove_steps(PruneAnswer& answer, StepDirectory& directory, const Context& context) {
  std::vector<StepInfo> removed;
  const auto newest = std::find_if(answer.steps.rbegin(), answer.steps.rend(),
                                   [](const StepInfo& each) { return each.problem.empty(); });
  ProgressBar bar(stderr);
  std::uint64_t done_bytes = 0;
  const std::uint64_t total_bytes = answer.removed_bytes();
  for (StepInfo& each : answer.plan.removed) {
    bar.update(done_bytes, total_bytes);
    done_bytes += each.bytes;
    try {
      if (!directory.remove_unless_pinned(each.step, RemoveOptions(), context, newest->step)) {
        throw Error(Errc::invalid_argument,
                    fmt::format("step {} was pinned meanwhile, or is in use, or step {} is gone", each.step,
                                newest->step));
      }
      removed.push_back(std::move(each));
    } catch (const Error& error) {
      answer.failures.emplace_back(error.what());
      answer.plan.kept.push_back({each.step, fmt::format("not removed: {}", error.what())});
    }
  }
  answer.plan.removed = std::move(removed);
  std::sort(answer.plan.kept.begin(), answer.plan.kept.end(),
            [](const KeptStep& a, const KeptStep& b) { return a.step < b.step; });
}

PruneAnswer answer_of(const Arguments& arguments, const KeepPolicy& policy) {
  const Context context(small_context_of_prune());
  StepDirectoryOptions names;
  names.format = format_of(arguments.prune);
  StepDirectory directory(arguments.path, names, context);
  PruneAnswer answer;
  answer.steps = directory.infos();
  answer.others = others_in(arguments.path, directory);
  answer.plan = plan_retention(policy, answer.steps, system_clock().now());
  answer.is_dry = !arguments.removes;
  if (arguments.removes) {
    remove_steps(answer, directory, context);
  }
  return answer;
}

std::string why_kept(const PruneAnswer& answer, std::uint64_t step) {
  for (const KeptStep& each : answer.plan.kept) {
    if (each.step == step) {
      return each.why;
    }
  }
  return {};
}

Report report_of(const std::filesystem::path& path, const PruneAnswer& answer) {
  Report report;
  report.line(path_text(path));
  report.member("path", text_cell(path.string()));
  report.member("is_dry_run", flag_cell(answer.is_dry, ""));
  ReportTable table{{{"ACTION"},
                     {"STEP", true, "step"},
                     {"SIZE", true, "bytes", 1},
                     {"METRICS", false, "", 2},
                     {"WHY", false, "why"}},
                    {"kept", "removed"}};
  for (const StepInfo& each : answer.steps) {
    const std::string why = why_kept(answer, each.step);
    Cell size = size_cell(each.bytes);
    Cell metrics = metrics_cell(each.metrics);
    if (!why.empty()) {
      size.json = nullptr;
      metrics.json = nullptr;
    }
    table.rows.push_back({why.empty() ? "removed" : "kept",
                          {{!why.empty()    ? "keep"
                            : answer.is_dry ? "remove"
                                            : "removed"},
                           number_cell(each.step),
                           std::move(size),
                           std::move(metrics),
                           text_cell(why)}});
  }
  report.table(std::move(table));
  const std::size_t removals = answer.plan.removed.size();
  report.line(fmt::format("{} {}, {}; kept: {}", answer.is_dry ? "would remove" : "removed",
                          count_text(removals, "step"), size_text(answer.removed_bytes()),
                          count_text(answer.plan.kept.size())));
  report.member("removed_bytes", size_cell(answer.removed_bytes()));
  if (answer.is_dry && removals != 0) {
    report.line("nothing was changed; use --remove to apply");
  }
  if (answer.others.damaged != 0) {
    report.line(fmt::format("{} cannot be loaded and will stay: {}{}",
                            count_text(answer.others.damaged, "step"), printable(answer.others.problem),
                            answer.others.damaged == 1 ? "" : "; and others"));
  }
  if (answer.others.count != 0) {
    const std::string options = answer.others.options();
    report.line(
        fmt::format("{} not named like a step: '{}'{}{}", count_text(answer.others.count, "checkpoint"),
                    printable(answer.others.first), answer.others.count == 1 ? "" : " and others",
                    options.empty() ? "" : fmt::format("; use {} to read such names", printable(options))));
  }
  return report;
}

}  // namespace

int prune(const Arguments& arguments, Output& out) {
  const KeepPolicy policy = policy_of(arguments.prune);
  require_policy(policy, arguments.prune.is_of_rewound);
  if (arguments.prune.is_of_rewound) {
    return prune_rewound(arguments, out);
  }
  const PruneAnswer answer = answer_of(arguments, policy);
  report_of(arguments.path, answer).answer(out, arguments.is_json);
  if (answer.failures.empty()) {
    return 0;
  }
  out.flush();
  const std::size_t others = answer.failures.size() - 1;
  complain(fmt::format("{}{}", answer.failures.front(),
                       others == 0 ? "" : fmt::format(" (and {})", count_text(others, "more problem"))));
  return 1;
}

}  // namespace cairn::cli
