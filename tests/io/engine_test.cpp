// SPDX-License-Identifier: Apache-2.0
#include "io/internal/engine.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine_share.hpp"
#include "support/held_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn::io {
namespace {

using testing::TempDir;

struct Counted : Request {
  std::atomic<std::int64_t>* sum = nullptr;
  std::counting_semaphore<>* finished = nullptr;
  std::int64_t result = -1;
};

void count(Request& request, std::int64_t result) noexcept {
  auto& counted = static_cast<Counted&>(request);
  counted.result = result;
  if (counted.sum != nullptr) {
    *counted.sum += result;
  }
  counted.finished->release();
}

struct Kind {
  EngineKind kind;
  bool is_direct;
  const char* name;
};

/// What every engine must do, whichever way a request takes inside it.
class EngineConformance : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.queue_depth = 8;
    options.threads = 3;
    try {
      engine_ = make_engine(GetParam().kind, options).engine;
    } catch (const Error& error) {
      GTEST_SKIP() << "no io_uring here: " << error.what();
    }
    fd_ = ::open((directory_ / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(fd_, 0);
  }

  void TearDown() override {
    engine_.reset();
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }

  void fill(Counted& request, Operation operation, std::byte* data, std::size_t size, std::uint64_t offset) {
    request.operation = operation;
    request.fd = fd_;
    request.data = data;
    request.size = size;
    request.offset = offset;
    request.is_direct = GetParam().is_direct;
    request.done = count;
    request.finished = &finished_;
  }

  std::int64_t run_one(Operation operation, std::byte* data, std::size_t size, std::uint64_t offset) {
    Counted request;
    fill(request, operation, data, size, offset);
    engine_->submit(request);
    finished_.acquire();
    return request.result;
  }

  TempDir directory_;
  std::unique_ptr<Engine> engine_;
  std::counting_semaphore<> finished_{0};
  int fd_ = -1;
};

TEST_P(EngineConformance, ReadsWhatItWrote) {
  std::vector<std::byte> written(70000, std::byte{7});
  std::vector<std::byte> read(70000);

  EXPECT_EQ(run_one(Operation::write, written.data(), written.size(), 123), 70000);
  EXPECT_EQ(run_one(Operation::sync_data, nullptr, 0, 0), 0);
  EXPECT_EQ(run_one(Operation::read, read.data(), read.size(), 123), 70000);

  EXPECT_EQ(read, written);
}

TEST_P(EngineConformance, ReportsAShortReadAtTheEndOfTheFile) {
  std::vector<std::byte> data(100);
  run_one(Operation::write, data.data(), 60, 0);

  EXPECT_EQ(run_one(Operation::read, data.data(), 100, 0), 60);
  EXPECT_EQ(run_one(Operation::read, data.data(), 100, 60), 0);
}

TEST_P(EngineConformance, ReportsABadDescriptor) {
  std::byte data{};
  ::close(fd_);

  EXPECT_EQ(run_one(Operation::write, &data, 1, 0), -EBADF);
  EXPECT_EQ(run_one(Operation::read, &data, 1, 0), -EBADF);
  EXPECT_EQ(run_one(Operation::sync_data, nullptr, 0, 0), -EBADF);

  fd_ = -1;
}

TEST_P(EngineConformance, KeepsWhatDoesNotFitItsQueue) {
  constexpr std::size_t kRequests = 1000;
  std::vector<std::byte> data(kRequests, std::byte{1});
  std::atomic<std::int64_t> sum{0};
  auto requests = std::make_unique<Counted[]>(kRequests);

  for (std::size_t i = 0; i < kRequests; ++i) {
    fill(requests[i], Operation::write, &data[i], 1, i);
    requests[i].sum = &sum;
    engine_->submit(requests[i]);
  }
  for (std::size_t i = 0; i < kRequests; ++i) {
    finished_.acquire();
  }

  EXPECT_EQ(sum, kRequests);
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), static_cast<off_t>(kRequests));
}

TEST_P(EngineConformance, TakesRequestsFromManyThreads) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 250;
  std::byte data{5};
  std::atomic<std::int64_t> sum{0};
  auto requests = std::make_unique<Counted[]>(kThreads * kEach);
  std::vector<std::thread> threads;

  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t * kEach; i < (t + 1) * kEach; ++i) {
        fill(requests[i], Operation::write, &data, 1, i);
        requests[i].sum = &sum;
        engine_->submit(requests[i]);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 0; i < kThreads * kEach; ++i) {
    finished_.acquire();
  }

  EXPECT_EQ(sum, kThreads * kEach);
}

