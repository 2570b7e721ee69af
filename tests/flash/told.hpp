// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cairn/cairn.hpp"
#include "cairn/flash/flash_checkpointer.hpp"

#include "flash/deadly.hpp"
#include "flash/failing_calls.hpp"
#include "flash/steps.hpp"
#include "support/light_sleeper.hpp"

namespace cairn::flash {

/// How long a told training may wait for a save, for a load, and for a disk when it closes.
inline constexpr std::chrono::milliseconds kToldDeadline{1000};
/// Steps of all lines are smaller.
inline constexpr std::uint64_t kLineValues = 1'000'000;

/// What a training has in its state at a step of a line: it tells both, and its size is another one at each step.
inline Tree state_of_line(std::uint64_t step, std::uint64_t line) {
  constexpr std::size_t kMiB = (std::size_t{1} << 20) / sizeof(std::uint64_t);
  return state_at(line * kLineValues + step, (3 + step * 5 % 9) * kMiB);
}

/// A training that does what it is told, a line of its standard input each, and says what came of it:
/// WORDS;MILLISECONDS;LATE;PEAK, with how long that took, how late a thread woke up meanwhile, and the most that was in
/// use of the memory's file system at any call.
///   (its start)       resumed STEP LINE memory|disk; resumed none
///   save STEP LINE    saved STEP; skipped STEP
///   ask               asked, and of each save that was due on disk and has ended: persisted STEP, superseded STEP
///   wait              waited DISK: the newest step there
///   back COUNT        going STEP at first, the COUNT-th newest; then back STEP MEMORY DISK: the newest steps there
///   hang TIME         hanging: the disk answers nothing for so many milliseconds
///   close             closed, and ends
/// Instead of any of these: refused TEXT.
class Told {
 public:
  Told(const std::filesystem::path& root, const FlashOptions& options, const Context& context,
       std::uint64_t disk_every, FailingCalls& disk, const Deadly& calls)
      : disk_every_(disk_every), disk_(disk), calls_(calls) {
    answer([&] {
      run_.emplace(root, options, context);
      return resume();
    });
  }
  ~Told() { await_disk(); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  /// Returns at once where it could not begin.
  void play() {
    if (!run_) {
      return;
    }
    for (std::string line; std::getline(std::cin, line) && line != "close";) {
      std::istringstream words(line);
      answer([&] { return obey(words); });
    }
    answer([&] {
      run_->close();
      return "closed";
    });
  }

 private:
  void answer(const std::function<std::string()>& act) {
    static_cast<void>(sleeper_.take_late());
    const auto begin = std::chrono::steady_clock::now();
    std::string words;
    try {
      words = act();
    } catch (const std::exception& error) {
      words = std::string("refused ") + error.what();
    }
    const auto took =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    std::cout << words << ';' << took.count() << ';' << sleeper_.take_late().count() << ';'
              << calls_.peak_bytes() << std::endl;
  }

  std::string resume() {
    ResumeOptions how;
    how.load.deadline = kToldDeadline;
    std::optional<FlashResumed> resumed = run_->resume({"state"}, how);
    if (!resumed) {
      return "resumed none";
    }
    const Tree state = resumed->loaded.take<Tree>("state");
    const std::uint64_t line = state.at("step").as<std::uint64_t>() / kLineValues;
    if (state != state_of_line(resumed->step, line)) {
      throw std::runtime_error("wrong bytes in step " + std::to_string(resumed->step));
    }
    return "resumed " + std::to_string(resumed->step) + ' ' + std::to_string(line) +
           (resumed->from == ResumedFrom::memory ? " memory" : " disk");
  }

  std::string obey(std::istringstream& words) {
    std::string act;
    std::uint64_t number = 0;
    std::uint64_t line = 0;
    words >> act >> number >> line;
    if (act == "save") {
      return save(number, line);
    }
    if (act == "ask") {
      return ask();
    }
    if (act == "wait") {
      run_->wait();
      return "waited " + std::to_string(run_->disk().latest().value_or(0));
    }
    if (act == "back") {
      return go_back(number);
    }
    hang(std::chrono::milliseconds(number));
    return "hanging";
  }

  std::string save(std::uint64_t step, std::uint64_t line) {
    const Tree state = state_of_line(step, line);
    StepOptions how;
    how.save.deadline = kToldDeadline;
    const FlashResponse response = run_->save(step, {{"state", state}}, how);
    if (step % disk_every_ == 0) {
      due_.emplace(step, response);
    }
    if (response.was_skipped()) {
      return "skipped " + std::to_string(step);
    }
    response.wait_in_memory();
    return "saved " + std::to_string(step);
  }

  std::string ask() {
    std::string said = "asked";
    std::erase_if(due_, [&said](const auto& each) {
      const auto& [step, response] = each;
      try {
        response.wait(std::chrono::milliseconds(1));
        said += " persisted " + std::to_string(step);
        return true;
      } catch (const Error& error) {
        if (error.code() == Errc::superseded) {
          said += " superseded " + std::to_string(step);
          return true;
        }
      }
      return false;  // It goes on, or the disk has refused it, which is asked again.
    });
    return said;
  }

  std::string go_back(std::uint64_t count) {
    const std::vector<std::uint64_t> on_disk = run_->disk().steps();
    std::set<std::uint64_t> steps(on_disk.begin(), on_disk.end());
    if (const std::optional<std::uint64_t> newest = run_->latest_in_memory()) {
      steps.insert(*newest);
    }
    if (steps.size() < count) {
      return "back nowhere";
    }
    const std::uint64_t step = *std::prev(steps.end(), static_cast<std::ptrdiff_t>(count));
    std::cout << "going " << step << std::endl;
    run_->rewind(step);
    due_.clear();
    return "back " + std::to_string(step) + ' ' + std::to_string(run_->latest_in_memory().value_or(0)) + ' ' +
           std::to_string(run_->disk().latest().value_or(0));
  }

  void hang(std::chrono::milliseconds time) {
    await_disk();
    disk_.hangs = true;
    hanging_ = std::thread([this, time] {
      std::this_thread::sleep_for(time);
      disk_.hangs = false;
    });
  }
  void await_disk() {
    if (hanging_.joinable()) {
      hanging_.join();
    }
  }

  const std::uint64_t disk_every_;
  FailingCalls& disk_;
  const Deadly& calls_;
  testing::LightSleeper sleeper_;
  std::thread hanging_;
  std::optional<FlashCheckpointer> run_;
  std::map<std::uint64_t, FlashResponse> due_;
};

}  // namespace cairn::flash
