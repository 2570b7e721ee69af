// SPDX-License-Identifier: Apache-2.0
// A program that forks while it has a Checkpointer, a PartialSave or the default context: `forking_trainer ROOT MODE`.
//
//   training  has a static Checkpointer, a saved step and a save in flight; children end by exit(), or try each call
//   default   saves by the default context without a pause; children save and load by theirs, and end by exit()
//   own       has a context of its own, and a child that is told what to do
//   add       forks in the middle of an addition; adds another part while the child lives
//   killed    the same, but it is killed there; the child waits for a line
// The first three say "children N, stuck N, wrong N" and what was wrong; the fourth says "added"; the last says
// "forked".
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include "cairn/cairn.hpp"
#include "cairn/training/checkpointer.hpp"
#include "cairn/training/partial_save.hpp"

#include "kill/parts.hpp"
#include "kill/program.hpp"
#include "kill/state.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLongestChild{20};

/// What a child does before it ends by exit(): says what went wrong, if anything did.
using Life = std::function<void()>;

/// Forks a child for each life, and waits for it. Says how they ended.
void raise_children(const std::vector<Life>& lives) {
  int stuck = 0;
  int wrong = 0;
  for (const Life& life : lives) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        life();
      } catch (const std::exception& error) {
        say(std::string("wrong: ") + error.what());
        std::exit(1);
      }
      std::exit(0);
    }
    const auto deadline = std::chrono::steady_clock::now() + kLongestChild;
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        ++stuck;
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        status = 0;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    wrong += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
  }
  say("children " + std::to_string(lives.size()) + ", stuck " + std::to_string(stuck) + ", wrong " +
      std::to_string(wrong));
}

/// Fails unless `call` is refused, with a text that says what to do.
void expect_closed(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.code() == Errc::closed &&
        std::string_view(error.what()).find("another one here") != std::string::npos) {
      return;
    }
    throw;
  }
  throw std::runtime_error("it was not refused");
}

/// Of static duration: a child that calls exit() destroys them.
const Context& own_context() {
  static const Context context = make_context("automatic");
  return context;
}
Checkpointer& trainer(const fs::path& root) {
  static Checkpointer run(root, {}, own_context());
  return run;
}

void train(const fs::path& root) {
  Checkpointer& run = trainer(root);
  const auto save = [&](std::uint64_t step) {
    return run.save(step, {{"state", state(static_cast<std::int64_t>(step))}});
  };
  save(1).wait();
  run.wait();
  auto another = std::make_unique<Checkpointer>(root / "other", CheckpointerOptions(), own_context());
  save(2);  // In flight, perhaps.
  raise_children({
      [] {},
      [&] { expect_closed([&] { run.wait(); }); },
      [&] { expect_closed([&] { save(3); }); },
      [&] { expect_closed([&] { run.close(); }); },
      [&] { expect_closed([&] { static_cast<void>(run.load(1)); }); },
      [&] { expect_closed([&] { static_cast<void>(run.latest()); }); },
      [&] { expect_closed([&] { static_cast<void>(run.resume()); }); },
      [&] { another.reset(); },
      [&] {
        const Context mine = make_context("automatic");
        Checkpointer run_here(root / "child", {}, mine);
        run_here.save(1, {{"state", state(1)}}).wait();
      },
  });
  run.close();
}

void use_default(const fs::path& root) {
  constexpr int kChildren = 20;
  SaveOptions overwriting;
  overwriting.overwrite = true;
  save(root / "parent", state(0), overwriting);
  static_cast<void>(load(root / "parent"));  // Whatever is made at its first use has been made now.
  std::atomic<bool> is_over = false;
  std::thread worker([&] {
    for (std::int64_t number = 1; !is_over; ++number) {
      save(root / "parent", state(number), overwriting);
    }
  });
  const Life live = [&] {
    save(root / "child", state(7), overwriting);
    if (!(load(root / "child") == state(7))) {
      throw std::runtime_error("another state");
    }
    static_cast<void>(global_registry().contains("no/1"));
    static_cast<void>(save_async(root / "child", state(8), overwriting));  // For exit() to wait for.
  };
  raise_children(std::vector<Life>(kChildren, live));
  is_over = true;
  worker.join();
  if (!(load(root / "child") == state(8))) {
    say("wrong: the child's last save is lost");
  }
}

void use_own(const fs::path& root) {
  const Context& context = own_context();
  save(root / "step", state(1), {}, context);
  raise_children({
      [&] { expect_closed([&] { save(root / "other", state(1), {}, context); }); },
      [&] { expect_closed([&] { static_cast<void>(load(root / "step", {}, context)); }); },
  });
}

/// Forks while it is saved; the child lives until its standard input ends.
struct Forking {
  bool is_killed = false;

  static constexpr bool kIsSavedOnly = true;

  Awaitable<Background<>> save(SaveContext /*context*/) const {
    if (::fork() == 0) {
      say("forked");
      std::string line;
      std::getline(std::cin, line);
      std::_Exit(0);
    }
    if (is_killed) {
      ::pause();
    }
    co_return Background<>();
  }
};

/// A child whose first steps take long, as on a busy machine: before any of the library's own hooks, which come later.
void delay_children() {
  ::pthread_atfork(nullptr, nullptr, [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
}

void add(const fs::path& target, bool is_killed) {
  delay_children();
  const Forking forking{is_killed};
  PartialSave partial(target, {}, own_context());
  partial.add({{"forking", forking}, {"state", part(0)}});
  PartialSave another(target, {}, own_context());
  another.add({{"state", part(1)}});
  another.finalize();
  say("added");
}

}  // namespace
}  // namespace cairn::kill

int main(int argc, char** argv) {
  using namespace cairn::kill;
  if (argc != 3) {
    return 2;
  }
  const std::filesystem::path root = argv[1];
  const std::string_view mode = argv[2];
  try {
    if (mode == "training") {
      train(root);
    } else if (mode == "default") {
      use_default(root);
    } else if (mode == "own") {
      use_own(root);
    } else {
      add(root / "whole", mode == "killed");
    }
  } catch (const std::exception& error) {
    say(std::string("failed: ") + error.what());
    return 1;
  }
}