TEST_P(EngineConformance, WaitsForItsRequestsWhenDestroyed) {
  std::vector<std::byte> data(std::size_t{1} << 20);
  std::atomic<std::int64_t> sum{0};
  auto requests = std::make_unique<Counted[]>(20);
  for (std::size_t i = 0; i < 20; ++i) {
    fill(requests[i], Operation::write, data.data(), data.size(), i * data.size());
    requests[i].sum = &sum;
    engine_->submit(requests[i]);
  }

  engine_.reset();

  EXPECT_EQ(sum, 20 << 20);
}

struct Again : Counted {
  Engine* engine = nullptr;
  int left = 0;
};

void submit_again(Request& request, std::int64_t result) noexcept {
  auto& again = static_cast<Again&>(request);
  if (--again.left > 0 && result == 1) {
    ++again.offset;
    again.engine->submit(again);
  } else {
    count(request, result);
  }
}

TEST_P(EngineConformance, LetsACompletionSubmitItsRequestAgain) {
  std::byte data{9};
  Again request;
  fill(request, Operation::write, &data, 1, 0);
  request.done = submit_again;
  request.engine = engine_.get();
  request.left = 50;

  engine_->submit(request);
  finished_.acquire();

  EXPECT_EQ(request.result, 1);
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 50);
}

