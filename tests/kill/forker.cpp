// SPDX-License-Identifier: Apache-2.0
// A program that forks while it has a context: `forker ROOT ENGINE MODE [CHILDREN]`.
//
//   work         saves and loads while so many children come and go; says "children N, stuck N, wrong N"
//   outlive      dies in the middle of a save, and leaves a child that waits for a line; says "forked" before
//   exec         the same, but the child is another program by then
//   descriptors  says which descriptors of a context and of a save another program would get, and then "done"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "cairn/cairn.hpp"

#include "io/internal/engine.hpp"
#include "kill/program.hpp"
#include "kill/state.hpp"
#include "store/internal/staged_directory.hpp"

namespace cairn::kill {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLongestChild{20};

/// Of static duration, as `default_context()` is: a child that calls exit() destroys it.
const Context& shared_context(std::string_view engine) {
  static const Context context = make_context(engine);
  return context;
}

/// What a child saves; made before it.
struct Inherited {
  fs::path target;
  Tree tree;
};

bool is_refused(const Inherited& inherited, const Context& context) {
  try {
    save(inherited.target, inherited.tree, {}, context);
  } catch (const Error& error) {
    return error.code() == Errc::closed;
  }
  return false;
}

/// What a child does; in the end it ends, each kind in its own way.
[[noreturn]] void live(std::uint64_t kind, const Inherited& inherited, const Context& context) {
  switch (kind % 4) {
    case 0:
      std::_Exit(0);
    case 1:
      ::execl("/bin/true", "true", nullptr);
      std::_Exit(1);
    case 2:
      std::exit(0);
    default:
      std::_Exit(is_refused(inherited, context) ? 0 : 1);
  }
}

struct Children {
  std::uint64_t stuck = 0;
  std::uint64_t wrong = 0;
};

/// Waits for the end of a child. Kills one that does not come to it.
void await(pid_t child, Children& children) {
  const auto deadline = std::chrono::steady_clock::now() + kLongestChild;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ++children.stuck;
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  children.wrong += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

int work(const fs::path& root, const Context& context, std::uint64_t count) {
  const Inherited inherited{root / "child", state(1)};
  SaveOptions overwriting;
  overwriting.overwrite = true;
  save(root / "step", state(0), overwriting, context);
  static_cast<void>(
      load(root / "step", {}, context));  // Whatever is made at its first use has been made now.
  std::atomic<bool> is_over = false;
  std::uint64_t wrong = 0;
  std::thread worker([&] {
    for (std::int64_t number = 1; !is_over; ++number) {
      save(root / "step", state(number), overwriting, context);
      wrong += load(root / "step", {}, context) == state(number) ? 0 : 1;
    }
  });
  Children children;
  for (std::uint64_t i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      live(i, inherited, context);
    }
    await(child, children);
  }
  is_over = true;
  worker.join();
  say("children " + std::to_string(count) + ", stuck " + std::to_string(children.stuck) + ", wrong " +
      std::to_string(children.wrong + wrong));
  return 0;
}

[[noreturn]] void die_in_a_save(const fs::path& root, bool must_exec) {
  const auto engine = io::make_engine(io::EngineKind::automatic).engine;
  const auto staged = store::StagedDirectory::create(*engine, root / "step");
  if (::fork() == 0) {
    if (must_exec) {
      ::execl("/bin/sh", "sh", "-c", "echo forked; read line", nullptr);
      std::_Exit(1);
    }
    say("forked");
    std::string line;
    std::getline(std::cin, line);
    std::_Exit(0);
  }
  // The child speaks, so that it is what it is to be when this process goes.
  while (true) {
    ::pause();
  }
}

std::set<int> inheritable() {
  std::set<int> found;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) {
      found.insert(fd);
    }
  }
  return found;
}

int show_descriptors(const fs::path& root, std::string_view engine) {
  const std::set<int> before = inheritable();
  const Context& context = shared_context(engine);
  save(root / "step", state(1), {}, context);
  const AsyncResponse saving = save_async(root / "next", state(2), {}, context);
  const LoadResponse loading = load_checkpointables_async(root / "step", {{"state"}}, {}, context);
  const auto other = io::make_engine(io::EngineKind::threads).engine;
  const auto staged = store::StagedDirectory::create(*other, root / "staged");
  for (const int fd : inheritable()) {
    if (before.count(fd) == 0) {
      say("descriptor " + fs::read_symlink("/proc/self/fd/" + std::to_string(fd)).string());
    }
  }
  say("done");
  return 0;
}

}  // namespace
}  // namespace cairn::kill

int main(int argc, char** argv) {
  if (argc < 4) {
    return 2;
  }
  const std::string_view mode = argv[3];
  if (mode == "outlive" || mode == "exec") {
    cairn::kill::die_in_a_save(argv[1], mode == "exec");
  }
  if (mode == "descriptors") {
    return cairn::kill::show_descriptors(argv[1], argv[2]);
  }
  return cairn::kill::work(argv[1], cairn::kill::shared_context(argv[2]),
                           argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 0);
}
