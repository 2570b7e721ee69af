// SPDX-License-Identifier: Apache-2.0
#include "bench/ceilings.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <liburing.h>
#include <xxhash.h>

#include "base/internal/aligned_memory.hpp"
#include "bench/measure.hpp"

namespace cairn::bench {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{4} << 20;
constexpr unsigned kDepth = 16;

[[noreturn]] void fail(const char* what, int error) {
  throw std::runtime_error(std::string(what) + ": " + std::strerror(error));
}

int open_or_fail(const std::filesystem::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (fd < 0)
    fail("open", errno);
  return fd;
}

double copy_fresh(const std::byte* from, std::size_t bytes) {
  void* fresh = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED)
    fail("mmap", errno);
  const double seconds = copy_with(2, static_cast<std::byte*>(fresh), from, bytes);
  ::munmap(fresh, bytes);
  return seconds;
}

/// Moves `bytes` in blocks with `kDepth` requests in flight, through io_uring and nothing else.
void transfer(int fd, std::byte* memory, std::uint64_t bytes, bool is_write) {
  io_uring ring{};
  if (const int result = ::io_uring_queue_init(kDepth, &ring, 0); result < 0)
    fail("io_uring", -result);
  std::uint64_t next = 0;
  std::uint64_t done = 0;
  const auto submit = [&] {
    const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(kBlockBytes, bytes - next));
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring);
    if (is_write) {
      ::io_uring_prep_write(entry, fd, memory + next, static_cast<unsigned>(size), next);
    } else {
      ::io_uring_prep_read(entry, fd, memory + next, static_cast<unsigned>(size), next);
    }
    ::io_uring_sqe_set_data64(entry, size);
    next += size;
  };
  while (next < bytes && next / kBlockBytes < kDepth)
    submit();
  while (done < bytes) {
    ::io_uring_submit_and_wait(&ring, 1);
    io_uring_cqe* completion = nullptr;
    while (::io_uring_peek_cqe(&ring, &completion) == 0) {
      if (completion->res < 0)
        fail("transfer", -completion->res);
      if (static_cast<std::uint64_t>(completion->res) != completion->user_data)
        fail("short transfer", EIO);
      done += completion->user_data;
      ::io_uring_cqe_seen(&ring, completion);
      if (next < bytes)
        submit();
    }
  }
  ::io_uring_queue_exit(&ring);
}

double read_direct(const std::filesystem::path& path, std::byte* to, std::uint64_t bytes) {
  drop_page_cache(path.parent_path());
  const Stopwatch watch;
  const int fd = open_or_fail(path, O_RDONLY | O_DIRECT);
  transfer(fd, to, bytes, false);
  ::close(fd);
  return watch.seconds();
}

double touch_fresh(std::uint64_t bytes) {
  const AlignedMemory fresh(bytes);
  const Stopwatch watch;
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 0; i < 2; ++i) {
      helpers.emplace_back([&fresh, i] {
        for (std::size_t at = i * kBlockBytes; at < fresh.size(); at += 2 * kBlockBytes) {
          touch(fresh.data() + at, std::min(kBlockBytes, fresh.size() - at));
        }
      });
    }
  }
  return watch.seconds();
}

double read_buffered(const std::filesystem::path& path, std::byte* to, std::uint64_t bytes) {
  drop_page_cache(path.parent_path());
  const Stopwatch watch;
  const int fd = open_or_fail(path, O_RDONLY);
  for (std::uint64_t done = 0; done < bytes;) {
    const ssize_t got = ::read(fd, to + done, std::min<std::uint64_t>(kBlockBytes, bytes - done));
    if (got <= 0)
      fail("read", errno);
    done += static_cast<std::uint64_t>(got);
  }
  ::close(fd);
  return watch.seconds();
}

double hash_rate(const std::byte* source, std::uint64_t bytes) {
  const Stopwatch watch;
  XXH64_hash_t all = 0;
  for (std::uint64_t at = 0; at + (1 << 20) <= bytes; at += 1 << 20) {
    all ^= XXH3_64bits(source + at, 1 << 20);
  }
  volatile XXH64_hash_t keep = all;
  static_cast<void>(keep);
  return static_cast<double>(bytes) / watch.seconds() * 1e-9;
}

double empty_sync(const std::filesystem::path& path) {
  const int fd = open_or_fail(path, O_RDWR);
  std::array<double, 5> times{};
  for (double& time : times) {
    const Stopwatch watch;
    if (::fsync(fd) != 0)
      fail("fsync", errno);
    time = watch.seconds();
  }
  ::close(fd);
  std::sort(times.begin(), times.end());
  return times[2];
}

}  // namespace

double copy_with(std::size_t threads, std::byte* to, const std::byte* from, std::size_t bytes) {
  const Stopwatch watch;
  {
    std::vector<std::jthread> helpers;
    const std::size_t share = bytes / threads;
    for (std::size_t i = 0; i < threads; ++i) {
      helpers.emplace_back([=] { std::memcpy(to + i * share, from + i * share, share); });
    }
  }
  return watch.seconds();
}

double write_durably(const std::filesystem::path& file, const std::byte* source, std::uint64_t bytes) {
  const Stopwatch watch;
  const int fd = open_or_fail(file, O_CREAT | O_EXCL | O_WRONLY | O_DIRECT);
  if (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0)
    fail("fallocate", errno);
  transfer(fd, const_cast<std::byte*>(source), bytes, true);  // Writes only read from it.
  if (::fdatasync(fd) != 0)
    fail("fdatasync", errno);
  ::close(fd);
  return watch.seconds();
}

Ceilings measure_ceilings(const std::filesystem::path& directory, const std::byte* source,
                          std::uint64_t bytes) {
  Ceilings found;
  found.bytes = bytes;
  AlignedMemory memory(bytes);
  touch(memory.data(), memory.size());
  found.memcpy1_s = copy_with(1, memory.data(), source, bytes);
  found.memcpy2_s = copy_with(2, memory.data(), source, bytes);
  found.memcpy2_fresh_s = copy_fresh(source, bytes);
  found.touch2_s = touch_fresh(bytes);
  found.xxh3_gbs = hash_rate(source, bytes);
  const std::filesystem::path file = directory / "ceiling.raw";
  std::filesystem::remove(file);
  found.write_s = write_durably(file, source, bytes);
  found.fsync_s = empty_sync(file);
  found.read_s = read_direct(file, memory.data(), bytes);
  {
    const AlignedMemory fresh(bytes);
    found.read_fresh_s = read_direct(file, fresh.data(), bytes);
  }
  found.read_buffered_s = read_buffered(file, memory.data(), bytes);
  std::filesystem::remove(file);
  return found;
}

}  // namespace cairn::bench
