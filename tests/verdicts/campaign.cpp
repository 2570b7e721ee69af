// SPDX-License-Identifier: Apache-2.0
#include "verdicts/campaign.hpp"

#include <sys/vfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "support/number_from.hpp"
#include "verdicts/player.hpp"
#include "verdicts/timekeeper.hpp"
#include "verdicts/watchdog.hpp"

namespace cairn::verdicts {
namespace {

/// A file system in memory where the machine has one: a program makes thousands of syncs.
std::filesystem::path memory_path() {
  return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
}

class Folder {
 public:
  explicit Folder(const std::filesystem::path& parent) {
    std::string pattern = parent / "cairn-verdicts-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw_errno(errno, "mkdtemp", pattern);
    }
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void add(std::map<std::string, std::uint64_t>& sum, const std::map<std::string, std::uint64_t>& more) {
  for (const auto& [what, times] : more) {
    sum[what] += times;
  }
}

void play_one(const Program& program, const std::filesystem::path& folder, Observer& observer,
              Figures& figures) {
  const auto clock = std::make_shared<HarnessClock>(program.is_manual);
  const auto journal = std::make_shared<Journal>(program.seed, clock);
  std::unique_ptr<Player> player;
  Timekeeper timekeeper(*clock, [&](const std::string& why) {
    report_hang(fmt::format("verdicts: {}\n{}{}{}", why, journal->describe(),
                            player ? player->describe() : "", clock->describe()));
  });
  player = std::make_unique<Player>(program, folder, observer, journal, clock);
  player->play();
  figures.acts += player->played();
  figures.slow_calls += player->slow_calls();
  figures.failures += player->failures();
  player.reset();
  ++figures.programs;
  add(figures.counts, journal->counts());
  add(figures.kinds, journal->lies());
  const bool is_told = testing::number_from("CAIRN_VERDICTS_STORY", 0) != 0;
  if (is_told || (figures.first_story.empty() && !journal->lies().empty())) {
    figures.first_story = journal->describe();
    fmt::print("{}", is_told ? figures.first_story : "");
  }
}

}  // namespace

std::string Figures::describe() const {
  std::string text;
  for (const auto& [what, times] : counts) {
    text += fmt::format("  {:>8}  {}\n", times, what);
  }
  for (const auto& [kind, times] : kinds) {
    text += fmt::format("  {:>8}  lies: {}\n", times, kind);
  }
  text += fmt::format(
      "verdicts: {} acts in {} programs, {} slow calls, {} failed calls, {} lies, {} touches of memory given "
      "back, "
      "0 hangs (seed {})\n",
      acts, programs, slow_calls, failures, lies, touches, first_seed);
  return text;
}

Figures play_programs(std::uint64_t first_seed, std::uint64_t count) {
  const Folder in_memory(memory_path());
  const Folder on_disk(std::filesystem::temp_directory_path());
  Observer observer;
  Figures figures;
  figures.first_seed = first_seed;
  const std::uint64_t touches = GuardedMemory::the().touches();
  for (std::uint64_t i = 0; i < count; ++i) {
    const Program program(first_seed + i);
    // Only on a disk are files written past the page cache, from the caller's own memory.
    const Folder& folder = program.theme == Theme::memory ? on_disk : in_memory;
    const std::filesystem::path own = folder.path() / std::to_string(program.seed);
    play_one(program, own, observer, figures);
    std::filesystem::remove_all(own);
  }
  figures.lies = std::accumulate(figures.kinds.begin(), figures.kinds.end(), std::uint64_t{0},
                                 [](std::uint64_t sum, const auto& kind) { return sum + kind.second; });
  figures.touches = GuardedMemory::the().touches() - touches;
  return figures;
}

}  // namespace cairn::verdicts
