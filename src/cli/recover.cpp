// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <algorithm>
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

#include "cairn/base/error.hpp"

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/report.hpp"
#include "cli/rewound.hpp"
#include "cli/text.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/internal/listing.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using Clock = fs::file_time_type::clock;
using store::EntryClass;
using store::RecoveryAction;
using store::RecoveryEntry;

/// The bytes and files of a directory, as far as it can be looked at.
struct Extent {
  std::uint64_t bytes = 0;
  fs::file_time_type changed = fs::file_time_type::min();  ///< The latest change of anything in it.
};

void include(Extent& extent, const fs::path& path) {
  std::error_code ignored;
  const auto kind = fs::symlink_status(path, ignored).type();
  if (kind != fs::file_type::regular && kind != fs::file_type::directory) {
    return;
  }
  if (const auto time = fs::last_write_time(path, ignored); !ignored) {
    extent.changed = std::max(extent.changed, time);
  }
  if (kind == fs::file_type::regular) {
    const std::uintmax_t bytes = fs::file_size(path, ignored);
    extent.bytes += ignored ? 0 : bytes;
  }
}

/// Symbolic links are not followed.
Extent measure(const fs::path& path) {
  Extent extent;
  include(extent, path);
  std::error_code stopped;
  fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, stopped);
  while (!stopped && at != fs::recursive_directory_iterator()) {
    include(extent, at->path());
    at.increment(stopped);
  }
  return extent;
}

/// An entry of the directory, with what it took before anything was done to it.
struct Line {
  RecoveryEntry entry;
  std::optional<Extent> extent;  ///< Of what is ours.

  [[nodiscard]] std::uint64_t bytes() const { return extent ? extent->bytes : 0; }

  [[nodiscard]] std::optional<std::chrono::seconds> age() const {
    if (!extent || extent->changed == fs::file_time_type::min()) {
      return std::nullopt;
    }
    const auto age = std::chrono::floor<std::chrono::seconds>(Clock::now() - extent->changed);
    return std::max(age, std::chrono::seconds(0));
  }
};

/// Exports of earlier versions wrote `.export-<name>-<uuid>`, which does not say who writes it. Returns the name.
std::optional<std::string_view> name_of_old_export(std::string_view name) {
  constexpr std::string_view kBegin = ".export-";
  constexpr std::size_t kEndBytes = 37;  // "-<uuid>".
  if (!name.starts_with(kBegin) || name.size() <= kBegin.size() + kEndBytes) {
    return std::nullopt;
  }
  const std::string_view end = name.substr(name.size() - kEndBytes);
  if (end.front() != '-' || !store::parse_uuid(end.substr(1))) {
    return std::nullopt;
  }
  return name.substr(kBegin.size(), name.size() - kBegin.size() - kEndBytes);
}

/// Returns whether a directory holds nothing but what an export of that name writes.
bool holds_only_an_export(const fs::path& path, std::string_view name) {
  std::error_code failed;
  fs::directory_iterator at(path, failed);
  for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
    std::error_code unseen;
    const std::string file = at->path().filename().string();
    const bool is_named = file == name || file.ends_with(".safetensors") || file.ends_with(".index.json");
    if (!is_named || at->symlink_status(unseen).type() != fs::file_type::regular) {
      return false;
    }
  }
  return !failed;
}

/// Nobody locks what an old export writes: it was left when nothing in it has changed for a day.
void judge_old_export(const fs::path& root, Line& line) {
  constexpr std::chrono::hours kQuiet{24};
  const std::optional<std::string_view> name = name_of_old_export(line.entry.name);
  const fs::path path = root / line.entry.name;
  std::error_code unseen;
  if (!name || fs::symlink_status(path, unseen).type() != fs::file_type::directory ||
      !holds_only_an_export(path, *name)) {
    return;
  }
  line.extent = measure(path);
  const auto age = line.age();
  if (age && *age >= kQuiet) {
    line.entry.kind = EntryClass::abandoned;
    line.entry.action = RecoveryAction::remove;
    line.entry.note = "left by an export of an earlier version";
  } else {
    line.entry.kind = EntryClass::live;
    line.entry.note = "an export of an earlier version, which has written to it within a day";
  }
}

