// SPDX-License-Identifier: Apache-2.0
// What becomes of steps that are damaged, and of those that are kept because of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/testing/local_ranks.hpp"

#include "support/manual_clock.hpp"
#include "support/run.hpp"
#include "training/fixture.hpp"
#include "training/internal/damaged_aside.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class DamagedSteps : public testing::Checkpointers {
 protected:
  /// Steps of earlier programs.
  void save_steps(std::uint64_t first, std::uint64_t last) const {
    for (std::uint64_t step = first; step <= last; ++step) {
      save_alone(std::to_string(step));
    }
  }

  [[nodiscard]] fs::path path_of(std::uint64_t step) const { return root() / std::to_string(step); }

  /// A file of the checkpoint is gone; its manifest lists it.
  void lose_data(std::uint64_t step) const {
    for (const auto& entry : fs::recursive_directory_iterator(path_of(step))) {
      if (entry.path().filename() == "index.fb") {
        fs::remove(entry.path());
        return;
      }
    }
    FAIL() << "no data in " << path_of(step);
  }

  /// Saves a step below all others, so that the policy may remove any of them.
  static void save_below(Checkpointer& run) {
    save(run, 0, forced()).wait();
    run.wait();
  }
};

TEST_F(DamagedSteps, AreKnownFromALoadInTheBackground) {
  save_steps(1, 3);
  alter(3);
  const auto run = make(keeping(keep::latest(0)));
  EXPECT_THAT([&] { static_cast<void>(run->load_async(3).wait()); }, Fails(Errc::checksum_mismatch));
  save_below(*run);

  EXPECT_THAT(run->steps(), ElementsAre(0, 2, 3));
}

TEST_F(DamagedSteps, AreKnownFromALoadThatIsAwaited) {
  save_steps(1, 3);
  alter(3);
  const auto run = make(keeping(keep::latest(0)));
  {
    const StepLoadResponse loading = run->load_async(3);
    EXPECT_THAT([&] { static_cast<void>(testing::run(loading.loaded())); }, Fails(Errc::checksum_mismatch));
  }
  save_below(*run);

  EXPECT_THAT(run->steps(), ElementsAre(0, 2, 3));
}

TEST_F(DamagedSteps, AreThoseThatHaveLostAFile) {
  save_steps(1, 3);
  lose_data(3);
  const auto run = make(keeping(keep::latest(0)));
  EXPECT_THAT([&] { static_cast<void>(run->load(3)); }, Fails(Errc::not_found));
  save_below(*run);

  EXPECT_THAT(run->steps(), ElementsAre(0, 2, 3));
}

TEST_F(DamagedSteps, AreNotThoseThatWereAskedForWhatTheyDoNotHave) {
  save_steps(1, 3);
  const auto run = make(keeping(keep::latest(0)));
  EXPECT_THAT([&] { static_cast<void>(run->load(3, {"modle"})); },
              Fails(Errc::not_found, HasSubstr("modle")));
  save_below(*run);

  EXPECT_THAT(run->steps(), ElementsAre(0, 3));
}

TEST_F(DamagedSteps, AreFoundByTheirManifestBeforeAnythingGoes) {
  save_steps(1, 4);
  tear_manifest(4);
  const auto run = make(keeping(keep::latest(0)));
  save_below(*run);

  EXPECT_THAT(run->steps(), ElementsAre(0, 3, 4));
}

TEST_F(DamagedSteps, AreKeptAndDoNotCount) {
  save_steps(1, 4);
  tear_manifest(1);
  tear_manifest(4);
  const auto run = make(keeping(keep::latest(2)));
  save(*run, 5).wait();
  run->wait();

  EXPECT_THAT(run->steps(), ElementsAre(1, 3, 4, 5));
  save(*run, 6);
  run->close();
  EXPECT_THAT(run->steps(), ElementsAre(1, 4, 5, 6));
}

