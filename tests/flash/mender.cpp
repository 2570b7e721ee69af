// SPDX-License-Identifier: Apache-2.0
// Cleans a directory of checkpoints as `cairn recover` does: `mender ROOT DIE_AT`. It kills itself at a call of the
// system (0: at none), or says at its end how many there were: "mended CALLS".
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>

#include "cairn/api/maintain.hpp"
#include "cairn/cairn.hpp"

#include "flash/deadly.hpp"

int main(int count, char** arguments) {
  if (count != 3) {
    return 2;
  }
  try {
    const auto calls = std::make_shared<cairn::flash::Deadly>(std::strtoull(arguments[2], nullptr, 10));
    cairn::ContextOptions how;
    how.engine = cairn::io::EngineKind::threads;
    how.worker_threads = 1;
    how.syscalls = calls;
    const cairn::Context context(how);
    static_cast<void>(cairn::recover(arguments[1], {}, context));
    std::cout << "mended " << calls->calls() << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cout << "failed: " << error.what() << std::endl;
    return 1;
  }
}
