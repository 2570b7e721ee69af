// SPDX-License-Identifier: Apache-2.0
// cairn agent: supervises programs with steps in memory, and answers what is asked about such a memory.
#include "flash/internal/agent.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pwd.h>

#include "cairn/api/context.hpp"
#include "cairn/base/error.hpp"
#include "cairn/training/step_directory.hpp"

#include "base/internal/limits.hpp"
#include "cli/commands.hpp"
#include "cli/listing.hpp"
#include "cli/paths.hpp"
#include "cli/progress_bar.hpp"
#include "cli/report.hpp"
#include "cli/stop_signals.hpp"
#include "cli/text.hpp"
#include "cli/usage_error.hpp"
#include "flash/internal/run_images.hpp"
#include "store/internal/listing.hpp"
#include "store/internal/memory_mark.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

using flash::RunImages;

int supervise(const Arguments& arguments) {
  constexpr std::size_t kStagingBytes = std::size_t{32} << 20;
  if (arguments.other.empty()) {
    throw UsageError("--root is required: the directory of steps");
  }
  if (arguments.agent.is_detached && !arguments.agent.program.empty()) {
    throw UsageError("--detach is for an agent that runs no program");
  }
  flash::AgentOptions options;
  options.memory = arguments.path;
  options.root = arguments.other;
  options.program = arguments.agent.program;
  options.grace = Timeout(std::chrono::duration<double>(arguments.agent.grace_seconds));
  options.restarts = arguments.agent.restarts;
  options.is_detached = arguments.agent.is_detached;
  ContextOptions context;
  context.staging_bytes = kStagingBytes;
  return flash::run_agent(options, context);
}

RunImages images_of(const Arguments& arguments) {
  return {arguments.path, arguments.other, default_context()};
}

/// An image, whole or on its way.
struct ImageLine {
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;
  std::optional<std::chrono::seconds> age;
  std::string state;
  std::string on_disk;  ///< "yes", "no", "being copied", or "unknown": it cannot be read.
};

