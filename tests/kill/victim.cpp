// SPDX-License-Identifier: Apache-2.0
// A process that saves, replaces and removes checkpoints until it is killed: `victim ROOT ENGINE FIRST`. On standard
// output it says what it begins and what is done: "save NAME NUMBER", "remove NAME", "done". It goes when its parent
// goes. `victim ROOT ENGINE FIRST fsize|nofile` saves once, with a limit on the size of files or on their number, and
// says what the save failed with.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include "cairn/cairn.hpp"

#include "kill/program.hpp"
#include "kill/state.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNames = 3;
constexpr std::int64_t kRemoveEvery = 5;
constexpr rlim_t kMostFileBytes = 1 << 20;  // Less than the state has.

[[noreturn]] void save_until_the_end(const fs::path& root, std::int64_t number, const Context& context) {
  SaveOptions options;
  options.overwrite = true;
  for (;; ++number) {
    const std::string name = "step_" + std::to_string(number % kNames);
    if (number % kRemoveEvery == 0 && fs::exists(root / name)) {
      say("remove " + name);
      remove_checkpoint(root / name, context);
      say("done");
    }
    say("save " + name + " " + std::to_string(number));
    save(root / name, state(number), options, context);
    say("done");
  }
}

void limit(std::string_view what) {
  if (what == "fsize") {
    std::signal(SIGXFSZ, SIG_IGN);  // Else the signal ends the process before write(2) can fail.
    const rlimit most{kMostFileBytes, kMostFileBytes};
    ::setrlimit(RLIMIT_FSIZE, &most);
  } else {
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);  // The lowest number that is free.
    ::close(next);
    const rlimit most{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};
    ::setrlimit(RLIMIT_NOFILE, &most);
  }
}

int save_once(const fs::path& root, std::int64_t number, std::string_view limited, const Context& context) {
  limit(limited);
  try {
    save(root / "step", state(number), {}, context);
  } catch (const Error& error) {
    say(error.code().message() + ": " + error.what());
    return 0;
  }
  say("saved");
  return 0;
}

}  // namespace
}  // namespace cairn::kill

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return 2;
  }
  const cairn::Context context = cairn::kill::make_context(argv[2]);
  const std::int64_t first = std::strtoll(argv[3], nullptr, 10);
  if (argc == 5) {
    return cairn::kill::save_once(argv[1], first, argv[4], context);
  }
  try {
    cairn::kill::save_until_the_end(argv[1], first, context);
  } catch (const std::exception& error) {  // The power was cut.
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