TEST_F(DamagedSteps, AreFoundAlsoWhereTheirManifestWasReadBefore) {
  const auto run = make(keeping(keep::best("loss", 2, Prefer::lower)));
  save(*run, 1, Metrics{{"loss", 3}}).wait();
  save(*run, 2, Metrics{{"loss", 2}}).wait();
  run->wait();
  tear_manifest(1);
  save(*run, 3, Metrics{{"loss", 1}});
  run->close();

  EXPECT_THAT(run->steps(), ElementsAre(1, 2, 3));
}

TEST_F(DamagedSteps, AreAskedAboutAgainOnceTheyCanBeRead) {
  save_steps(1, 1);
  const std::string sound = testing::read_text(path_of(1) / "checkpoint.json");
  tear_manifest(1);
  const auto run = make(keeping(keep::latest(1)));
  save(*run, 2).wait();
  run->wait();
  EXPECT_THAT(run->steps(), ElementsAre(1, 2));

  testing::write_text(path_of(1) / "checkpoint.json", sound);
  save(*run, 3);
  run->close();

  EXPECT_THAT(run->steps(), ElementsAre(3));
}

TEST_F(DamagedSteps, AreNotTheSoundOnesBelowOneThatHasLostItsCommit) {
  save_steps(1, 3);
  fs::remove(path_of(3) / "COMMIT");
  const auto run = make(keeping(keep::latest(0)));
  EXPECT_THAT([&] { static_cast<void>(run->resume()); }, Fails(Errc::not_committed, HasSubstr("COMMIT")));
  save_below(*run);

  EXPECT_THAT(run->steps(), ElementsAre(0, 2));
}

TEST_F(DamagedSteps, AreNotThoseThatWereRemoved) {
  save_steps(1, 2);
  const auto run = make();
  fs::remove_all(path_of(1));
  const auto is_told = Fails(Errc::not_found, HasSubstr("step 1 was removed meanwhile"));

  EXPECT_THAT([&] { static_cast<void>(run->load(1)); }, is_told);
  EXPECT_THAT([&] { static_cast<void>(run->load_async(1).wait()); }, is_told);
  EXPECT_THAT([&] { static_cast<void>(run->metadata(1)); }, is_told);
}

/// What a crash of a disk, or a person, does to the newest step of four.
struct Damage {
  const char* name;
  void (*inflict)(const fs::path& step);
  bool is_set_aside;  ///< No save knows that it may replace what is left.
};

void PrintTo(const Damage& damage, std::ostream* out) {
  *out << damage.name;
}

const Damage kDamages[] = {
    {"manifest", [](const fs::path& step) { testing::write_text(step / "checkpoint.json", "{"); }, false},
    {"no manifest", [](const fs::path& step) { fs::remove(step / "checkpoint.json"); }, true},
    {"empty COMMIT", [](const fs::path& step) { testing::write_text(step / "COMMIT", ""); }, false},
    {"no COMMIT", [](const fs::path& step) { fs::remove(step / "COMMIT"); }, true},
    {"no data", [](const fs::path& step) { fs::remove_all(step / "state"); }, false},
};

class PassedOverSteps : public DamagedSteps, public ::testing::WithParamInterface<Damage> {
 protected:
  PassedOverSteps() { inflict(); }

  void inflict() const {
    {
      const auto run = make();
      for (std::uint64_t step = 1; step <= 4; ++step) {
        save(*run, step);
      }
      run->close();
    }
    GetParam().inflict(path_of(4));
  }

  static StepOptions overwriting() {
    StepOptions options;
    options.save.overwrite = true;
    return options;
  }

  /// What the root keeps of damaged steps.
  [[nodiscard]] std::vector<std::string> set_aside() const {
    const fs::path aside = root() / ".cairn-damaged";
    return fs::exists(aside) ? testing::list_tree(aside) : std::vector<std::string>();
  }
};

INSTANTIATE_TEST_SUITE_P(All, PassedOverSteps, ::testing::ValuesIn(kDamages));

