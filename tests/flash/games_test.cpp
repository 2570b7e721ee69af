// SPDX-License-Identifier: Apache-2.0
// Games: the dice tell a training with steps in memory what to do, and its disk to be full, read-only, away, or not to
// answer; they kill it, and have the next one go on with the same memory or with another one. What it was told is
// compared with what is there.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <sched.h>

#include "cairn/api/load.hpp"

#include "flash/processes.hpp"
#include "flash/told.hpp"
#include "support/dice.hpp"
#include "support/number_from.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

namespace cairn::flash {
namespace {

namespace fs = std::filesystem;

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::uint64_t kDiskEvery = 3;
constexpr std::uint64_t kLimitOfGames = std::uint64_t{24} << 20;
constexpr std::size_t kActs = 90;
constexpr std::size_t kMemories = 2;
constexpr milliseconds kGrace{1000};  // On a machine that is not busy.
constexpr int kLateFactor = 50;       // Where threads wake up 20 ms late, twice that.
constexpr milliseconds kNoDeadline{5000};

/// What is wrong with the disk; it may hang besides.
enum class DiskFault : std::uint8_t { none, full, read_only, away };

/// What a told training says.
struct TellerAnswer {
  std::vector<std::string> words;
  milliseconds took{0};
  milliseconds late{0};
  std::uint64_t peak = 0;

  explicit TellerAnswer(const std::string& line) {
    std::istringstream parts(line);
    std::string said;
    std::getline(parts, said, ';');
    std::istringstream each(said);
    for (std::string word; each >> word;) {
      words.push_back(word);
    }
    std::array<std::uint64_t, 3> numbers{};
    for (std::uint64_t& number : numbers) {
      std::string text;
      std::getline(parts, text, ';');
      number = std::strtoull(text.c_str(), nullptr, 10);
    }
    took = milliseconds(numbers[0]);
    late = milliseconds(numbers[1]);
    peak = numbers[2];
  }

  [[nodiscard]] bool is(std::string_view word) const { return !words.empty() && words.front() == word; }
  [[nodiscard]] std::uint64_t number(std::size_t index) const {
    return index < words.size() ? std::strtoull(words[index].c_str(), nullptr, 10) : 0;
  }
};

struct GameCounts {
  std::uint64_t saved = 0;
  std::uint64_t persisted = 0;
  std::uint64_t rewinds = 0;
  std::uint64_t kills = 0;
  std::uint64_t resumed = 0;
  std::uint64_t faults = 0;
};

/// Two memories and a disk, in file systems of their own; one training at a time.
class Game {
 public:
  Game(std::uint64_t seed, fs::path memories, fs::path disk, const Context& context, GameCounts& counts)
      : dice_(seed),
        memories_(std::move(memories)),
        disk_(std::move(disk)),
        context_(context),
        counts_(counts) {}

  void play() {
    for (std::size_t act = 0; act < kActs && !::testing::Test::HasFailure(); ++act) {
      if (program_) {
        act_once();
      } else {
        start();
      }
    }
    if (program_) {
      kill();
    }
    mend();
    start();  // What was told is there.
    if (program_) {
      tell("wait");
      kill();
    }
    if (::testing::Test::HasFailure()) {
      for (const std::string& each : history_) {
        std::cout << each << '\n';
      }
    }
  }

 private:
  void act_once() {
    switch (dice_.below(22)) {
      case 0:
        return change_disk();
      case 1:
        return is_answering() ? tell("hang " + std::to_string(1 + dice_.below(3500))) : tell("ask");
      case 2:
      case 3:
        return tell("ask");
      case 4:
        return is_answering() ? tell("wait") : tell("ask");
      case 5:
        return is_answering() ? tell("back " + std::to_string(1 + dice_.below(3))) : tell("ask");
      case 6:
        return kill();
      case 7:
        return dice_.one_in(3) ? close() : kill();
      default:
        return save();
    }
  }

  [[nodiscard]] bool is_answering() const { return std::chrono::steady_clock::now() >= hangs_until_; }

