// SPDX-License-Identifier: Apache-2.0
#include "training/step_links.hpp"

#include <system_error>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "io/internal/check.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/internal/uuid.hpp"
#include "training/root.hpp"

namespace cairn::training {
namespace {

/// Returns whether there is such a link.
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
    if (!steps.empty()) {
      throw Error(Errc::not_found, fmt::format("no step has a finite '{}'", metric));
    }
    return std::nullopt;
  }
  return steps[static_cast<std::size_t>(found - is_best.begin())].step;
}

std::vector<StepLinks::Wanted> StepLinks::wanted(std::span<const StepInfo> steps) const {
  std::vector<Wanted> links;
  const auto add = [&](const char* name, std::optional<std::uint64_t> step) {
    links.push_back({name, step ? std::optional(directory_.entry(*step).filename().string()) : std::nullopt});
  };
  if (options_.latest) {
    add("latest", steps.empty() ? std::nullopt : std::optional(steps.back().step));
  }
  const std::string& metric = options_.best_metric;
  if (!metric.empty()) {
    const bool is_known = std::any_of(steps.begin(), steps.end(), [&](const StepInfo& each) {
      const auto found = each.metrics.find(metric);
      return found != each.metrics.end() && std::isfinite(found->second);
    });
    add("best", is_known ? best_of(steps, metric, options_.best_prefer) : std::nullopt);
  }
  return links;
}

void StepLinks::update(std::span<const StepInfo> steps, const core::DiskCalls& calls, Timeout deadline) {
  const std::vector<Wanted> links = wanted(steps);
  if (links.empty()) {
    return;
  }
  calls.run(fmt::format("links of {}", directory_.root().string()), deadline,
            [calls, root = directory_.held_root(), links, turn = turn_, number = ++calls_] {
              const MutexLock lock(turn->mutex);
              if (number < turn->newest) {
                return;  // It has waited for longer than its call, and a later one was faster.
              }
              turn->newest = number;
              const std::optional<io::Directory> directory = root->open();
              for (const Wanted& each : directory ? links : std::vector<Wanted>()) {
                place(*directory, calls.syscalls(), each);
              }
            });
}

/// Another program that sets the same link may use the same name, or take away what this one has made under it: then
/// the link is made under a name of its own, which nobody takes. Not always, or a crash would leave one each time.
void StepLinks::place(const io::Directory& root, io::Syscalls& syscalls, const Wanted& wanted) {
  const std::string next = "." + wanted.name;  // A crash may have left one.
  const bool is_there = has_link(root, wanted.name);
  if (has_link(root, next)) {
    io::remove_if_there([&] { root.remove_file(next); });
  }
  if (wanted.target) {
    try {
      make_link(root, syscalls, next, wanted);
    } catch (const Error& error) {
      if (error.code() != std::errc::file_exists && error.code() != std::errc::no_such_file_or_directory) {
        throw;
      }
      const std::string own =
          fmt::format("{}-{}", next, store::to_string(store::make_uuid(store::system_random)));
      make_link(root, syscalls, own, wanted);
    }
  } else if (is_there) {
    io::remove_if_there([&] { root.remove_file(wanted.name); });
  }
  root.sync();  // Before the step goes that it has led to.
}

/// Under another name first, which gives way to the link's in one step.
void StepLinks::make_link(const io::Directory& root, io::Syscalls& syscalls, const std::string& next,
                          const Wanted& wanted) {
  io::require(
      io::uninterrupted([&] { return syscalls.symlink_at(wanted.target->c_str(), root.fd(), next.c_str()); }),
      "symlink", root.path() / next);
  root.rename(next, root, wanted.name, io::RenameMode::replace);
}

}  // namespace cairn::training
