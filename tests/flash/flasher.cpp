// SPDX-License-Identifier: Apache-2.0
// A training with its state in memory: `flasher MEMORY ROOT DISK_EVERY STEPS DIE_AT [CAIRN [BACK]]`. It goes on from
// where it was, for so many steps (0: without end), and kills itself at a call of the system (0: at none).
// With CAIRN_FLASH_LIMIT in the environment it takes no more than these bytes, for states of changing sizes.
// Where STEPS is `told` it does what it is told instead, as flash/told.hpp says, and takes no tool.
// With the tool CAIRN ("": none) it starts an agent. It goes back by BACK steps before it goes on.
// A line each:
//   resumed STEP memory | resumed STEP disk | resumed none
//   back STEP                it has gone back to it
//   saved STEP               that is in memory
//   peak BYTES               with a limit: most that the file system of MEMORY has had in use at any call
//   closed CALLS             it has come to its end, with so many calls of the system
// It goes when its parent goes.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "cairn/cairn.hpp"
#include "cairn/flash/flash_checkpointer.hpp"

#include "flash/deadly.hpp"
#include "flash/failing_calls.hpp"
#include "flash/steps.hpp"
#include "flash/told.hpp"

namespace {

void say(const std::string& line) {
  std::cout << line << std::endl;
}

/// What both kinds of programs have.
cairn::ContextOptions small_context(std::shared_ptr<cairn::flash::Deadly> calls) {
  cairn::ContextOptions how;
  how.engine = cairn::io::EngineKind::threads;
  how.worker_threads = 2;
  how.staging_bytes = std::size_t{64} << 20;
  how.syscalls = std::move(calls);
  return how;
}

cairn::FlashOptions options_of(const char* memory, std::uint64_t disk_every, cairn::flash::Deadly& calls) {
  cairn::FlashOptions options;
  options.memory = memory;
  options.disk.save = cairn::save_when::every_steps(disk_every);
  options.disk.keep = cairn::keep::latest(2);
  if (const char* const limit = std::getenv("CAIRN_FLASH_LIMIT")) {
    options.memory_bytes = std::strtoull(limit, nullptr, 10);
    calls.watch(std::filesystem::path(memory).parent_path());
  }
  return options;
}

void be_told(const char* memory, const char* root, std::uint64_t disk_every, std::uint64_t die_at) {
  cairn::flash::FailingCalls disk{root};
  const auto calls = std::make_shared<cairn::flash::Deadly>(die_at, disk);
  cairn::ContextOptions how = small_context(calls);
  how.on_lost_failure = nullptr;
  const cairn::Context context(std::move(how));
  cairn::FlashOptions options = options_of(memory, disk_every, *calls);
  options.disk.close_timeout = cairn::flash::kToldDeadline;
  cairn::flash::Told(root, options, context, disk_every, disk, *calls).play();
}

void train(const char* memory, const char* root, std::uint64_t disk_every, std::uint64_t steps,
           std::uint64_t die_at, const std::string& cairn, std::uint64_t back) {
  const auto calls = std::make_shared<cairn::flash::Deadly>(die_at);
  const cairn::Context context(small_context(calls));
  cairn::FlashOptions options = options_of(memory, disk_every, *calls);
  options.start_agent = !cairn.empty();
  options.agent_program = cairn;
  const bool is_limited = options.memory_bytes != 0;
  const auto state_at = [&](std::uint64_t at) {
    return is_limited ? cairn::flash::state_of_line(at, 0) : cairn::flash::state_at(at);
  };
  cairn::FlashCheckpointer run(root, options, context);
  std::uint64_t step = 0;
  if (std::optional<cairn::FlashResumed> resumed = run.resume({"state"})) {
    step = resumed->step;
    if (resumed->loaded.take<cairn::Tree>("state") != state_at(step)) {
      throw std::runtime_error("wrong bytes in step " + std::to_string(step));
    }
    const bool is_from_memory = resumed->from == cairn::ResumedFrom::memory;
    say("resumed " + std::to_string(step) + (is_from_memory ? " memory" : " disk"));
    if (back > 0) {
      step -= std::min(step, back);
      run.rewind(step);
      say("back " + std::to_string(step));
    }
    ++step;
  } else {
    say("resumed none");
  }
  for (const std::uint64_t begin = step; steps == 0 || step < begin + steps; ++step) {
    const cairn::Tree state = state_at(step);
    const cairn::FlashResponse response = run.save(step, {{"state", state}});
    if (response.was_skipped()) {
      continue;
    }
    try {
      response.wait_in_memory();
      if (is_limited) {
        response.wait();  // What is being copied would have steps skipped.
      }
      say("saved " + std::to_string(step));
    } catch (const cairn::Error& error) {
      if (error.code() != std::errc::no_space_on_device) {
        throw;
      }
    }
  }
  run.close();
  if (is_limited) {
    say("peak " + std::to_string(calls->peak_bytes()));
  }
  say("closed " + std::to_string(calls->calls()));
}

}  // namespace

int main(int count, char** arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (count < 6 || count > 8) {
    return 2;
  }
  const auto number = [&](int index) { return std::strtoull(arguments[index], nullptr, 10); };
  try {
    if (arguments[4] == std::string("told")) {
      be_told(arguments[1], arguments[2], number(3), number(5));
      return 0;
    }
    train(arguments[1], arguments[2], number(3), number(4), number(5), count > 6 ? arguments[6] : "",
          count > 7 ? number(7) : 0);
    return 0;
  } catch (const std::exception& error) {
    say(std::string("failed: ") + error.what());
  }
  return 1;
}