void remove_old_export(const fs::path& root, Line& line) {
  try {
    const io::Directory parent = io::Directory::open(io::posix_syscalls(), root);
    io::remove_directory(parent, line.entry.name, parent.open_directory(line.entry.name));
    line.entry.is_removed = true;
  } catch (const Error& error) {
    line.entry.has_failed = true;
    line.entry.note = error.what();
  }
}

bool is_removal(const Line& line) {
  return line.entry.action == RecoveryAction::remove;
}

/// The answer of the tool about a directory.
struct Answer {
  std::vector<Line> lines;
  training::Rewound rewound;  ///< No recovery touches it.
  bool is_dry = true;

  template <class Predicate>
  [[nodiscard]] std::uint64_t count(const Predicate& predicate) const {
    return static_cast<std::uint64_t>(std::count_if(lines.begin(), lines.end(), predicate));
  }
  [[nodiscard]] std::uint64_t count(EntryClass kind) const {
    return count([kind](const Line& line) { return line.entry.kind == kind; });
  }
  /// Returns what is removed, or would be.
  [[nodiscard]] std::uint64_t removals() const {
    return count([this](const Line& line) { return is_removal(line) && (is_dry || line.entry.is_removed); });
  }
  [[nodiscard]] std::uint64_t removed_bytes() const {
    std::uint64_t bytes = 0;
    for (const Line& line : lines) {
      bytes += is_removal(line) && (is_dry || line.entry.is_removed) ? line.bytes() : 0;
    }
    return bytes;
  }
};

