// SPDX-License-Identifier: Apache-2.0
// A training with its state in memory, until it is killed: `flasher MEMORY ROOT DISK_EVERY`. It goes on from where it
// was. A line each:
//   resumed STEP memory | resumed STEP disk | resumed none
//   saved STEP               that is in memory
// It goes when its parent goes.
#include <sys/prctl.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

#include "cairn/cairn.hpp"
#include "cairn/flash/flash_checkpointer.hpp"

#include "flash/steps.hpp"

namespace {

void say(const std::string& line) {
  std::cout << line << std::endl;
}

void train(const char* memory, const char* root, std::uint64_t disk_every) {
  cairn::FlashOptions options;
  options.memory = memory;
  options.disk.save = cairn::save_when::every_steps(disk_every);
  cairn::FlashCheckpointer run(root, options);
  std::uint64_t step = 0;
  if (std::optional<cairn::FlashResumed> resumed = run.resume({"state"})) {
    step = resumed->step;
    if (resumed->loaded.take<cairn::Tree>("state") != cairn::flash::state_at(step)) {
      throw std::runtime_error("wrong bytes in step " + std::to_string(step));
    }
    const bool is_from_memory = resumed->from == cairn::ResumedFrom::memory;
    say("resumed " + std::to_string(step++) + (is_from_memory ? " memory" : " disk"));
  } else {
    say("resumed none");
  }
  for (;; ++step) {
    const cairn::Tree state = cairn::flash::state_at(step);
    const cairn::FlashResponse response = run.save(step, {{"state", state}});
    if (!response.was_skipped()) {
      response.wait_in_memory();
      say("saved " + std::to_string(step));
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (count != 4) {
    return 2;
  }
  try {
    train(arguments[1], arguments[2], std::strtoull(arguments[3], nullptr, 10));
  } catch (const std::exception& error) {
    say(std::string("failed: ") + error.what());
  }
  return 1;
}
