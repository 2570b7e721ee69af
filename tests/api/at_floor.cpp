// SPDX-License-Identifier: Apache-2.0
// A program that has little: `at_floor ROOT WORK ENGINE WORKERS LIMIT AMOUNT` makes a context, does some work that
// saves and loads, and says on its last line "done", or "error: " and what kept it from that; "skipped: " where there
// can be no such limit. LIMIT is "threads", "descriptors", "memory" (MiB) or "none", AMOUNT what there is of it
// beside what the process has when it begins.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <pthread.h>

#include "cairn/cairn.hpp"

#include "support/own_user.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMostSeconds = 120;  // Whoever waits for ever ends without a word.
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kStackBytes = 8 * kMiB;  // Whatever `ulimit -s` says.
constexpr std::size_t kReservedBytes =
    8 * kMiB;                       // Touched by as many threads as there are, if they can be had.
constexpr std::size_t kFiles = 80;  // More than are synced at once, by 64 threads.
constexpr std::size_t kNumbers = 2 * kMiB / sizeof(float);  // More than a page cache is asked for.

rlim_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) {
      return std::stoull(line.substr(7)) * 1024;
    }
  }
  throw std::runtime_error("/proc/self/status has no VmData");
}

rlim_t next_descriptor() {
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(next);
  return static_cast<rlim_t>(next);
}

void set_limit(std::string_view limit, rlim_t amount) {
  if (limit == "threads") {
    testing::limit_to(RLIMIT_NPROC, 1 + amount);
  } else if (limit == "descriptors") {
    testing::limit_to(RLIMIT_NOFILE, next_descriptor() + amount);
  } else if (limit == "memory") {
    testing::limit_to(RLIMIT_DATA, data_bytes() + amount * kMiB);
  }
}

io::EngineKind kind_of(std::string_view engine) {
  if (engine == "automatic") {
    return io::EngineKind::automatic;
  }
  return engine == "io_uring" ? io::EngineKind::uring : io::EngineKind::threads;
}

SaveOptions overwriting() {
  SaveOptions options;
  options.overwrite = true;
  return options;
}

bool use_tree(const fs::path& root, const Context& context) {
  const Tree state = {{"numbers", std::vector<float>(kNumbers, 2.5F)}, {"step", 7}};
  save(root / "step", state, overwriting(), context);
  return load(root / "step", LoadOptions(), context) == state;
}

bool use_many_files(const fs::path& root, const Context& context) {
  std::deque<Tree> trees;
  Checkpointables items;
  for (std::size_t i = 0; i < kFiles; ++i) {
    trees.push_back({{"numbers", std::vector<int>(10, static_cast<int>(i))}});
    items.push_back({"item" + std::to_string(i), trees.back()});
  }
  save_checkpointables(root / "step", items, overwriting(), context);
  Loaded loaded = load_checkpointables(root / "step", {}, LoadOptions(), context);
  for (std::size_t i = 0; i < kFiles; ++i) {
    if (loaded.take<Tree>("item" + std::to_string(i)) != trees[i]) {
      return false;
    }
  }
  return true;
}

bool use_foreign_folder(const fs::path& root, const Context& context) {
  return load(root / "model", LoadOptions(), context).size() == kFiles;
}

bool use(const fs::path& root, std::string_view work, const Context& context) {
  std::printf("%s: %s\n", std::string(context.engine()).c_str(), context.engine_reason().c_str());
  if (work == "tree") {
    return use_tree(root, context);
  }
  return work == "files" ? use_many_files(root, context) : use_foreign_folder(root, context);
}

std::string run(char** arguments) {
  ::umask(0);  // The next one is another user.
  ::alarm(kMostSeconds);
  pthread_attr_t threads;
  ::pthread_attr_init(&threads);
  ::pthread_attr_setstacksize(&threads, kStackBytes);
  ::pthread_setattr_default_np(&threads);
  if (const std::string why = testing::become_own_user(); !why.empty()) {
    return "skipped: " + why;
  }
  ContextOptions options;
  options.engine = kind_of(arguments[3]);
  options.worker_threads = std::strtoul(arguments[4], nullptr, 10);
  options.reserve_bytes = kReservedBytes;
  set_limit(arguments[5], std::strtoul(arguments[6], nullptr, 10));
  const Context context(options);
  return use(arguments[1], arguments[2], context) ? "done" : "other values were loaded";
}

}  // namespace
}  // namespace cairn

int main(int, char** argv) {
  try {
    std::puts(cairn::run(argv).c_str());
  } catch (const cairn::Error& error) {
    std::printf("error: %.4000s\n", error.what());
  } catch (const std::exception& error) {
    std::printf("another exception: %.4000s\n", error.what());
  }
  std::fflush(stdout);
}
