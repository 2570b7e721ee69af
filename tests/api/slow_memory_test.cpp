// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "api/fixture.hpp"

namespace cairn {
namespace {

using testing::Fails;

constexpr std::chrono::milliseconds kGrace{20};

/// Memory of the caller's that takes longer to read than a save waits for what it has given up.
struct SlowMemory {
  std::shared_ptr<std::atomic<int>> readers = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<std::atomic<int>> reads = std::make_shared<std::atomic<int>>(0);
};

class SlowSource final : public ByteSource {
 public:
  explicit SlowSource(SlowMemory memory) : memory_(std::move(memory)) {}

  void read(std::uint64_t /*offset_bytes*/, std::span<std::byte> out) const override {
    ++*memory_.readers;
    ++*memory_.reads;
    std::this_thread::sleep_for(10 * kGrace);
    std::memset(out.data(), 0, out.size());
    --*memory_.readers;
  }

 private:
  SlowMemory memory_;
};

class SlowMemoryHandler final : public CheckpointableHandler<SlowMemory> {
 public:
  std::string_view id() const noexcept override { return "test.slow_memory/1"; }

  // outlives: copied before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const SlowMemory& memory) const override {
    constexpr std::uint64_t kBytes = 100;
    std::vector<SourcePiece> pieces(1);
    pieces[0].size_bytes = kBytes;
    pieces[0].source = std::make_shared<SlowSource>(memory);
    return context.write_pieces("slow", std::move(pieces), kBytes);
  }

  Awaitable<Background<SlowMemory>> load(LoadContext, std::optional<SlowMemory>) const override {
    co_return pass();
  }

  Awaitable<SlowMemory> metadata(LoadContext) const override { co_return SlowMemory(); }

 private:
  static Background<SlowMemory> pass() { co_return SlowMemory(); }
};

/// The same, which its handler gives to a function that runs on another thread.
struct SlowValue {
  SlowMemory memory;
};

class SlowValueHandler final : public CheckpointableHandler<SlowValue> {
 public:
  std::string_view id() const noexcept override { return "test.slow_value/1"; }

  // outlives: the value is valid during this phase.
  Awaitable<Background<>> save(SaveContext context, const SlowValue& value) const override {
    std::function<void()> work = [memory = value.memory] {
      std::byte byte{};
      SlowSource(memory).read(0, std::span(&byte, 1));
    };
    co_await context.run(std::move(work));
    co_return Background<>();
  }

  Awaitable<Background<SlowValue>> load(LoadContext, std::optional<SlowValue>) const override {
    co_return pass();
  }

  Awaitable<SlowValue> metadata(LoadContext) const override { co_return SlowValue(); }

 private:
  static Background<SlowValue> pass() { co_return SlowValue(); }
};

/// An object that takes as long to fill.
struct SlowObject {
  SlowMemory memory;
};

}  // namespace

template <>
struct TreeForm<SlowObject> {
  static Tree make(const SlowObject& /*object*/) { return 7; }

  static void read(const Tree& /*tree*/, SlowObject& object, TreeReader& /*at*/) {
    std::byte byte{};
    SlowSource(object.memory).read(0, std::span(&byte, 1));
  }
};

namespace {

class SlowMemoryTest : public testing::ApiTest {
 protected:
  static ContextOptions slow() {
    ContextOptions options = small();
    options.registry.add<SlowMemoryHandler>();
    options.registry.add<SlowValueHandler>();
    options.stop_grace = kGrace;
    return options;
  }

  SlowMemoryTest() : ApiTest(slow()) {}
};

TEST_F(SlowMemoryTest, IsNotReadAnyMoreWhenASaveHasBeenGivenUp) {
  SaveOptions options;
  options.deadline = std::chrono::milliseconds(20);
  const SlowMemory memory;

  EXPECT_THAT([&] { save_items({{"memory", memory}}, options); }, Fails(Errc::timed_out));

  EXPECT_EQ(*memory.reads, 1);
  EXPECT_EQ(*memory.readers, 0);
}

TEST_F(SlowMemoryTest, IsNotReadByWorkOfAHandlerAnyMoreEither) {
  SaveOptions options;
  options.deadline = kGrace;
  const SlowValue value;

  EXPECT_THAT([&] { save_items({{"value", value}}, options); }, Fails(Errc::timed_out));

  EXPECT_EQ(*value.memory.readers, 0);
}

TEST_F(SlowMemoryTest, OfAnObjectIsNotFilledAnyMoreWhenALoadHasBeenGivenUp) {
  SlowObject object;
  save(target(), Tree(object), {}, *context_);
  LoadOptions options;
  options.deadline = kGrace;

  EXPECT_THAT([&] { load_into(target(), object, options, *context_); }, Fails(Errc::timed_out));

  EXPECT_EQ(*object.memory.readers, 0);
}

}  // namespace
}  // namespace cairn
