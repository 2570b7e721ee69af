// SPDX-License-Identifier: Apache-2.0
#include "training/internal/rewound.hpp"

#include <system_error>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "store/internal/checkpoint_entries.hpp"
#include "store/internal/listing.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "training/internal/step_lines.hpp"
#include "training/own_directory.hpp"

namespace cairn::training {
namespace {

using std::chrono::sys_seconds;

constexpr std::size_t kTimeDigits = 10;
constexpr std::int64_t kLatestTime = 9'999'999'999;  // What ten digits can say.

/// The number that a part of a name is; nothing where it is none.
std::optional<std::uint64_t> number_of(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
  return is_number ? std::optional(number) : std::nullopt;
}

/// When the line of that name was set aside; nothing for any other name.
std::optional<sys_seconds> time_of_line(std::string_view name) {
  if (name.size() <= kTimeDigits || name[kTimeDigits] != '-' ||
      !store::parse_uuid(name.substr(kTimeDigits + 1))) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> seconds = number_of(name.substr(0, kTimeDigits));
  return seconds ? std::optional(sys_seconds(std::chrono::seconds(*seconds))) : std::nullopt;
}

/// Errors: Errc::not_found for what is no line; links are not followed.
io::Directory open_line(const io::Directory& root, const std::string& name) {
  const std::optional<io::FileStatus> status =
      time_of_line(name) ? root.status(fmt::format("{}/{}", kRewoundName, name)) : std::nullopt;
  if (!status || status->kind != io::FileKind::directory) {
    throw Error(Errc::not_found, fmt::format("'{}' is not a line that a rewind has set aside: {}", name,
                                             (root.path() / kRewoundName).string()));
  }
  return root.open_directory(fmt::format("{}/{}", kRewoundName, name));
}

store::ListOptions everything() {
  store::ListOptions options;
  options.everything = true;
  return options;
}

/// Removes the directory of a line, which is empty.
void remove_line(const io::Directory& root, const std::string& name) {
  const io::Directory rewound = root.open_directory(kRewoundName);
  rewound.remove_empty_directory(name);
  rewound.sync();
}

/// A name and the number in which it ends.
struct Numbered {
  std::string_view prefix;
  std::uint64_t number = 0;
};

std::optional<Numbered> numbered(std::string_view name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  const std::optional<std::uint64_t> number = number_of(name.substr(digits));
  return number ? std::optional(Numbered{name.substr(0, digits), *number}) : std::nullopt;
}

/// Returns whether the step called `a` comes after the one called `b`, or is the same in another width.
bool is_not_below(std::string_view a, std::string_view b) {
  const std::optional<Numbered> first = numbered(a);
  const std::optional<Numbered> second = numbered(b);
  return first && second && first->prefix == second->prefix && first->number >= second->number;
}

/// Errors: Errc::already_exists where the root has one of the checkpoints of a line, or a step after the lowest of
///         them.
void require_room(const io::Directory& root, const std::vector<store::CheckpointEntry>& line) {
  std::set<std::string, std::less<>> wanted;
  for (const store::CheckpointEntry& each : line) {
    wanted.insert(each.checkpoint);
  }
  const auto refuse = [&root](const std::string& name, std::string_view why) {
    throw Error(Errc::already_exists,
                fmt::format("{} is there{}, so nothing is moved", (root.path() / name).string(), why));
  };
  for (const store::CheckpointEntry& each : store::list_entries(root)) {
    if (wanted.contains(each.checkpoint)) {
      refuse(each.entry, "");
    }
    if (is_not_below(each.checkpoint, line.front().checkpoint)) {
      refuse(each.entry, fmt::format(", which is not below '{}'", line.front().checkpoint));
    }
  }
  for (const store::CheckpointEntry& each : line) {
    if (root.status(each.entry)) {
      refuse(each.entry, "");
    }
  }
}

/// Lists what lies in `.cairn-rewound`.
void list_lines(const io::Directory& root, Rewound& found) {
  const std::optional<io::FileStatus> status = root.status(kRewoundName);
  if (!status) {
    return;
  }
  const std::string path = (root.path() / kRewoundName).string();
  if (status->kind != io::FileKind::directory) {
    found.notes.push_back(fmt::format("{} is not a directory", path));
    return;
  }
  const io::Directory rewound = root.open_directory(kRewoundName);
  for (const io::DirectoryEntry& each : rewound.list()) {
    const bool is_directory = each.kind == io::FileKind::directory;
    const std::optional<sys_seconds> time = is_directory ? time_of_line(each.name) : std::nullopt;
    if (!time) {
      found.notes.push_back(fmt::format("{}/{} was not made by a rewind", path, each.name));
      continue;
    }
    RewoundLine& line = found.lines.emplace_back();
    line.name = each.name;
    line.time = *time;
    try {
      line.checkpoints = store::list_checkpoints(rewound.open_directory(each.name), everything());
    } catch (const Error& error) {
      line.problem = error.what();
    }
  }
}

}  // namespace

Rewound list_rewound(const io::Directory& root) {
  Rewound found;
  try {
    list_lines(root, found);
  } catch (const Error& error) {
    found.notes.emplace_back(error.what());
  }
  return found;
}

io::Directory make_rewound_line(const io::Directory& root, std::chrono::system_clock::time_point now,
                                const store::RandomSource& random) {
  const io::Directory rewound = open_own_directory(root, kRewoundName);
  std::int64_t seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  for (const io::DirectoryEntry& each : rewound.list()) {
    if (const std::optional<sys_seconds> time = time_of_line(each.name)) {
      seconds = std::max<std::int64_t>(seconds, time->time_since_epoch().count() + 1);
    }
  }
  seconds = std::clamp<std::int64_t>(seconds, 0, kLatestTime);
  const std::string name =
      fmt::format("{:0{}}-{}", seconds, kTimeDigits, store::to_string(store::make_uuid(random)));
  io::Directory line = rewound.make_directory(name);
  rewound.sync();
  return line;
}

BroughtBack bring_back(const io::Directory& root, const std::string& name) {
  const io::Directory line = open_line(root, name);
  const std::vector<store::CheckpointEntry> entries = store::list_entries(line);
  if (entries.empty()) {
    throw Error(Errc::not_found, fmt::format("there is no checkpoint in {}", line.path().string()));
  }
  for (const store::CheckpointEntry& each : entries) {
    if (!each.is_movable()) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{}: {}, so nothing is moved", (line.path() / each.entry).string(), each.note));
    }
  }
  require_room(root, entries);
  BroughtBack back;
  const std::optional<Numbered> lowest = numbered(entries.front().checkpoint);
  if (lowest && begin_line(root, lowest->number, store::system_random)) {
    back.images_given_up_from = lowest->number;
  }
  for (const store::CheckpointEntry& each : entries) {
    store::move_entry(line, each.entry, root);
    back.checkpoints.push_back(each.checkpoint);
  }
  if (line.list().empty()) {
    remove_line(root, name);
  }
  return back;
}

std::vector<std::string> remove_rewound(const io::Directory& root, const std::string& name,
                                        const store::RandomSource& random) {
  const io::Directory line = open_line(root, name);
  store::recover(
      open_line(root, name));  // What a removal has left goes, and what was displaced gets its name.
  std::map<std::string, std::string> why;
  const std::vector<store::FoundCheckpoint> found = store::list_checkpoints(line, everything());
  for (auto each = found.rbegin(); each != found.rend(); ++each) {
    if (!each->counts()) {
      continue;
    }
    try {
      const store::RemovalReport report = store::remove_checkpoint(line, each->name, random);
      why[each->name] = fmt::format("{}", fmt::join(report.kept, "; "));
    } catch (const Error& error) {
      if (error.code().category() != cairn_category()) {
        throw;
      }
      why[each->name] = error.what();
    }
  }
  std::vector<std::string> kept;
  for (const io::DirectoryEntry& each : line.list()) {
    const std::string& reason = why[each.name];
    kept.push_back(fmt::format("{} stays: {}", (line.path() / each.name).string(),
                               reason.empty() ? "nobody can tell whose it is" : reason));
  }
  if (kept.empty()) {
    remove_line(root, name);
  }
  return kept;
}

}  // namespace cairn::training