/// Does what was planned; what it measured before is in the lines of the plan.
std::vector<Line> done_lines(const Arguments& arguments, store::RecoveryOptions options, const Answer& plan) {
  const auto line_of = [&plan](const std::string& name) {
    return std::find_if(plan.lines.begin(), plan.lines.end(),
                        [&name](const Line& line) { return line.entry.name == name; });
  };
  ProgressBar bar(stderr);
  std::uint64_t done_bytes = 0;
  options.dry_run = false;
  options.on_done = [&](const RecoveryEntry& entry) {
    const auto planned = line_of(entry.name);
    done_bytes += planned != plan.lines.end() && is_removal(*planned) ? planned->bytes() : 0;
    bar.update(done_bytes, plan.removed_bytes());
  };
  std::vector<Line> lines;
  for (RecoveryEntry& entry : store::recover(io::posix_syscalls(), arguments.path, options).entries) {
    Line line;
    if (const auto planned = line_of(entry.name); planned != plan.lines.end()) {
      line.extent = planned->extent;
    }
    line.entry = std::move(entry);
    if (line.entry.kind == EntryClass::foreign) {
      judge_old_export(arguments.path, line);
      if (is_removal(line)) {
        remove_old_export(arguments.path, line);
        options.on_done(line.entry);
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

Answer answer(const Arguments& arguments) {
  store::RecoveryOptions options;
  options.other_hosts = arguments.other_hosts;
  options.dry_run = true;
  Answer answer;
  // Sizes are of the plan, taken before there is nothing left to measure.
  for (RecoveryEntry& entry : store::recover(io::posix_syscalls(), arguments.path, options).entries) {
    Line line;
    if (entry.kind != EntryClass::foreign && entry.kind != EntryClass::committed) {
      line.extent = measure(arguments.path / entry.name);
    }
    line.entry = std::move(entry);
    if (line.entry.kind == EntryClass::foreign) {
      judge_old_export(arguments.path, line);
    }
    answer.lines.push_back(std::move(line));
  }
  answer.rewound = find_rewound(arguments.path);
  if (arguments.removes) {
    answer.lines = done_lines(arguments, options, answer);
    answer.is_dry = false;
  }
  return answer;
}

/// "remove" of a plan, "removed" of what was done.
std::string deed(const Line& line, bool is_dry) {
  const RecoveryAction action = line.entry.action;
  if (is_dry || action == RecoveryAction::keep) {
    return std::string(name(action));
  }
  if (line.entry.has_failed) {
    return "failed";
  }
  return action == RecoveryAction::remove    ? "removed"
         : action == RecoveryAction::restore ? "put back"
                                             : "unmarked";
}

/// A file of somebody else's: people are told how many there are.
bool is_ordinary(const Line& line) {
  return line.entry.kind == EntryClass::foreign && !store::is_called_like_ours(line.entry.name);
}

bool is_shown(const Line& line) {
  const bool is_in_order = line.entry.kind == EntryClass::committed && !line.entry.is_hidden;
  return !is_ordinary(line) && !(is_in_order && line.entry.action == RecoveryAction::keep);
}

ReportRow row_of(const Line& line, bool is_dry) {
  const RecoveryEntry& entry = line.entry;
  ReportRow row{"entries",
                {{deed(line, is_dry)},
                 text_cell(entry.name),
                 text_cell(name(entry.kind)),
                 text_cell(name(entry.action)),
                 {},
                 line.extent ? size_cell(line.bytes()) : Cell(),
                 age_cell(line.age()),
                 {printable(entry.note), [note = entry.note](JsonWriter& json) { json.value(note); }}}};
  if (!is_dry && entry.action != RecoveryAction::keep) {
    row.cells[4] = flag_cell(!entry.has_failed, "");
  }
  row.cells[0].is_bad = entry.has_failed || entry.kind == EntryClass::damaged;
  row.is_shown = is_shown(line);
  return row;
}

Report report_of(const fs::path& path, const Answer& answer) {
  Report report;
  report.line(path_text(path));
  report.member("path", text_cell(path.string()));
  report.member("is_dry_run", flag_cell(answer.is_dry, ""));
  ReportTable table{{{"ACTION"},
                     {"ENTRY", false, "name"},
                     {"CLASS", false, "class"},
                     {"", false, "action"},
                     {"", false, "is_done"},
                     {"SIZE", true, "bytes", 1},
                     {"AGE", true, "age_seconds", 2},
                     {"WHY", false, "why"}},
                    {"entries"}};
  for (const Line& line : answer.lines) {
    table.rows.push_back(row_of(line, answer.is_dry));
  }
  report.table(std::move(table));
  if (const std::uint64_t others = answer.count(is_ordinary); others != 0) {
    report.line(fmt::format("{} not Cairn's; --json names them", count_text(others, "other")));
  }
  const std::uint64_t removals = answer.removals();
  report.line(fmt::format(
      "{} {} {}, {}; kept: {}, {} damaged, {} in progress, {} foreign",
      answer.is_dry ? "would remove" : "removed", count_text(removals), removals == 1 ? "entry" : "entries",
      size_text(answer.removed_bytes()), count_text(answer.count(EntryClass::committed), "checkpoint"),
      count_text(answer.count(EntryClass::damaged)), count_text(answer.count(EntryClass::live)),
      count_text(answer.count(EntryClass::foreign))));
  if (answer.is_dry && removals != 0) {
    report.line("nothing was changed; use --remove to apply");
  }
  report.member("removed", count_cell(removals));
  report.member("removed_bytes", size_cell(answer.removed_bytes()));
  add_rewound(report, answer.rewound);
  return report;
}

/// Tells of the first thing that needs somebody's attention on standard error: the exit status.
int judge(const fs::path& path, const Answer& answer, Output& out) {
  const auto is_bad = [](const Line& line) {
    const RecoveryEntry& entry = line.entry;
    const bool is_lost = entry.kind == EntryClass::displaced && entry.action == RecoveryAction::keep;
    const bool is_unseen = entry.kind == EntryClass::unreadable && !entry.name.starts_with('.');
    return entry.has_failed || entry.kind == EntryClass::damaged || is_lost || is_unseen;
  };
  const auto bad = std::find_if(answer.lines.begin(), answer.lines.end(), is_bad);
  if (bad == answer.lines.end()) {
    return 0;
  }
  out.flush();
  const std::uint64_t others = answer.count(is_bad) - 1;
  complain(fmt::format("{}: {}: {}{}", (path / bad->entry.name).string(),
                       bad->entry.has_failed ? "not recovered" : name(bad->entry.kind), bad->entry.note,
                       others == 0 ? "" : fmt::format(" (and {})", count_text(others, "more problem"))));
  return 1;
}

}  // namespace

int recover(const Arguments& arguments, Output& out) {
  const Answer found = answer(arguments);
  report_of(arguments.path, found).answer(out, arguments.is_json);
  return judge(arguments.path, found, out);
}

}  // namespace cairn::cli
