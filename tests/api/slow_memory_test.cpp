// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstring>
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

class SlowMemoryTest : public testing::ApiTest {
 protected:
  static ContextOptions slow() {
    ContextOptions options = small();
    options.registry.add<SlowMemoryHandler>();
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

}  // namespace
}  // namespace cairn
