// SPDX-License-Identifier: Apache-2.0
// An engine where the system lets a user start few threads: `few_threads KIND SPARE FILE` makes one of the least
// size, with so many threads beside its own, and writes, syncs and reads a file. It says what each gave, a line each.
// 77: a limit of its own cannot be had here.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <semaphore>
#include <string>
#include <string_view>

#include "cairn/base/error.hpp"

#include "base/internal/aligned_memory.hpp"
#include "io/internal/engine.hpp"
#include "support/own_user.hpp"

namespace cairn::io {
namespace {

constexpr int kNoLimit = 77;
constexpr std::size_t kBytes = 4096;

struct Waited : Request {
  std::binary_semaphore finished{0};
  std::int64_t result = 0;
};

void finish(Request& request, std::int64_t result) noexcept {
  auto& waited = static_cast<Waited&>(request);
  waited.result = result;
  waited.finished.release();
}

/// As one of a file with O_DIRECT, which the engine gives to the ring where it has one.
std::int64_t perform(Engine& engine, Operation operation, int fd, const AlignedMemory& bytes) {
  Waited request;
  request.operation = operation;
  request.fd = fd;
  request.data = bytes.data();
  request.size = bytes.size();
  request.is_direct = true;
  request.done = finish;
  engine.submit(request);
  request.finished.acquire();
  return request.result;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void work(EngineKind kind, int fd) {
  EngineOptions options;
  options.threads = 1;
  const EngineChoice choice = make_engine(kind, options);
  Engine& engine = *choice.engine;
  say(std::string(engine.name()) + ": " + choice.reason);
  const AlignedMemory written(kBytes);
  const AlignedMemory read(kBytes);
  std::fill_n(written.data(), kBytes, std::byte{7});
  say("sync: " + std::to_string(perform(engine, Operation::sync_data, fd, written)));
  say("write: " + std::to_string(perform(engine, Operation::write, fd, written)));
  say("sync: " + std::to_string(perform(engine, Operation::sync_data, fd, written)));
  say("read: " + std::to_string(perform(engine, Operation::read, fd, read)));
  say(std::equal(read.data(), read.data() + kBytes, written.data()) ? "same" : "different");
  say(std::string(engine.name()) + ": " + engine.trouble());
}

}  // namespace
}  // namespace cairn::io

int main(int, char** argv) {
  const bool is_uring = std::string_view(argv[1]) == "uring";
  int fd = ::open(argv[3], O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
  if (fd < 0) {
    fd = ::open(argv[3], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  }
  if (const std::string why = cairn::testing::become_own_user(); !why.empty()) {
    cairn::io::say(why);
    return cairn::io::kNoLimit;
  }
  cairn::testing::limit_to(RLIMIT_NPROC, 1 + std::strtoul(argv[2], nullptr, 10));
  try {
    cairn::io::work(is_uring ? cairn::io::EngineKind::uring : cairn::io::EngineKind::automatic, fd);
  } catch (const cairn::Error& error) {
    cairn::io::say(error.what());
  }
  ::close(fd);
  return 0;
}