TEST_P(PassedOverSteps, AreOverwrittenByTheLoopThatGoesOn) {
  ResumeOptions falling_back;
  falling_back.fall_back = true;
  const auto run = make();
  const std::optional<Resumed> resumed = run->resume({"state"}, falling_back);
  ASSERT_TRUE(resumed);
  ASSERT_EQ(resumed->step, 3u);

  EXPECT_THAT([&] { save(*run, 4); },
              Fails(Errc::already_exists, AllOf(HasSubstr("step 4 is there, and damaged"),
                                                HasSubstr("StepOptions::save.overwrite"))));
  save(*run, 4, overwriting()).wait();
  save(*run, 5);
  run->close();

  EXPECT_EQ(stored_step(run->load(4)), 4u);
  EXPECT_THAT(*StepDirectory(root(), {}, *context_).steps(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(make()->resume()->step, 5u);
  if (GetParam().is_set_aside) {
    EXPECT_THAT(set_aside(), Contains(StartsWith("4-")));
  } else {
    EXPECT_TRUE(set_aside().empty());
  }
}

TEST_P(PassedOverSteps, AreNotMovedByAProgramThatDoesNotKnowThatTheyAreDamaged) {
  const auto run = make();
  if (GetParam().is_set_aside) {
    EXPECT_THAT([&] { save(*run, 4, overwriting()).wait(); },
                Fails(Errc::already_exists, HasSubstr("is not a checkpoint, and is not overwritten")));
    EXPECT_TRUE(fs::exists(path_of(4)));
  } else {
    save(*run, 4, overwriting()).wait();
    EXPECT_EQ(stored_step(run->load(4)), 4u);
  }

  EXPECT_TRUE(set_aside().empty());
}

TEST_P(PassedOverSteps, AreFreeOnceSomebodyHasRemovedThem) {
  ResumeOptions falling_back;
  falling_back.fall_back = true;
  const auto run = make();
  ASSERT_TRUE(run->resume({"state"}, falling_back));
  fs::remove_all(path_of(4));

  save(*run, 4).wait();

  EXPECT_EQ(stored_step(run->load(4)), 4u);
}

TEST_F(DamagedSteps, AreNotOfOthersThatAreCalledLikeAStep) {
  save_steps(1, 1);
  fs::remove(path_of(1) / "COMMIT");
  fs::remove(path_of(1) / "checkpoint.json");
  fs::rename(path_of(1) / "chunks.xxh3", path_of(1) / "other");  // Somebody's directory.
  const auto none = [](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{1}); };

  EXPECT_FALSE(training::set_damaged_aside(io::posix_syscalls(), root(), "1", none));
  EXPECT_FALSE(training::set_damaged_aside(io::posix_syscalls(), root(), "2", none));
  EXPECT_TRUE(fs::exists(path_of(1)));
}

TEST_F(DamagedSteps, ArePassedByEightRanksTogether) {
  save_steps(1, 3);
  fs::remove(path_of(3) / "COMMIT");
  const std::string failures = testing::failures_on_ranks(8, [&](const auto& coordinator) {
    ContextOptions options = with_clock(std::make_shared<testing::ManualClock>());
    options.coordinator = coordinator;
    const Context context(options);
    Checkpointer run(root(), {}, context);
    ResumeOptions falling_back;
    falling_back.fall_back = true;
    const std::optional<Resumed> resumed = run.resume({"state"}, falling_back);
    EXPECT_TRUE(resumed && resumed->step == 2);
    const Errc code = coordinator->rank() == 0 ? Errc::already_exists : Errc::peer_failed;
    EXPECT_THAT([&] { save(run, 3).wait(); }, Fails(code, HasSubstr("step 3 is there, and damaged")));
    StepOptions overwriting;
    overwriting.save.overwrite = true;
    save(run, 3, overwriting).wait();
    if (coordinator->rank() == 0) {
      run.pin(3);
    }
    EXPECT_THAT([&] { save(run, 3, overwriting).wait(); }, Fails(code, HasSubstr("step 3 is pinned")));
    run.close();
  });

  EXPECT_EQ(failures, "");
  EXPECT_EQ(stored_step(make()->load(3)), 3u);
  EXPECT_TRUE(fs::exists(root() / ".cairn-damaged"));
}

}  // namespace
}  // namespace cairn
