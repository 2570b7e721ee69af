// SPDX-License-Identifier: Apache-2.0
// A process that saves, replaces and removes checkpoints until it is killed: `victim ROOT ENGINE FIRST WORLD`; WORLD
// is what its calls of the system are like (see program.hpp). On standard output it says what it begins and what it
// is told (README.md has the words). It goes when its parent goes. `victim ROOT ENGINE FIRST fsize|nofile` saves
// once, with a limit on the size of files or on their number, and says what the save failed with.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include "cairn/cairn.hpp"

#include "kill/dict.hpp"
#include "kill/program.hpp"
#include "kill/state.hpp"
#include "support/dice.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNames = 3;
constexpr rlim_t kMostFileBytes = 1 << 20;  // Less than the state has.

/// Returns whether a save may fail with that in a world where nothing is broken.
bool is_known(const Error& error) {
  constexpr std::array<Errc, 5> kKnown = {Errc::already_exists, Errc::cancelled, Errc::timed_out,
                                          Errc::superseded, Errc::commit_unknown};
  return std::any_of(kKnown.begin(), kKnown.end(), [&](Errc code) { return error.code() == code; });
}

/// Saves and removes in all ways, and says what it does. Everything follows from the first number.
class Victim {
 public:
  Victim(fs::path root, std::int64_t first, const World& world, const Context& context)
      : root_(std::move(root)),
        next_(first),
        world_(world),
        context_(context),
        dice_(static_cast<std::uint64_t>(first)) {}

  void act() {
    switch (dice_.below(12)) {
      case 0:
        return save_now(name(), new_only());
      case 1:
      case 2:
        return save_and_cancel();
      case 3:
      case 4:
        return save_until_deadline();
      case 5:
        return save_coalescing();
      case 6:
      case 7:
        return remove(name());
      default:
        return save_now(name(), replacing());
    }
  }

 private:
  std::string name() { return "step_" + std::to_string(dice_.below(kNames)); }

  /// At most as long as a slow call takes.
  std::chrono::nanoseconds moment() { return dice_.up_to(world_.slowest()); }

  static SaveOptions new_only() { return {}; }

  static SaveOptions replacing() {
    SaveOptions options;
    options.overwrite = true;
    return options;
  }

  std::int64_t begin(const std::string& verb, const std::string& name, bool overwrites = true) {
    say(verb + " " + name + " " + std::to_string(next_) + (overwrites ? "" : " new"));
    return next_++;
  }

  /// Says what `call` is told. Errors: those that no save may be told.
  template <class Call>
  void tell(std::int64_t number, Call call, bool is_removal = false) {
    try {
      call();
      say("done " + std::to_string(number));
    } catch (const Error& error) {
      const bool is_unknown =
          is_removal ? error.code() != Errc::not_found : error.code() == Errc::commit_unknown;
      say((is_unknown ? "unknown " : "failed ") + std::to_string(number) + " " + error.code().message());
      if (is_known(error)) {
        return;
      }
      if (!world_.lies()) {
        throw;
      }
      if (++lies_ == kLies) {
        std::this_thread::sleep_for(std::chrono::hours(1));  // So that no later save hides it.
      }
    }
  }

  void save_now(const std::string& name, SaveOptions options) {
    const std::int64_t number = begin("save", name, options.overwrite);
    options.custom_metadata = std::to_string(number);
    tell(number, [&] { start_save(root_ / name, number, options, context_).wait(); });
  }

  void save_until_deadline() {
    SaveOptions options = replacing();
    options.deadline = moment();
    save_now(name(), options);
  }

  /// Begins a save, and says when its place in the order is certain.
  AsyncResponse start(const std::string& name, std::int64_t number, SaveOptions options) {
    options.custom_metadata = std::to_string(number);
    AsyncResponse saving = start_save(root_ / name, number, options, context_);
    say("placed " + std::to_string(number));
    return saving;
  }

  void save_and_cancel() {
    const std::string target = name();
    const std::int64_t number = begin("save", target);
    tell(number, [&] {
      const AsyncResponse saving = start(target, number, replacing());
      std::this_thread::sleep_for(moment());
      saving.cancel();
      saving.wait();
    });
  }

  void save_coalescing() {
    SaveOptions options = replacing();
    options.coalesce = true;
    std::deque<std::pair<std::int64_t, AsyncResponse>> saves;
    for (std::size_t i = 0; i < kNames; ++i) {
      const std::string target = name();
      const std::int64_t number = begin("save", target);
      saves.emplace_back(number, start(target, number, options));
    }
    for (const auto& [number, saving] : saves) {
      tell(number, [&response = saving] { response.wait(); });
    }
  }

  void remove(const std::string& name) {
    if (!fs::exists(root_ / name)) {
      return save_now(name, replacing());
    }
    const std::int64_t number = begin("remove", name);
    tell(
        number, [&] { remove_checkpoint(root_ / name, {}, context_); }, true);
  }

  const fs::path root_;
  std::int64_t next_;
  static constexpr int kLies = 3;  // As many as the test waits for.

  const World& world_;
  int lies_ = 0;
  const Context& context_;
  testing::Dice dice_;
};

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
  if (argc != 5 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return 2;
  }
  const std::int64_t first = std::strtoll(argv[3], nullptr, 10);
  const cairn::kill::World world(argv[4], static_cast<std::uint64_t>(first));
  const cairn::Context context = cairn::kill::make_context(argv[2], world);
  const std::string_view words = argv[4];
  if (words == "fsize" || words == "nofile") {
    return cairn::kill::save_once(argv[1], first, words, context);
  }
  try {
    cairn::kill::Victim victim(argv[1], first, world, context);
    while (true) {
      victim.act();
    }
  } catch (const std::exception& error) {
    cairn::kill::say(std::string("ended ") + error.what());  // The power was cut, or there is a fault.
    return 1;
  }
}
