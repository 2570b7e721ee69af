// SPDX-License-Identifier: Apache-2.0
// One of several processes that share a root until they are killed. `rival ROOT ENGINE FIRST OWN WORLD` saves,
// replacing what is there, to OWN and to `shared` in turn, some with a deadline, and says "save NAME NUMBER" and then
// "done", "refused" (it has failed) or "unknown"; WORLD is what its calls of the system are like (see program.hpp).
// `rival ROOT recover` runs recovery without end, and says "recovery" before each. At any other error it says
// "failed: <what>" and ends. It goes when its parent goes.
#include <sys/prctl.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include "cairn/cairn.hpp"

#include "io/internal/syscalls.hpp"
#include "kill/program.hpp"
#include "kill/state.hpp"
#include "store/internal/recovery.hpp"
#include "support/dice.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

/// What a rival says of a save that failed with that. Errors: what no save here may fail with.
std::string word_for(const Error& error, const SaveOptions& options) {
  if (error.code() == Errc::already_exists) {
    return "refused";  // Another was first.
  }
  const bool has_deadline = options.deadline.count() > 0;
  if (has_deadline && error.code() == Errc::timed_out) {
    return "refused";
  }
  if (has_deadline && error.code() == Errc::commit_unknown) {
    return "unknown";
  }
  throw error;
}

[[noreturn]] void save_until_killed(const fs::path& root, std::int64_t number, const std::string& own,
                                    const World& world, const Context& context) {
  testing::Dice dice(static_cast<std::uint64_t>(number));
  SaveOptions options;
  options.overwrite = true;
  for (;; ++number) {
    options.deadline = dice.one_in(3) ? dice.up_to(world.slowest()) : testing::Duration(0);
    const std::string name = number % 2 == 0 ? own : "shared";
    say("save " + name + " " + std::to_string(number));
    try {
      save(root / name, state(number), options, context);
      say("done");
    } catch (const Error& error) {
      say(word_for(error, options));
    }
  }
}

[[noreturn]] void recover_until_killed(const fs::path& root) {
  while (true) {
    say("recovery");
    store::recover(io::posix_syscalls(), root);
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
    if (argc != 6) {
      return 2;
    }
    const std::int64_t first = std::strtoll(argv[3], nullptr, 10);
    const cairn::kill::World world(argv[5], static_cast<std::uint64_t>(first));
    const cairn::Context context = cairn::kill::make_context(argv[2], world);
    cairn::kill::save_until_killed(argv[1], first, argv[4], world, context);
  } catch (const std::exception& error) {
    cairn::kill::say(std::string("failed: ") + error.what());
    return 1;
  }
}
