// SPDX-License-Identifier: Apache-2.0
// One of several processes that share a root until they are killed. `rival ROOT ENGINE FIRST OWN` saves, replacing what is
// there, to OWN and to `shared` in turn, and says "save NAME NUMBER" and then "done" or "refused"; `rival ROOT recover`
// runs recovery without end, and says "recovery" before each. At any other error it says "failed: <what>" and ends. It
// goes when its parent goes.
#include <sys/prctl.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include "cairn/cairn.hpp"
#include "cairn/io/recovery.hpp"

#include "kill/program.hpp"
#include "kill/state.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void save_until_killed(const fs::path& root, std::int64_t number, const std::string& own,
                                    const Context& context) {
  SaveOptions options;
  options.overwrite = true;
  for (;; ++number) {
    const std::string name = number % 2 == 0 ? own : "shared";
    say("save " + name + " " + std::to_string(number));
    try {
      save(root / name, state(number), options, context);
      say("done");
    } catch (const Error& error) {
      if (error.code() != Errc::already_exists) {
        throw;
      }
      say("refused");  // Another was first.
    }
  }
}

[[noreturn]] void recover_until_killed(const fs::path& root) {
  while (true) {
    say("recovery");
    io::recover(io::posix_syscalls(), root);
  }
}

}  // namespace
}  // namespace cairn::kill

int main(int argc, char** argv) {
  if (argc < 3 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return 2;
  }
  try {
    if (std::string_view(argv[2]) == "recover") {
      cairn::kill::recover_until_killed(argv[1]);
    }
    if (argc != 5) {
      return 2;
    }
    const cairn::Context context = cairn::kill::make_context(argv[2]);
    cairn::kill::save_until_killed(argv[1], std::strtoll(argv[3], nullptr, 10), argv[4], context);
  } catch (const std::exception& error) {
    cairn::kill::say(std::string("failed: ") + error.what());
    return 1;
  }
}
