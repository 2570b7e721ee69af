// SPDX-License-Identifier: Apache-2.0
#include "training/step_links.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "io/internal/check.hpp"
#include "io/internal/remove_directory.hpp"

namespace cairn::training {
namespace {

/// Whether there is such a link.
///
/// Errors: Errc::already_exists.
bool has_link(const io::Directory& root, const std::string& name) {
  const std::optional<io::FileStatus> status = root.status(name);
  if (status && status->kind != io::FileKind::symlink) {
    throw Error(Errc::already_exists,
                fmt::format("{} is not a link, and is not replaced by one", (root.path() / name).string()));
  }
  return status.has_value();
}

}  // namespace

std::optional<std::uint64_t> best_of(std::span<const StepInfo> steps, const std::string& metric,
                                     Prefer prefer) {
  const KeepPolicy policy = keep::best(metric, 1, prefer, Unmeasured::drop);
  const std::vector<bool> is_best = policy(steps, CommitTime());
  const auto found = std::find(is_best.begin(), is_best.end(), true);
  if (found == is_best.end()) {
    return std::nullopt;
  }
  return steps[static_cast<std::size_t>(found - is_best.begin())].step;
}

void StepLinks::update(std::span<const StepInfo> steps) const {
  if (options_.latest) {
    update("latest", steps.empty() ? std::nullopt : std::optional(steps.back().step));
  }
  const std::string& metric = options_.best_metric;
  if (!metric.empty()) {
    const bool is_known = std::any_of(steps.begin(), steps.end(),
                                      [&](const StepInfo& each) { return each.metrics.count(metric) != 0; });
    update("best", is_known ? best_of(steps, metric, options_.best_prefer) : std::nullopt);
  }
}

void StepLinks::update(std::string_view name, std::optional<std::uint64_t> step) const {
  const io::Directory root = io::Directory::open(syscalls_, directory_.root());
  const std::string link(name);
  const std::string next = "." + link;  // A crash may have left one.
  const bool is_there = has_link(root, link);
  if (has_link(root, next)) {
    io::remove_if_there([&] { root.remove_file(next); });
  }
  if (step) {
    const std::string target = directory_.entry(*step).filename().string();
    io::require(syscalls_.symlink_at(target.c_str(), root.fd(), next.c_str()), "symlink", root.path() / next);
    root.rename(next, root, link, io::RenameMode::replace);
  } else if (is_there) {
    io::remove_if_there([&] { root.remove_file(link); });
  }
  root.sync();  // Before the step goes that it has led to.
}

}  // namespace cairn::training