std::vector<ImageLine> lines_of(const RunImages& images) {
  using store::EntryClass;
  std::set<fs::path> written;
  for (const store::FoundCheckpoint& found : find_checkpoints(images.root())) {
    if (found.kind == EntryClass::live) {
      written.insert(images.root() / store::name_in_root(found));
    }
  }
  std::vector<ImageLine> lines;
  for (const store::FoundCheckpoint& found : find_checkpoints(images.images())) {
    const std::optional<std::uint64_t> step = StepFormat().parse(store::name_in_root(found));
    if (!step) {
      continue;
    }
    ImageLine line;
    line.step = *step;
    line.bytes = found.bytes;
    if (found.commit_time) {
      const auto age = std::chrono::system_clock::now() - *found.commit_time;
      line.age = std::max(std::chrono::floor<std::chrono::seconds>(age), std::chrono::seconds(0));
    }
    line.state = found.is_sound()                 ? images.refusal(*step) ? "other line" : "complete"
                 : found.kind == EntryClass::live ? "being filled"
                                                  : "damaged";
    const flash::Persisted persisted = images.persisted(*step);
    line.on_disk = persisted == flash::Persisted::yes        ? "yes"
                   : written.contains(images.on_disk(*step)) ? "being copied"
                   : persisted == flash::Persisted::unknown  ? "unknown"
                                                             : "no";
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string program_text(const store::ClaimLook& claim) {
  if (!claim.record) {
    return "none has filled it";
  }
  return fmt::format("process {} {}", claim.record->pid,
                     !claim.is_free            ? "fills it"
                     : claim.record->has_ended ? "has ended in order"
                                               : "is gone, and has not ended in order");
}

std::string agent_text(const std::optional<pid_t>& agent) {
  return !agent        ? "none"
         : *agent == 0 ? "one supervises it, whose process cannot be seen from here"
                       : fmt::format("process {}", *agent);
}

int status(const Arguments& arguments, Output& out) {
  const RunImages images = images_of(arguments);
  const store::ClaimLook claim = images.claim();
  const std::optional<pid_t> agent = flash::agent_of(arguments.path);
  Report report;
  report.line(fmt::format("{}: run {}, steps in {}", path_text(arguments.path), images.mark().run,
                          path_text(images.root())));
  report.line(fmt::format("program: {}", program_text(claim)));
  report.line(fmt::format("agent: {}", agent_text(agent)));
  report.member("memory", text_cell(arguments.path.string()));
  report.member("root", text_cell(images.root().string()));
  report.member("run", text_cell(images.mark().run));
  report.member("limit_bytes", size_cell(images.mark().limit_bytes));
  report.member("has_agent", flag_cell(agent.has_value(), ""));
  report.member("agent", number_cell(static_cast<std::uint64_t>(agent.value_or(0))));
  report.member("program", number_cell(claim.record ? static_cast<std::uint64_t>(claim.record->pid) : 0));
  report.member("is_running", flag_cell(!claim.is_free, ""));
  report.member("has_ended", flag_cell(claim.record && claim.record->has_ended, ""));
  ReportTable table{{{"STEP", true, "step"},
                     {"SIZE", true, "bytes"},
                     {"AGE", true, "age_seconds"},
                     {"STATE", false, "state"},
                     {"ON DISK", false, "on_disk"}},
                    {"images"}};
  for (const ImageLine& line : lines_of(images)) {
    table.rows.push_back({"images",
                          {number_cell(line.step), size_cell(line.bytes), age_cell(line.age),
                           text_cell(line.state), text_cell(line.on_disk)}});
    table.rows.back().cells.front().is_bad = line.state == "damaged";
  }
  report.table(std::move(table));
  report.answer(out, arguments.is_json);
  return 0;
}

/// Returns what was copied; without a step, the newest.
std::optional<std::uint64_t> persist_with_bar(const RunImages& images, std::optional<std::uint64_t> step,
                                              bool& has_passed_over) {
  const StopSignals signals(images.on_disk(step ? *step : images.newest().value_or(0)));
  ProgressBar bar(stderr);
  const auto is_to_stop = [&](const SaveProgress& progress) {
    bar.update(progress.written_bytes, progress.total_bytes);
    return signals.has_come();
  };
  try {
    if (step) {
      images.persist(*step, is_to_stop);
    } else {
      const auto passed_over = [&has_passed_over](const std::exception& why) {
        has_passed_over = true;
        complain(why.what());
      };
      step = images.persist_newest(passed_over, is_to_stop);
    }
  } catch (const Error& error) {
    if (error.code() == Errc::cancelled) {
      signals.check();
    }
    throw;
  }
  if (step) {
    signals.finish();
  }
  return step;
}

int persist(const Arguments& arguments, Output& out) {
  const RunImages images = images_of(arguments);
  bool has_passed_over = false;
  const std::optional<std::uint64_t> step = persist_with_bar(images, arguments.agent.step, has_passed_over);
  if (arguments.is_json) {
    JsonWriter json = json_to(out);
    json.begin_object();
    if (step) {
      json.key("step").value(*step).key("path").value(images.on_disk(*step).string());
    }
    json.end();
    return has_passed_over && !step ? 1 : 0;
  }
  if (step) {
    out.print("step {} is in {}\n", *step, path_text(images.on_disk(*step)));
    return 0;
  }
  out.print("{} has nothing {}newer than {}\n", path_text(arguments.path),
            has_passed_over ? "sound that is " : "", path_text(images.root()));
  return has_passed_over ? 1 : 0;
}

int stop(const Arguments& arguments, Output& out) {
  constexpr std::chrono::milliseconds kLookAgain{20};
  const std::optional<pid_t> agent = flash::agent_of(arguments.path);
  if (!agent || *agent == 0) {
    throw Error(
        Errc::not_found,
        !agent ? fmt::format("no agent supervises {}", arguments.path.string())
               : fmt::format("the agent that supervises {} cannot be seen from here: stop it in its own pid "
                             "namespace",
                             arguments.path.string()));
  }
  if (::kill(*agent, SIGTERM) != 0) {
    throw Error(std::error_code(errno, std::system_category()), fmt::format("process {}", *agent));
  }
  while (flash::agent_of(arguments.path) == agent) {
    std::this_thread::sleep_for(kLookAgain);
  }
  out.print("process {} has ended\n", *agent);
  return 0;
}

int clean(const Arguments& arguments, Output& out) {
  const RunImages::Cleaned cleaned = images_of(arguments).clean(arguments.agent.all);
  if (arguments.is_json) {
    JsonWriter json = json_to(out);
    json.begin_object();
    for (const auto& [name, steps] :
         {std::pair("retired", &cleaned.retired), std::pair("left", &cleaned.left)}) {
      json.key(name).begin_list();
      for (const std::uint64_t step : *steps) {
        json.value(step);
      }
      json.end();
    }
    json.end();
    return 0;
  }
  out.print("{} freed", count_text(cleaned.retired.size(), "image"));
  if (!cleaned.left.empty()) {
    out.print(", {} left: step {} {}", count_text(cleaned.left.size(), "image"), cleaned.left.back(),
              arguments.agent.all ? "is being read" : "is not on disk, or is being read (see --all)");
  }
  out.write("\n");
  return 0;
}

struct MeasuredSpeed {
  std::uint64_t bytes = 0;             ///< That were written for it.
  std::uint64_t bytes_per_second = 0;  ///< 0: it could not be measured.
};

/// Writes at most `most_bytes` into a file without a name, until they are durable. Measures nothing where there are no
/// such files.
MeasuredSpeed measure_speed(const fs::path& directory, std::uint64_t most_bytes) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) {
    return {};
  }
  const std::vector<char> bytes(std::min<std::size_t>(kPiece, most_bytes), 'c');
  const auto begin = std::chrono::steady_clock::now();
  MeasuredSpeed measured;
  for (ssize_t one = 1; one > 0 && measured.bytes < most_bytes;) {
    const std::uint64_t left = most_bytes - measured.bytes;
    one = std::max<ssize_t>(::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), left)), 0);
    measured.bytes += static_cast<std::uint64_t>(one);
  }
  const bool is_durable = ::fdatasync(fd) == 0;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  ::close(fd);
  if (is_durable) {
    measured.bytes_per_second =
        static_cast<std::uint64_t>(static_cast<double>(measured.bytes) / taken.count());
  }
  return measured;
}

