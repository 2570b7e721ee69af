// SPDX-License-Identifier: Apache-2.0
// What a save asks of the operating system does not depend on how many steps there are. CAIRN_GROWTH_STEPS,
// CAIRN_GROWTH_SAVES: of most steps, and of how many saves the calls are counted.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/forwarding_syscalls.hpp"
#include "support/number_from.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;

class CountedCalls final : public testing::ForwardingSyscalls {
 public:
  std::atomic<std::uint64_t> calls{0};

 private:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    ++calls;
    return ForwardingSyscalls::pass(call);
  }
};

class Growth : public testing::Checkpointers {
 protected:
  Growth() : Growth(std::make_shared<CountedCalls>()) {}
  explicit Growth(std::shared_ptr<CountedCalls> files)
      : Checkpointers(over(files)), files_(std::move(files)) {}

  const std::uint64_t saves_ = testing::number_from("CAIRN_GROWTH_SAVES", 20);

  static ContextOptions over(std::shared_ptr<CountedCalls> files) {
    ContextOptions options = small();
    options.syscalls = std::move(files);
    return options;
  }

  /// A step that another program saves: a copy of one that is there.
  void add_foreign(std::uint64_t step, std::uint64_t like) const {
    const fs::path made = root() / ".making";
    fs::copy(root() / std::to_string(like), made, fs::copy_options::recursive);
    fs::rename(made, root() / std::to_string(step));
  }

  /// A root of so many steps, each with the files of one checkpoint.
  void make_steps(std::uint64_t count) const {
    save_alone("1");
    for (std::uint64_t step = 2; step <= count; ++step) {
      const fs::path made = root() / std::to_string(step);
      fs::create_directory(made);
      for (const char* name : {"COMMIT", "checkpoint.json"}) {
        fs::create_hard_link(root() / "1" / name, made / name);
      }
    }
  }

  /// The calls of some saves where there are `count` steps, in whose midst `disturb` is called.
  template <class Disturb>
  std::uint64_t calls_of_saves(std::uint64_t count, KeepPolicy keep, Disturb disturb) {
    make_steps(count);
    const auto run = make(keeping(std::move(keep)));
    save(*run, count + 1);  // The first makes what later ones find.
    run->wait();
    files_->calls = 0;
    for (std::uint64_t i = 0; i < saves_; ++i) {
      if (i == saves_ / 2) {
        disturb(count);
      }
      save(*run, count + 1000 + i);
      run->wait();
    }
    const std::uint64_t calls = files_->calls;
    steps_ = run->steps();
    run->close();
    fs::remove_all(root());
    return calls;
  }

  std::shared_ptr<CountedCalls> files_;
  std::vector<std::uint64_t> steps_;
};

constexpr auto kNothing = [](std::uint64_t /*count*/) {};

TEST_F(Growth, OfStepsMakesNoSaveDearer) {
  const std::uint64_t with_few = calls_of_saves(10, keep::all(), kNothing);

  const std::uint64_t most = testing::number_from("CAIRN_GROWTH_STEPS", 1000);
  for (std::uint64_t count = 100; count <= most; count *= 10) {
    const std::uint64_t with_many = calls_of_saves(count, keep::all(), kNothing);
    fmt::print("{} calls of {} saves with 10 steps, {} with {}\n", with_few, saves_, with_many, count);
    EXPECT_LE(100 * with_many, 105 * with_few) << count;
  }
}

TEST_F(Growth, OfStepsWhoseManifestsAPolicyReadsMakesNoSaveDearer) {
  const KeepPolicy policy = keep::any_of({keep::time_apart(std::chrono::hours(1)), keep::every_steps(1)});
  const std::uint64_t with_few = calls_of_saves(10, policy, kNothing);

  EXPECT_LE(100 * calls_of_saves(1000, policy, kNothing), 105 * with_few);
}

TEST_F(Growth, AStepOfAnotherProgramIsSeenAndLookedAtOnce) {
  const auto add_one = [this](std::uint64_t count) { add_foreign(count + 500, 1); };
  const std::uint64_t alone = calls_of_saves(300, keep::all(), kNothing);
  const std::uint64_t disturbed = calls_of_saves(300, keep::all(), add_one);

  EXPECT_THAT(steps_, Contains(800));
  EXPECT_LE(disturbed, alone + 10);
}

TEST_F(Growth, AStepThatAnotherProgramReplacesOrRemovesIsSeen) {
  make_steps(3);
  const auto run = make(keeping(keep::all()));
  save(*run, 10);
  run->wait();
  fs::remove_all(root() / "2");
  fs::rename(root() / "3", root() / "2");  // Another directory.
  fs::remove(root() / "2" / "COMMIT");

  save(*run, 11);
  run->wait();

  EXPECT_THAT(run->steps(), ElementsAre(1, 10, 11));
}

}  // namespace
}  // namespace cairn
