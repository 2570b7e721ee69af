// SPDX-License-Identifier: Apache-2.0
// A root whose path leads to another directory later: no run is taken for another.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "training/fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

/// Two runs, and a link that leads to the first until it is turned.
class TurnedRoots : public testing::Checkpointers {
 protected:
  TurnedRoots() {
    fs::create_directories(first_);
    fs::create_directories(second_);
    fs::create_directory_symlink(first_, root());
  }

  void turn() const {
    fs::create_directory_symlink(second_, directory_ / "next");
    fs::rename(directory_ / "next", root());
  }
  void save_in_second(std::uint64_t last) const {
    for (std::uint64_t step = 1; step <= last; ++step) {
      cairn::save(second_ / std::to_string(step), {{"step", step}}, {}, *context_);
    }
  }
  [[nodiscard]] auto refused() const {
    return Fails(Errc::invalid_argument, AllOf(HasSubstr(first_.string()), HasSubstr(second_.string())));
  }
  [[nodiscard]] auto steps_of(const fs::path& path) const {
    return *StepDirectory(path, {}, *context_).steps();
  }

  const fs::path first_ = directory_ / "a";
  const fs::path second_ = directory_ / "b";
};

TEST_F(TurnedRoots, LoseNothingOfTheRunThatTheyLeadToNow) {
  const auto run = make(keeping(keep::latest(2)));
  save(*run, 1).wait();
  save(*run, 2).wait();
  run->wait();
  save_in_second(5);
  turn();

  EXPECT_THAT([&] { save(*run, 6); }, refused());
  run->close();

  EXPECT_THAT(steps_of(first_), ElementsAre(1, 2));
  EXPECT_THAT(steps_of(second_), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(TurnedRoots, LoseNothingWhereTheyAreTurnedDuringASave) {
  CheckpointerOptions options = keeping(keep::latest(1));
  options.links.latest = true;
  save_in_second(2);
  const auto run = make(std::move(options));
  save(*run, 1).wait();
  run->wait();
  const StepResponse saving = save(*run, 2);
  saving.wait();
  turn();  // Before or after what this save has left to do: in the second run that is nothing.
  try {
    run->close();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument) << error.what();
  }

  EXPECT_THAT(steps_of(second_), ElementsAre(1, 2));
  EXPECT_FALSE(fs::exists(fs::symlink_status(second_ / "latest")));
}

TEST_F(TurnedRoots, ArePinnedRemovedLoadedAndResumedByNobody) {
  const auto run = make();
  save(*run, 1).wait();
  run->wait();
  save_in_second(1);
  turn();

  EXPECT_THAT([&] { run->pin(1); }, refused());
  EXPECT_THAT([&] { run->unpin(1); }, refused());
  EXPECT_THAT([&] { run->remove(1); }, refused());
  EXPECT_THAT([&] { static_cast<void>(run->load(1)); }, refused());
  EXPECT_THAT([&] { static_cast<void>(run->load_async(1)); }, refused());
  EXPECT_THAT([&] { static_cast<void>(run->metadata(1)); }, refused());
  EXPECT_THAT([&] { static_cast<void>(run->info(1)); }, refused());
  EXPECT_THAT([&] { static_cast<void>(run->resume({"state"})); }, refused());
  EXPECT_THAT([&] { run->reload(); }, refused());
  EXPECT_THAT(steps_of(second_), ElementsAre(1));
  EXPECT_FALSE(fs::exists(second_ / ".cairn-pins"));
}

TEST_F(TurnedRoots, ThatLeadToNothingAreNotMadeAnew) {
  const auto run = make();
  save(*run, 1).wait();
  run->wait();
  fs::remove(root());  // As `ln -sfn` does it: the link goes before the new one is there.

  EXPECT_THAT([&] { save(*run, 2); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("nothing"), HasSubstr(first_.string()))));
  EXPECT_FALSE(fs::exists(root()));
}

TEST_F(TurnedRoots, ThatLeadToTheSameDirectoryByAnotherPathGoOn) {
  const auto run = make();
  save(*run, 1).wait();
  fs::rename(first_, directory_ / "moved");
  fs::create_directory_symlink("moved", first_);

  save(*run, 2).wait();
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(1, 2));
}

TEST_F(TurnedRoots, ThatWereRemovedAreMadeAgain) {
  fs::remove(root());
  const auto run = make();
  save(*run, 1).wait();
  run->wait();
  fs::remove_all(root());

  save(*run, 2).wait();
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(2));
}

}  // namespace
}  // namespace cairn
