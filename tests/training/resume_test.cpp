// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "training/fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::Checkpointers;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(Checkpointers, ResumeTheNewestStep) {
  save_alone("zzz");
  const auto run = make();
  EXPECT_FALSE(run->resume());
  save(*run, 9);
  save(*run, 10);
  run->close();

  std::optional<Resumed> resumed = make()->resume({"state"});

  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->step, 10u);
  EXPECT_EQ(stored_step(std::move(resumed->loaded)), 10u);
  EXPECT_THAT(resumed->passed_over, IsEmpty());
}

/// What a context tells its program aloud.
class ToldTrainings : public Checkpointers {
 protected:
  ToldTrainings() : ToldTrainings(std::make_shared<std::vector<std::string>>()) {}
  explicit ToldTrainings(std::shared_ptr<std::vector<std::string>> told)
      : Checkpointers(telling(told)), told_(std::move(told)) {}

  static ContextOptions telling(std::shared_ptr<std::vector<std::string>> told) {
    ContextOptions options = small();
    options.on_problem = [told = std::move(told)](const std::string& path, const std::string& problem) {
      told->push_back(path + ": " + problem);
    };
    return options;
  }

  std::shared_ptr<std::vector<std::string>> told_;
};

TEST_F(ToldTrainings, ThatBeginAnewBesideCheckpointsOfOtherNamesAreToldSo) {
  EXPECT_FALSE(make()->resume());
  EXPECT_THAT(*told_, IsEmpty());
  for (const char* name : {"step_00000010", "step_00000020", "step_00000030", "step_00000040"}) {
    save_alone(name);
  }

  EXPECT_FALSE(make()->resume());

  EXPECT_THAT(*told_,
              ElementsAre(AllOf(HasSubstr(root().string()), HasSubstr("('1')"), HasSubstr("4 that are"),
                                HasSubstr("'step_00000010', "), HasSubstr("CheckpointerOptions::names"))));
  CheckpointerOptions named;
  named.names.format = StepFormat("step_", 8);
  EXPECT_EQ(make(named)->resume()->step, 40u);
  EXPECT_THAT(*told_, SizeIs(1));
}

TEST_F(ToldTrainings, CanRefuseToBeginAnewBesideCheckpointsOfOtherNames) {
  save_alone("step_00000010");
  ResumeOptions options;
  options.refuse_other_names = true;

  EXPECT_THAT(
      [&] { static_cast<void>(make()->resume({}, options)); },
      Fails(Errc::not_found, HasSubstr("1 that is called otherwise is passed over ('step_00000010')")));
  EXPECT_THAT(*told_, IsEmpty());
}

TEST_F(ToldTrainings, WhoseStepsLackTheMetricOfThePolicyAreToldOnce) {
  const auto run = make(keeping(keep::any_of({keep::latest(2), keep::best("los", 1, Prefer::lower)})));
  StepOptions measured;
  measured.metrics = {{"loss", 1.0}};
  for (std::uint64_t step = 1; step <= 9; ++step) {
    save(*run, step, measured);
  }
  run->wait();
  EXPECT_THAT(*told_, IsEmpty());

  save(*run, 10, measured);
  save(*run, 11, measured);
  run->wait();

  EXPECT_THAT(*told_, ElementsAre(AllOf(HasSubstr("none of 10 steps"), HasSubstr("'los'"))));
  EXPECT_THAT(run->steps(), SizeIs(11));
}

TEST_F(Checkpointers, ResumeFromStepsOfSeveralFormatsByNumber) {
  save_alone("9");
  save_alone("step-8");
  CheckpointerOptions options;
  options.names.format = StepFormat("step-");
  options.names.also_read = {StepFormat()};

  EXPECT_EQ(make(std::move(options))->resume()->step, 9u);
}

TEST_F(Checkpointers, ResumeNothingInARootThatIsYetToBeMade) {
  ResumeOptions options;
  options.recover = true;

  EXPECT_FALSE(make()->resume({}, options));
}

TEST_F(Checkpointers, ANewestStepThatIsDamagedIsAnErrorThatNamesTheFile) {
  const auto run = make();
  save(*run, 1).wait();
  save(*run, 2).wait();
  alter(2);

  EXPECT_THAT([&] { static_cast<void>(run->resume()); },
              Fails(Errc::checksum_mismatch, HasSubstr("run/2/state/")));
}

