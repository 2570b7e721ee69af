// SPDX-License-Identifier: Apache-2.0
// Has the last word for a program: `last_word MEMORY ROOT GRACE_MS RESTARTS [PROGRAM ARGUMENTS…]`; without one it
// serves whoever uses the memory.
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "cairn/cairn.hpp"

#include "flash/internal/agent.hpp"

int main(int count, char** arguments) {
  constexpr int kFirst = 5;
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
    return cairn::flash::run_agent(options, context);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