  void start() {
    if (dice_.one_in(4)) {
      memory_ = dice_.below(kMemories);
    }
    if (dice_.one_in(2)) {
      mend();
    }
    is_mortal_ = dice_.one_in(4);
    const std::uint64_t die_at = is_mortal_ ? 1 + dice_.below(3000) : 0;
    note("start with memory " + std::to_string(memory_) + ", to die at " + std::to_string(die_at));
    program_ = std::make_unique<testing::Process>(
        CAIRN_FLASHER, std::vector<std::string>{memories_ / std::to_string(memory_) / "run", root(),
                                                std::to_string(kDiskEvery), "told", std::to_string(die_at)});
    line_ = next_line_++;
    due_ = 0;
    hear("start");
    if (program_ && !has_begun_) {
      EXPECT_NE(fault_, DiskFault::none) << "it cannot begin";
      kill();
      mend();
    }
  }

  void save() {
    const std::uint64_t step = next_++;
    given_[step].insert(line_);
    tell("save " + std::to_string(step) + ' ' + std::to_string(line_));
  }

  void close() {
    tell("close");
    if (program_) {
      note_rest();
    }
  }

  /// At a moment that the dice choose, perhaps in the midst of an act.
  void kill() {
    std::string act;
    if (has_begun_ && !dice_.one_in(3)) {
      act = is_answering() && dice_.one_in(3) ? "back " + std::to_string(1 + dice_.below(3)) : "save";
      if (act == "save") {
        const std::uint64_t step = next_++;
        given_[step].insert(line_);
        act += ' ' + std::to_string(step) + ' ' + std::to_string(line_);
      }
      program_->tell(act);
      std::this_thread::sleep_for(std::chrono::microseconds(dice_.below(15'000)));
    }
    note("kill after " + act);
    ++counts_.kills;
    program_->signal(SIGKILL);
    note_rest();
  }

  /// The program has ended, or is about to; what it has said yet counts.
  void note_rest() {
    for (const std::string& line : program_->finish()) {
      note(line);
      take(TellerAnswer(line), kNoDeadline);
    }
    program_.reset();
    has_begun_ = false;
    hangs_until_ = {};
  }

  void tell(const std::string& act) {
    note(act);
    if (act.starts_with("hang ")) {
      hangs_until_ = std::chrono::steady_clock::now() + milliseconds(std::stoul(act.substr(5)) + 50);
      ++counts_.faults;
    }
    program_->tell(act);
    hear(act);
  }

  /// Waits for what it says.
  void hear(const std::string& act) {
    const milliseconds deadline = act == "ask"                               ? milliseconds(0)
                                  : act == "wait" || act.starts_with("back") ? kNoDeadline
                                                                             : kToldDeadline;
    for (bool has_ended = false; !has_ended;) {
      const std::string line = program_->next_line();
      note(line);
      if (line.empty()) {
        EXPECT_TRUE(is_mortal_) << "it has died";
        ++counts_.kills;
        return note_rest();
      }
      const TellerAnswer answer(line);
      take(answer, deadline);
      has_ended = !answer.is("going");
      if (answer.is("refused")) {
        if (act.starts_with("save")) {
          EXPECT_GE(answer.took, kToldDeadline) << line;  // It has no other reason.
          continue;
        }
        EXPECT_NE(act, "ask") << line;
        if (fault_ == DiskFault::none && is_answering()) {
          // The disk had no time to take it, or the step that was chosen was being removed.
          EXPECT_THAT(line, HasSubstr(act == "close" ? "in memory" : "not found")) << act;
        }
      }
    }
  }

  /// What is told, is so.
  void take(const TellerAnswer& answer, milliseconds deadline) {
    EXPECT_LE(answer.took, deadline + kGrace + kLateFactor * answer.late) << history_.back();
    EXPECT_LE(answer.peak, kLimitOfGames);
    if (answer.is("resumed")) {
      take_resumed(answer);
    } else if (answer.is("saved")) {
      ++counts_.saved;
      in_memory_[memory_] = answer.number(1);
      due_ = answer.number(1) % kDiskEvery == 0 ? answer.number(1) : due_;
    } else if (answer.is("asked")) {
      for (std::size_t i = 1; i + 1 < answer.words.size(); i += 2) {
        if (answer.words[i] == "persisted") {
          ++counts_.persisted;
          on_disk_ = std::max(on_disk_, answer.number(i + 1));
          look_at_disk(answer.number(i + 1));
        }
      }
    } else if (answer.is("waited")) {
      EXPECT_GE(answer.number(1), std::max(due_, on_disk_)) << "it, or a newer one, is on disk";
      on_disk_ = answer.number(1);
      look_at_disk(on_disk_);
    } else if (answer.is("going")) {
      going_ = answer.number(1);
      kept_ = in_memory_;
      on_disk_ = std::min(on_disk_, going_);
      for (std::uint64_t& step : in_memory_) {  // What is above that may go.
        step = step <= going_ || &step == &in_memory_[memory_] ? std::min(step, going_) : 0;
      }
    } else if (answer.is("back") && answer.words.size() > 2) {
      take_back(answer);
    } else if (answer.is("refused") && going_ != 0) {
      in_memory_ = kept_;  // No image was given up, though steps on disk may have been set aside.
      going_ = 0;
    }
  }

  void take_resumed(const TellerAnswer& answer) {
    has_begun_ = true;
    ++counts_.resumed;
    const std::uint64_t step = answer.number(1);  // 0: none.
    EXPECT_GE(step, std::max(in_memory_[memory_], on_disk_)) << "it was told to be there";
    going_ = 0;
    if (step != 0) {
      EXPECT_EQ(given_[step].count(answer.number(2)), 1u)
          << "step " << step << " of line " << answer.number(2);
      if (answer.words.back() == "memory") {
        in_memory_[memory_] = step;
      } else {
        on_disk_ = step;
      }
    }
    next_ = step + 1;
  }

  /// It goes on from there, whichever level has it, and no memory goes on from what came later.
  void take_back(const TellerAnswer& answer) {
    ++counts_.rewinds;
    const std::uint64_t step = answer.number(1);
    EXPECT_EQ(step, going_);
    EXPECT_EQ(std::max(answer.number(2), answer.number(3)), step);
    in_memory_[memory_] = answer.number(2);
    on_disk_ = answer.number(3);
    given_.erase(given_.upper_bound(step), given_.end());
    line_ = next_line_++;
    due_ = 0;
    going_ = 0;
    next_ = step + 1;
  }

  /// The step is there, or newer ones have taken its place.
  void look_at_disk(std::uint64_t step) {
    if (step == 0) {
      return;
    }
    const fs::path root_now = fault_ == DiskFault::away ? away() : root();
    std::exception_ptr failure;
    try {
      const Tree state = cairn::load(root_now / std::to_string(step), LoadOptions(), context_);
      const std::uint64_t line = state.at("step").as<std::uint64_t>() / kLineValues;
      EXPECT_EQ(state, state_of_line(step, line));
      EXPECT_EQ(given_[step].count(line), 1u);
      return;
    } catch (const Error&) {
      failure = std::current_exception();
    }
    std::size_t newer = 0;
    for (const auto& entry : fs::directory_iterator(root_now)) {
      newer += std::strtoull(entry.path().filename().c_str(), nullptr, 10) > step ? 1 : 0;
    }
    EXPECT_GE(newer, 2u) << "step " << step << " is not on disk: " << describe(failure);
  }

  [[nodiscard]] fs::path root() const { return disk_ / "run"; }
  [[nodiscard]] fs::path away() const { return disk_ / "away"; }
  [[nodiscard]] fs::path filler() const { return disk_ / "filler"; }

  void change_disk() {
    if (fault_ != DiskFault::none) {
      return mend();
    }
    fault_ = std::array{DiskFault::full, DiskFault::read_only, DiskFault::away}[dice_.below(3)];
    if (fault_ == DiskFault::full) {
      fill();
    } else if (fault_ == DiskFault::read_only) {
      // Not while a step is being copied.
      fault_ = ::mount(nullptr, disk_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0
                   ? DiskFault::read_only
                   : DiskFault::none;
    } else {
      fs::rename(root(), away());
      testing::write_text(root(), "");
    }
    note("disk fault " + std::to_string(static_cast<int>(fault_)));
    counts_.faults += fault_ != DiskFault::none ? 1 : 0;
  }

  /// Another step may be being copied, and take some of what is left.
  void fill() const {
    const int fd = ::open(filler().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    struct statvfs figures {};
    off_t size = 0;
    for (int i = 0; i < 10 && ::fstatvfs(fd, &figures) == 0 && figures.f_bavail > 0; ++i) {
      const auto left = static_cast<off_t>(figures.f_bavail * figures.f_frsize);
      size += ::posix_fallocate(fd, size, left) == 0 ? left : 0;
    }
    ::close(fd);
  }

  void mend() {
    if (fault_ == DiskFault::full) {
      fs::remove(filler());
    } else if (fault_ == DiskFault::read_only) {
      EXPECT_EQ(::mount(nullptr, disk_.c_str(), nullptr, MS_REMOUNT, nullptr), 0);
    } else if (fault_ == DiskFault::away) {
      fs::remove(root());
      fs::rename(away(), root());
    }
    fault_ = DiskFault::none;
    note("disk mended");
  }

  void note(std::string what) { history_.push_back(std::move(what)); }

  testing::Dice dice_;
  const fs::path memories_;
  const fs::path disk_;
  const Context& context_;
  GameCounts& counts_;
  std::vector<std::string> history_;

  std::unique_ptr<testing::Process> program_;
  bool is_mortal_ = false;  // It dies at one of its calls.
  bool has_begun_ = false;
  std::size_t memory_ = 0;  // The one that is in use.
  DiskFault fault_ = DiskFault::none;
  std::chrono::steady_clock::time_point hangs_until_;

  // What was told. Steps begin with 1.
  std::map<std::uint64_t, std::set<std::uint64_t>> given_;  // The lines of which a step may be.
  std::array<std::uint64_t, kMemories> in_memory_{};        // The step that each has, or a newer one.
  std::uint64_t on_disk_ = 0;                               // Likewise.
  std::uint64_t due_ = 0;                                   // The newest that is due there.
  std::uint64_t going_ = 0;                                 // The step that it is going back to.
  std::array<std::uint64_t, kMemories> kept_{};             // What the memories had before that.
  std::uint64_t next_ = 1;
  std::uint64_t line_ = 0;
  std::uint64_t next_line_ = 1;
};

/// A thread's own: nobody else sees what it mounts, and all goes with it.
bool has_own_mounts(const std::vector<fs::path>& places) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return false;
  }
  return std::all_of(places.begin(), places.end(), [](const fs::path& place) {
    fs::create_directories(place);
    return ::mount("none", place.c_str(), "tmpfs", 0, "size=300m,mode=0700") == 0;
  });
}

class PlayedFlash : public FlashProcesses {};

TEST_F(PlayedFlash, HasWhatItWasToldWhateverItsDiskDoes) {
  const std::uint64_t seed = testing::number_from("CAIRN_FLASH_SEED", testing::first_number());
  const std::uint64_t games = testing::number_from("CAIRN_FLASH_GAMES", testing::kHasSanitizer ? 2 : 4);
  ::setenv("CAIRN_FLASH_LIMIT", std::to_string(kLimitOfGames).c_str(), 1);
  GameCounts counts;
  bool is_allowed = true;
  for (std::uint64_t game = 0; game < games && is_allowed && !HasFailure(); ++game) {
    std::thread([&] {
      SCOPED_TRACE(::testing::Message() << "game with seed " << seed + game);
      const fs::path memories = *above_ / "memories";
      const fs::path disk = directory_ / "disk";
      is_allowed = has_own_mounts({memories / "0", memories / "1", disk});
      if (is_allowed) {
        const Context context(small());  // Its threads see what this one has mounted.
        Game(seed + game, memories, disk, context, counts).play();
      }
    }).join();
  }
  ::unsetenv("CAIRN_FLASH_LIMIT");
  if (!is_allowed) {
    GTEST_SKIP() << "this user may mount no tmpfs";
  }
  EXPECT_GT(counts.saved, 0u);
  EXPECT_GT(counts.resumed, 0u);
  std::cout << "flash: (seed " << seed << ") " << games << " games, " << counts.saved << " steps saved, "
            << counts.persisted << " persisted, " << counts.rewinds << " rewinds, " << counts.faults
            << " faults of the disk, " << counts.kills << " kills, " << counts.resumed << " resumptions"
            << std::endl;
}

}  // namespace
}  // namespace cairn::flash
