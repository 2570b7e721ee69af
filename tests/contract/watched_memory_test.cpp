// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/contract/value_traits.hpp"

namespace cairn {
namespace {

/// A read that no compiler leaves out.
int read(const int& value) {
  return static_cast<const volatile int&>(value);
}

void fault() {
  void* page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  static_cast<void>(read(*static_cast<const int*>(page)));
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t whole = 0;
  std::size_t resident = 0;
  statm >> whole >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

class WatchedMemoryOfOthers : public ::testing::Test {
 protected:
  WatchedMemoryOfOthers() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST(WatchedMemory, NotesTheFirstTouchAndLetsItPass) {
  WatchedMemory memory;
  const int& value = memory.make<int>(5);

  memory.watch();
  const bool was_touched = memory.touched().has_value();
  const int seen = read(value);

  EXPECT_FALSE(was_touched);
  EXPECT_EQ(seen, 5);
  EXPECT_EQ(memory.touched(), "the value");
}

TEST(WatchedMemory, NamesTheBlockThatWasTouched) {
  WatchedMemory memory;
  static_cast<void>(memory.allocate(100, 8, "one"));
  std::byte* two = memory.allocate(100, 8, "two");
  static_cast<void>(memory.allocate(100, 8, "three"));

  memory.watch();
  two[99] = std::byte{1};

  EXPECT_EQ(memory.touched(), "two");
}

TEST(WatchedMemory, NotesTouchesOfOtherThreads) {
  WatchedMemory memory;
  int& value = memory.make<int>(5);
  memory.watch();

  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&value] { static_cast<void>(read(value)); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  EXPECT_EQ(memory.touched(), "the value");
}

TEST(WatchedMemory, IsNotTouchedByWhatEndsIt) {
  int destroyed = 0;
  struct Object {
    explicit Object(int* count_in) : count(count_in) {}
    ~Object() { ++*count; }
    int* count;
  };
  WatchedMemory memory;
  memory.make<Object>(&destroyed);
  memory.watch();

  memory.end();

  EXPECT_EQ(destroyed, 1);
  EXPECT_FALSE(memory.touched());
}

TEST(WatchedMemory, DestroysTheLastFirst) {
  std::vector<int> order;
  struct Object {
    Object(std::vector<int>* order_in, int number_in) : order(order_in), number(number_in) {}
    ~Object() { order->push_back(number); }
    std::vector<int>* order;
    int number;
  };
  {
    WatchedMemory memory;
    memory.make<Object>(&order, 1);
    memory.make<Object>(&order, 2);
  }

  EXPECT_THAT(order, ::testing::ElementsAre(2, 1));
}

TEST(WatchedMemory, CanBeUsedAgainWhenItHasEnded) {
  WatchedMemory memory;
  std::byte* bytes = memory.allocate(10, 1);
  memory.watch();

  memory.end();
  std::memset(bytes, 1, 10);

  EXPECT_FALSE(memory.touched());
}

TEST(WatchedMemory, HasRoomForLargeAndAlignedBlocks) {
  WatchedMemory memory;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100'000}, std::size_t{200} << 20}) {
    std::byte* block = memory.allocate(bytes, 4096);

    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 4096, 0U);
    block[0] = block[bytes - 1] = std::byte{1};
  }
}

TEST(WatchedMemory, BlocksOfSeveralCopiesAreToldApart) {
  WatchedMemory one;
  WatchedMemory two;
  static_cast<void>(one.make<int>(1));
  const int& second = two.make<int>(2);
  one.watch();
  two.watch();

  static_cast<void>(read(second));

  EXPECT_FALSE(one.touched());
  EXPECT_TRUE(two.touched());
}

TEST_F(WatchedMemoryOfOthers, UseOfWhatIsGoneEndsTheProcessAndSaysWhose) {
  const auto use_late = [] {
    std::optional<WatchedMemory> memory(std::in_place, "'point' (handler example.point/1)");
    const int& value = memory->make<int>(5);
    memory->watch();
    memory.reset();
    static_cast<void>(read(value));
  };

  EXPECT_DEATH(use_late(), "'point' .handler example.point/1. was given is used after its save was done");
}

TEST(WatchedMemory, AddressesOfMostThatAreGoneAreGivenBack) {
  const std::size_t before = mappings();

  for (int i = 0; i < 1000; ++i) {
    WatchedMemory memory;
    static_cast<void>(memory.allocate(std::size_t{1} << 20, 1));
    memory.watch();
  }

  EXPECT_LT(mappings(), before + 100);
}

TEST(WatchedMemory, ThatIsGoneTakesNoMemory) {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  std::size_t most = 0;
  for (int i = 0; i < 10; ++i) {
    WatchedMemory memory;
    std::memset(memory.allocate(kBytes, 1), 1, kBytes);
    most = std::max(most, resident_bytes());
    memory.watch();
  }

  EXPECT_LT(resident_bytes() + kBytes / 2, most) << "only addresses are kept";
}

TEST_F(WatchedMemoryOfOthers, FaultsElsewhereEndTheProcess) {
  const auto watch_and_fault = [] {
    WatchedMemory memory;
    memory.watch();
    fault();
  };

  EXPECT_DEATH(watch_and_fault(), "");
}

TEST_F(WatchedMemoryOfOthers, FaultsElsewhereGoToTheHandlerOfTheProgram) {
  const auto watch_and_fault = [] {
    struct sigaction action {};
    action.sa_handler = [](int) { ::_exit(7); };
    ::sigaction(SIGSEGV, &action, nullptr);
    WatchedMemory memory;
    memory.watch();
    fault();
  };

  EXPECT_EXIT(watch_and_fault(), ::testing::ExitedWithCode(7), "");
}

TEST_F(WatchedMemoryOfOthers, SignalsThatAreSentEndTheProcess) {
  const auto watch_and_raise = [] {
    WatchedMemory memory;
    memory.watch();
    ::raise(SIGSEGV);
  };

  EXPECT_DEATH(watch_and_raise(), "");
}

}  // namespace
}  // namespace cairn
