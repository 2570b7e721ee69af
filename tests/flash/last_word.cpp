// SPDX-License-Identifier: Apache-2.0
// Has the last word for a program: `last_word MEMORY ROOT GRACE_MS RESTARTS DIE_AT [PROGRAM ARGUMENTS…]`; without one
// it serves whoever uses the memory. It kills itself at a call of the system (0: at none); else it says at its end how
// many there were.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>

#include "cairn/cairn.hpp"

#include "flash/deadly.hpp"
#include "flash/internal/agent.hpp"

int main(int count, char** arguments) {
  constexpr int kFirst = 6;
  if (count < kFirst) {
    return 2;
  }
  try {
    cairn::flash::AgentOptions options;
    options.memory = arguments[1];
    options.root = arguments[2];
    options.grace = std::chrono::milliseconds(std::atoi(arguments[3]));
    options.restarts = static_cast<unsigned>(std::atoi(arguments[4]));
    options.program.assign(arguments + kFirst, arguments + count);
    cairn::ContextOptions context;
    context.engine = cairn::io::EngineKind::threads;
    context.worker_threads = 2;
    context.staging_bytes = std::size_t{32} << 20;
    const int die_at = std::atoi(arguments[5]);
    const auto calls = std::make_shared<cairn::flash::Deadly>(static_cast<std::uint64_t>(die_at));
    context.syscalls = calls;
    const int status = cairn::flash::run_agent(options, context);
    if (die_at != 0) {
      std::cout << "calls " << calls->calls() << std::endl;
    }
    return status;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