/// How much to write where so much is free: enough to measure, and too little to crowd anybody out. Files in memory
/// count against the limit of the process.
std::uint64_t bytes_to_measure(std::uint64_t free_bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{64} << 20;
  constexpr std::uint64_t kShare = 64;
  return std::min(kMost, std::min(free_bytes, memory_limit()) / kShare);
}

/// Says of a directory what its file system has, and how fast it takes bytes, where that can be measured.
void tell_place(Output& out, JsonWriter* json, const std::string& what, const fs::path& path) {
  struct statvfs figures {};
  if (::statvfs(path.c_str(), &figures) != 0) {
    throw Error(std::error_code(errno, std::system_category()), path.string());
  }
  const std::uint64_t free = std::uint64_t{figures.f_bavail} * figures.f_frsize;
  const std::uint64_t all = std::uint64_t{figures.f_blocks} * figures.f_frsize;
  const MeasuredSpeed measured = measure_speed(path, bytes_to_measure(free));
  const std::uint64_t speed = measured.bytes_per_second;
  if (json != nullptr) {
    json->key(what).begin_object().key("path").value(path.string()).key("free_bytes").value(free);
    json->key("bytes").value(all).key("measured_bytes").value(measured.bytes);
    speed != 0 ? json->key("bytes_per_second").value(speed).end() : json->end();
    return;
  }
  out.print("{} {}: {} of {} free, {}\n", what, path_text(path), size_text(free), size_text(all),
            speed != 0 ? fmt::format("{}/s written", size_text(speed)) : "its speed cannot be measured");
}

