// SPDX-License-Identifier: Apache-2.0
#include "training/run_history.hpp"

#include <system_error>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/json_reader.hpp"
#include "base/internal/json_writer.hpp"
#include "io/internal/file.hpp"
#include "io/internal/remove_directory.hpp"
#include "store/internal/uuid.hpp"
#include "training/remover.hpp"

namespace cairn::training {
namespace {

using Seconds = std::chrono::seconds;

constexpr std::size_t kMostBytes = 4096;
constexpr std::string_view kUnfinished = ".new";  // What a kill leaves of a file that was to be replaced.
constexpr std::uint64_t kLatestSecond = 9'000'000'000;  // What nanoseconds of 64 bits can tell.

std::uint64_t seconds_of(std::chrono::system_clock::time_point time) {
  const auto seconds = std::chrono::floor<Seconds>(time.time_since_epoch()).count();
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(seconds, 0, kLatestSecond));
}

/// How one program went.
struct Record {
  std::uint64_t begun = 0;  ///< Seconds since 1970.
  std::uint64_t seen = 0;
  bool is_closed = false;
  std::optional<bool> has_found;  ///< The steps of the run in memory; nothing: it keeps none there.
};

bool is_true(const JsonScalar& scalar) {
  const bool* value = std::get_if<bool>(&scalar);
  return value != nullptr && *value;
}

/// Returns whether steps on disk were needed: a program has failed that kept none in memory, or after one that did the
/// next has found none there.
bool is_loss(const Record& record, bool has_failed_before) {
  return record.has_found ? !*record.has_found && has_failed_before : !record.is_closed;
}

std::string encode(const Record& record) {
  std::string text;
  JsonWriter writer(text);
  writer.begin_object().key("begun").value(record.begun).key("seen").value(record.seen);
  writer.key("closed").value(record.is_closed);
  if (record.has_found) {
    writer.key("found_memory").value(*record.has_found);
  }
  writer.end();
  return text;
}

/// Nothing for what is not a record.
std::optional<Record> decode(std::string_view text, std::string_view path) {
  try {
    Record record;
    JsonReader json(text, path);
    if (json.peek() != '{') {
      return std::nullopt;
    }
    json.begin_object();
    while (const auto key = json.next_key()) {
      if (*key == "begun") {
        record.begun = json.read_unsigned();
      } else if (*key == "seen") {
        record.seen = json.read_unsigned();
      } else if (*key == "closed") {
        record.is_closed = is_true(json.read_scalar());
      } else if (*key == "found_memory") {
        record.has_found = is_true(json.read_scalar());
      } else {
        json.skip_value();
      }
    }
    json.finish();
    const bool is_possible = record.begun <= record.seen && record.seen <= kLatestSecond;
    return is_possible ? std::optional(record) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// So that names are in the order in which programs began.
std::string name_of(std::chrono::system_clock::time_point begun, const Context& context) {
  return fmt::format("{:010}-{}", seconds_of(begun),
                     store::to_string(store::make_uuid(context.options().random)));
}

std::optional<io::Directory> open_if_there(const io::Directory& parent, std::string_view name) {
  const std::optional<io::FileStatus> status = parent.status(name);
  const bool is_directory = status && status->kind == io::FileKind::directory;
  return is_directory ? std::optional(parent.open_directory(name)) : std::nullopt;
}

}  // namespace

RunHistory::RunHistory(const std::filesystem::path& root, bool is_kept, const Context& context)
    : root_(root),
      is_kept_(is_kept),
      syscalls_(syscalls_of(context)),
      clock_(clock_of(context)),
      begun_(clock_.now()),
      name_(name_of(begun_, context)) {
  if (is_kept_) {
    try {
      read();
    } catch (const Error&) {  // What was read until then counts.
    }
  }
}

void RunHistory::read() {
  const std::optional<io::Directory> runs = open_if_there(io::Directory::open(syscalls_, root_), kRunsName);
  if (!runs) {
    return;
  }
  std::vector<io::DirectoryEntry> entries = runs->list();
  const std::size_t excess = entries.size() - std::min(entries.size(), kMostRuns);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const io::DirectoryEntry& entry = entries[i];
    if (entry.kind != io::FileKind::regular) {
      continue;
    }
    try {
      if (i < excess) {
        io::remove_if_there([&] { runs->remove_file(entry.name); });
      } else if (entry.name.ends_with(kUnfinished)) {
        continue;
      } else if (const auto record = decode(io::read_small_file(*runs, entry.name, kMostBytes), entry.name)) {
        earlier_.losses += is_loss(*record, has_failed_before_) ? 1 : 0;
        ++earlier_.programs;
        earlier_.failures += record->is_closed ? 0 : 1;
        earlier_.lived += Seconds(record->seen - record->begun);
        has_failed_before_ = !record->is_closed;
      }
    } catch (const Error&) {  // It was replaced or removed meanwhile, is another's, or may not be removed.
    }
  }
}

void RunHistory::enter(bool is_closed) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (is_kept_ && (is_entered_ || !is_closed)) {
      write(is_closed);
      is_entered_ = true;
    }
  } catch (...) {  // The next step tries again.
  }
}

void RunHistory::write(bool is_closed) const {
  const io::Directory root = io::Directory::open(syscalls_, root_);
  std::optional<io::Directory> runs = open_if_there(root, kRunsName);
  if (!runs) {
    runs = root.make_directory(kRunsName);
  }
  Record record;
  record.begun = seconds_of(begun_);
  record.seen = std::max(record.begun, seconds_of(clock_.now()));
  record.is_closed = is_closed;
  record.has_found = has_found_;
  const std::string next = fmt::format("{}{}", name_, kUnfinished);
  io::remove_if_there([&] { runs->remove_file(next); });
  io::write_small_file(*runs, next, encode(record));
  runs->rename(next, *runs, name_, io::RenameMode::replace);
}

FailureHistory RunHistory::failures() const {
  FailureHistory all = earlier_;
  const auto lived = std::chrono::duration_cast<std::chrono::nanoseconds>(clock_.now() - begun_);
  all.losses += has_found_ && !*has_found_ && has_failed_before_ ? 1 : 0;
  ++all.programs;
  all.lived += std::max(lived, std::chrono::nanoseconds(0));
  return all;
}

std::chrono::nanoseconds RunHistory::mtbf() const {
  FailureHistory all = failures();
  all.failures = has_found_ ? all.losses : all.failures;
  return estimated_mtbf(all);
}

}  // namespace cairn::training