TEST_P(EngineConformance, StopsWithoutEverHavingWorked) {
  engine_.reset();

  EXPECT_EQ(engine_, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineConformance,
                         ::testing::Values(Kind{EngineKind::threads, false, "Threads"},
                                           Kind{EngineKind::uring, true, "UringInTheRing"},
                                           Kind{EngineKind::uring, false, "UringThroughTheCache"}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(MakeEngine, SaysWhyItPassedIoUringOver) {
  const EngineChoice choice = make_engine(EngineKind::automatic);

  EXPECT_EQ(choice.reason.empty(), choice.engine->name() == "io_uring") << choice.reason;
}

// ThreadSanitizer does not see that the kernel gives one ring's addresses to the next: nothing but that orders these.
TEST(MakeEngine, TakesThreadsWhereThereIsNoDescriptorForARing) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);

  const EngineChoice choice = make_engine(EngineKind::automatic);

  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(choice.engine->name(), "threads");
  EXPECT_THAT(choice.reason, HasSubstr("io_uring is not available: "));
}

TEST(MakeEngine, MakesRingsOneAfterTheOtherWithoutARaceBetweenThem) {
  constexpr int kRings = 16;
  std::atomic<int> turn{0};
  std::atomic<int> synced{0};
  std::vector<std::thread> owners;
  owners.reserve(kRings);
  for (int mine = 0; mine < kRings; ++mine) {
    owners.emplace_back([mine, &turn, &synced] {
      while (turn.load(std::memory_order_relaxed) != mine) {
        std::this_thread::yield();
      }
      {
        const EngineChoice choice = make_engine(EngineKind::automatic);
        const TempDir directory;
        const int fd = ::open((directory / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        std::counting_semaphore<> finished(0);
        Counted request;
        request.operation = Operation::sync_data;
        request.fd = fd;
        request.finished = &finished;
        request.done = count;
        choice.engine->submit(request);
        finished.acquire();
        ::close(fd);
        synced.fetch_add(request.result == 0 ? 1 : 0, std::memory_order_relaxed);
      }
      turn.store(mine + 1, std::memory_order_relaxed);
    });
  }
  for (std::thread& owner : owners) {
    owner.join();
  }

  EXPECT_EQ(synced, kRings);
}

/// How many threads this process has.
std::size_t thread_count() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    ++count;
  }
  return count;
}

TEST(ThreadEngine, StartsNoThreadForASyncWhileOneIsIdle) {
  const TempDir directory;
  const int fd = ::open((directory / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  const std::unique_ptr<Engine> engine = make_engine(EngineKind::threads).engine;
  std::counting_semaphore<> finished{0};
  const std::size_t before = thread_count();

  for (int i = 0; i < 5; ++i) {
    Counted request;
    request.operation = Operation::sync_data;
    request.fd = fd;
    request.done = count;
    request.finished = &finished;
    engine->submit(request);
    finished.acquire();
  }

  EXPECT_EQ(thread_count(), before);
  ::close(fd);
}

Counted request_of(Operation operation, int fd, std::byte& byte, std::counting_semaphore<>& finished) {
  Counted request;
  request.operation = operation;
  request.fd = fd;
  request.data = &byte;
  request.size = operation == Operation::sync_data ? 0 : 1;
  request.done = count;
  request.finished = &finished;
  return request;
}

class ThreadEngineShare : public ::testing::TestWithParam<Operation> {};

TEST_P(ThreadEngineShare, KeepsNoThreadOfAnotherWhenItsRequestsHang) {
  constexpr std::size_t kMany = 200;
  const bool are_syncs = GetParam() == Operation::sync_data;
  const int at_once = are_syncs ? 64 : 3;
  const TempDir directory;
  const int fd = ::open((directory / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  testing::HeldSyscalls syscalls;
  syscalls.hold(are_syncs ? testing::Held::sync_data : testing::Held::write, at_once);
  EngineOptions options;
  options.threads = 3;
  options.syscalls = &syscalls;
  const std::unique_ptr<Engine> engine = make_engine(EngineKind::threads, options).engine;
  std::byte byte{1};
  std::counting_semaphore<> finished{0};
  EngineShare one;
  std::vector<Counted> hanging;
  for (std::size_t i = 0; i < kMany; ++i) {
    hanging.push_back(request_of(GetParam(), fd, byte, finished));
    hanging.back().share = &one;
  }
  for (Counted& request : hanging) {
    engine->submit(request);
  }
  ASSERT_TRUE(syscalls.holds(at_once));

  EngineShare other;
  std::counting_semaphore<> other_finished{0};
  Counted quick = request_of(GetParam(), fd, byte, other_finished);
  quick.share = &other;
  engine->submit(quick);

  EXPECT_TRUE(other_finished.try_acquire_for(std::chrono::seconds(20)));
  EXPECT_EQ(syscalls.held(), at_once);  // The others of the first share wait for those.
  syscalls.let_go();
  for (std::size_t i = 0; i < kMany; ++i) {
    finished.acquire();
  }
  ::close(fd);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ThreadEngineShare, ::testing::Values(Operation::write, Operation::sync_data),
                         [](const auto& kind) {
                           return std::string(kind.param == Operation::write ? "Writes" : "Syncs");
                         });

TEST(UringEngine, LeavesToThreadsWhatFindsTheRingFullOfOthersRequests) {
  constexpr std::size_t kDepth = 8;
  constexpr std::size_t kMany = 50;
  const TempDir directory;
  const int fd = ::open((directory / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  EngineOptions options;
  options.queue_depth = kDepth;
  std::unique_ptr<Engine> engine;
  try {
    engine = make_engine(EngineKind::uring, options).engine;
  } catch (const Error& error) {
    GTEST_SKIP() << "no io_uring here: " << error.what();
  }
  std::byte byte{1};
  std::counting_semaphore<> finished{0};
  EngineShare one;
  std::vector<Counted> hanging;  // Nothing comes through the pipe.
  for (std::size_t i = 0; i < kMany; ++i) {
    hanging.push_back(request_of(Operation::read, pipe[0], byte, finished));
    hanging.back().share = &one;
    hanging.back().is_direct = true;
  }
  for (Counted& request : hanging) {
    engine->submit(request);
  }

  EngineShare other;
  std::counting_semaphore<> other_finished{0};
  for (const Operation operation : {Operation::write, Operation::sync_data}) {
    Counted quick = request_of(operation, fd, byte, other_finished);
    quick.share = &other;
    quick.is_direct = true;
    engine->submit(quick);

    EXPECT_TRUE(other_finished.try_acquire_for(std::chrono::seconds(20)));
  }

  EXPECT_FALSE(finished.try_acquire());
  ::close(pipe[1]);
  for (std::size_t i = 0; i < kMany; ++i) {
    finished.acquire();
  }
  for (const Counted& request : hanging) {
    EXPECT_EQ(request.result,
              0);  // All in the ring, one after the other: a thread could not read a pipe there.
  }
  ::close(pipe[0]);
  ::close(fd);
}

TEST(MakeEngine, GivesThreadsWhenAskedForThem) {
  const EngineChoice choice = make_engine(EngineKind::threads);

  EXPECT_EQ(choice.engine->name(), "threads");
  EXPECT_EQ(choice.reason, "");
}

TEST(MakeEngine, PassesTheGivenSyscallsOn) {
  FaultySyscalls syscalls;
  EngineOptions options;
  options.syscalls = &syscalls;

  EXPECT_EQ(&make_engine(EngineKind::threads, options).engine->syscalls(), &syscalls);
}

}  // namespace
}  // namespace cairn::io