/// Returns whether logind removes what this user has in a directory once he has logged out everywhere: as it does by
/// default below /dev/shm, but for system users and those who linger.
bool is_removed_at_logout(const fs::path& memory) {
  constexpr uid_t kFirstOfPeople = 1000;
  const fs::path shared = "/dev/shm";
  if (std::mismatch(shared.begin(), shared.end(), memory.begin(), memory.end()).first != shared.end() ||
      ::geteuid() < kFirstOfPeople || !fs::exists("/run/systemd/seats")) {
    return false;
  }
  const passwd* const user = ::getpwuid(::geteuid());
  if (user != nullptr && fs::exists(fs::path("/var/lib/systemd/linger") / user->pw_name)) {
    return false;
  }
  std::ifstream settings("/etc/systemd/logind.conf");
  for (std::string line; std::getline(settings, line);) {
    if (line.starts_with("RemoveIPC=no")) {
      return false;
    }
  }
  return true;
}

/// The directory, or the one that it is yet to be made in.
fs::path existing(const fs::path& path) {
  return fs::exists(path) ? path : fs::absolute(path).parent_path();
}

int check(const Arguments& arguments, Output& out) {
  std::vector<std::string> problems;
  const fs::path place = existing(arguments.path);
  const io::Directory directory = io::Directory::open(io::posix_syscalls(), place);
  if (place == arguments.path) {
    try {
      flash::require_memory(directory);
      if (fs::exists(arguments.path / store::kMemoryMarkName)) {
        static_cast<void>(images_of(arguments));
      }
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  } else if (!store::lies_in_memory(io::posix_syscalls(), directory.fd())) {
    problems.push_back(fmt::format("{} is not on a tmpfs", place.string()));
  }
  if (is_removed_at_logout(fs::absolute(place))) {
    problems.emplace_back(
        "logind removes it when its user has logged out (RemoveIPC): loginctl enable-linger keeps it");
  }
  const bool has_disk = fs::exists(arguments.path / store::kMemoryMarkName) || !arguments.other.empty();
  const fs::path disk =
      arguments.other.empty() && has_disk ? images_of(arguments).root() : fs::path(arguments.other);
  JsonWriter writer = json_to(out);
  JsonWriter* const json = arguments.is_json ? &writer.begin_object() : nullptr;
  tell_place(out, json, "memory", place);
  if (json != nullptr) {
    json->key("process_limit_bytes").value(memory_limit());
  } else {
    out.print("this process may have {} of memory; images count\n", size_text(memory_limit()));
  }
  if (has_disk) {
    tell_place(out, json, "disk", existing(disk));
  }
  if (json != nullptr) {
    json->key("problems").begin_list();
    for (const std::string& problem : problems) {
      json->value(problem);
    }
    json->end().end();
    return problems.empty() ? 0 : 1;
  }
  out.flush();
  for (const std::string& problem : problems) {
    complain(problem);
  }
  return problems.empty() ? 0 : 1;
}

}  // namespace

int agent(const Arguments& arguments, Output& out) {
  switch (arguments.agent.deed) {
    case AgentDeed::status:
      return status(arguments, out);
    case AgentDeed::persist:
      return persist(arguments, out);
    case AgentDeed::stop:
      return stop(arguments, out);
    case AgentDeed::clean:
      return clean(arguments, out);
    case AgentDeed::check:
      return check(arguments, out);
    case AgentDeed::supervise:
      break;
  }
  return supervise(arguments);
}

}  // namespace cairn::cli