TEST_F(Checkpointers, ANewestStepThatHasLostCommitAndManifestIsDamagedToo) {
  const auto run = make();
  save(*run, 1).wait();
  save(*run, 2).wait();
  fs::remove(root() / "2" / "COMMIT");
  fs::remove(root() / "2" / "checkpoint.json");
  EXPECT_THAT([&] { static_cast<void>(run->resume()); }, Fails(Errc::not_committed, HasSubstr("run/2")));
  ResumeOptions options;
  options.fall_back = true;

  const std::optional<Resumed> resumed = run->resume({"state"}, options);

  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->step, 1u);
  ASSERT_EQ(resumed->passed_over.size(), 1u);
  EXPECT_THAT(resumed->passed_over[0].why, HasSubstr("COMMIT and checkpoint.json are missing"));
  EXPECT_THAT([&] { save(*run, 2); }, Fails(Errc::already_exists, HasSubstr("step 2 is there, and damaged")));
  StepOptions again;
  again.save.overwrite = true;
  save(*run, 2, again).wait();
  EXPECT_EQ(stored_step(run->load(2)), 2u);
}

TEST_F(Checkpointers, FallBackToTheNewestStepThatTheProgramAccepts) {
  const auto run = make();
  for (std::uint64_t step = 1; step <= 4; ++step) {
    save(*run, step).wait();
  }
  tear_manifest(3);
  ResumeOptions options;
  options.fall_back = true;
  std::vector<std::uint64_t> asked;
  options.accept = [&asked](std::uint64_t step, Loaded& loaded) {
    asked.push_back(step);
    return step < 2 && loaded.take<Tree>("state").size() > 0;
  };

  const std::optional<Resumed> resumed = run->resume({}, options);

  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->step, 1u);
  EXPECT_THAT(asked, ElementsAre(4, 2, 1));
  ASSERT_EQ(resumed->passed_over.size(), 3u);
  EXPECT_THAT(resumed->passed_over[0].why, HasSubstr("run/4: ResumeOptions::accept did not take it"));
  EXPECT_THAT(resumed->passed_over[1].why, HasSubstr("3/checkpoint.json"));
  EXPECT_EQ(resumed->passed_over[2].code, Errc::invalid_argument);
  EXPECT_THAT([&] { save(*run, 4); }, Fails(Errc::already_exists, HasSubstr("or passed over by resume")));
}

TEST_F(Checkpointers, SayThatNoStepWasAccepted) {
  const auto run = make();
  save(*run, 1).wait();
  ResumeOptions options;
  options.accept = [](std::uint64_t, Loaded&) { return false; };
  EXPECT_THAT([&] { static_cast<void>(run->resume({}, options)); },
              Fails(Errc::invalid_argument, HasSubstr("needs fall_back")));

  options.fall_back = true;

  EXPECT_THAT([&] { static_cast<void>(run->resume({}, options)); },
              Fails(Errc::invalid_argument, HasSubstr("1: ResumeOptions::accept did not take it")));
}

TEST_F(Checkpointers, FallBackToTheNextSoundStepAndSayWhatWasPassedOver) {
  const auto run = make();
  for (std::uint64_t step = 1; step <= 4; ++step) {
    save(*run, step).wait();
  }
  alter(3);
  tear_manifest(4);
  ResumeOptions options;
  options.fall_back = true;

  std::optional<Resumed> resumed = run->resume({}, options);

  EXPECT_EQ(resumed->step, 2u);
  EXPECT_EQ(stored_step(std::move(resumed->loaded)), 2u);
  ASSERT_EQ(resumed->passed_over.size(), 2u);
  EXPECT_THAT(resumed->passed_over[0].why, HasSubstr("4/checkpoint.json"));
  EXPECT_THAT(resumed->passed_over[1].why, HasSubstr("run/3/state/"));
  EXPECT_THAT(run->steps(), ElementsAre(1, 2, 3, 4));
}

TEST_F(Checkpointers, RecoverFirstWhenTheyAreAsked) {
  save_alone("1");
  fs::rename(root() / "1",
             root() / ".tmp-1-00000000-0000-4000-8000-000000000000");  // As a crash displaces it.
  const auto run = make();
  EXPECT_THAT([&] { static_cast<void>(run->resume()); }, Fails(Errc::not_committed, HasSubstr("recover")));
  ResumeOptions options;
  options.recover = true;

  EXPECT_EQ(run->resume({}, options)->step, 1u);
}

}  // namespace
}  // namespace cairn
