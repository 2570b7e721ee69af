// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/paths.hpp"
#include "cli/rewound.hpp"
#include "cli/text.hpp"
#include "store/internal/recovery.hpp"

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
    answer.lines.push_back(std::move(line));
  }
  answer.rewound = find_rewound(arguments.path);
  answer.is_dry = !arguments.removes;
  if (answer.is_dry) {
    return answer;
  }
  options.dry_run = false;
  std::vector<Line> lines;
  for (RecoveryEntry& entry : store::recover(io::posix_syscalls(), arguments.path, options).entries) {
    const auto same = std::find_if(answer.lines.begin(), answer.lines.end(),
                                   [&](const Line& line) { return line.entry.name == entry.name; });
    Line line;
    if (same != answer.lines.end()) {
      line.extent = same->extent;
    }
    line.entry = std::move(entry);
    lines.push_back(std::move(line));
  }
  answer.lines = std::move(lines);
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

void print_answer(Output& out, const fs::path& path, const Answer& answer) {
  out.print("{}\n\n", path_text(path));
  const auto is_shown = [](const Line& line) {
    return line.entry.kind != EntryClass::committed || line.entry.action != RecoveryAction::keep ||
           line.entry.is_hidden;
  };
  if (answer.count(is_shown) != 0) {
    const std::array<Column, 6> columns{
        {{"ACTION"}, {"ENTRY"}, {"CLASS"}, {"SIZE", true}, {"AGE", true}, {"WHY"}}};
    print_table(out, "", columns, [&](const RowVisitor& row) {
      for (const Line& line : answer.lines) {
        if (is_shown(line)) {
          const auto age = line.age();
          row({deed(line, answer.is_dry), printable(line.entry.name), std::string(name(line.entry.kind)),
               line.extent ? size_text(line.bytes()) : "-", age ? age_text(*age) : "-",
               printable(line.entry.note)});
        }
      }
    });
    out.write("\n");
  }
  const std::uint64_t removals = answer.removals();
  out.print("{} {} {}, {}; kept: {}, {} damaged, {} in progress, {} foreign\n",
            answer.is_dry ? "would remove" : "removed", count_text(removals),
            removals == 1 ? "entry" : "entries", size_text(answer.removed_bytes()),
            count_text(answer.count(EntryClass::committed), "checkpoint"),
            count_text(answer.count(EntryClass::damaged)), count_text(answer.count(EntryClass::live)),
            count_text(answer.count(EntryClass::foreign)));
  if (answer.is_dry && removals != 0) {
    out.write("nothing was changed; use --remove to apply\n");
  }
  print_rewound(out, answer.rewound);
}

void write_answer(JsonWriter json, const fs::path& path, const Answer& answer) {
  json.begin_object().key("path").value(path.string()).key("is_dry_run").value(answer.is_dry);
  json.key("entries").begin_list();
  for (const Line& line : answer.lines) {
    json.begin_object(JsonLayout::line).key("name").value(line.entry.name);
    json.key("class").value(name(line.entry.kind)).key("action").value(name(line.entry.action));
    if (!answer.is_dry && line.entry.action != RecoveryAction::keep) {
      json.key("is_done").value(!line.entry.has_failed);
    }
    if (line.extent) {
      json.key("bytes").value(line.bytes());
    }
    if (const auto age = line.age()) {
      json.key("age_seconds").value(static_cast<std::uint64_t>(age->count()));
    }
    json.key("why").value(line.entry.note).end();
  }
  json.end().key("removed").value(answer.removals()).key("removed_bytes").value(answer.removed_bytes());
  write_rewound(json, answer.rewound);
  json.end();
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
  if (arguments.is_json) {
    write_answer(json_to(out), arguments.path, found);
  } else {
    print_answer(out, arguments.path, found);
  }
  return judge(arguments.path, found, out);
}

}  // namespace cairn::cli
