// SPDX-License-Identifier: Apache-2.0
// The links of a root, for people.
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/training/checkpointer.hpp"

#include "io/faulty_syscalls.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

class StepLinksTest : public testing::TrainingTest {
 protected:
  static CheckpointerOptions linked(KeepPolicy keep = keep::all()) {
    CheckpointerOptions options;
    options.keep = std::move(keep);
    options.links.latest = true;
    options.links.best_metric = "loss";
    return options;
  }

  void save(Checkpointer& run, std::uint64_t step, Metrics metrics) const {
    run.save(step, {{"state", tree_}}, std::move(metrics));
    run.wait();
  }

  [[nodiscard]] std::string link(const char* name) const {
    const std::filesystem::path path = root() / name;
    return std::filesystem::is_symlink(path) ? std::filesystem::read_symlink(path).string() : "none";
  }
};

TEST_F(StepLinksTest, LeadToTheNewestAndTheBest) {
  Checkpointer run(root(), linked(), *context_);
  save(run, 1, {{"loss", 3.0}});
  EXPECT_EQ(link("best"), "1");
  save(run, 2, {{"loss", 1.0}});
  save(run, 3, {{"loss", 2.0}});

  EXPECT_EQ(link("latest"), "3");
  EXPECT_EQ(link("best"), "2");
  EXPECT_EQ(load(root() / "best", {}, *context_).at("step").as<int>(), 7);
  EXPECT_THAT(run.steps(), ElementsAre(1, 2, 3));  // None of them is a step.
  run.save(1, {{"state", tree_}}, [] {
    StepOptions again(Metrics{{"loss", 0.5}});
    again.save.overwrite = true;
    return again;
  }());
  run.wait();
  EXPECT_EQ(link("latest"), "3");
  EXPECT_EQ(link("best"), "1");
}

TEST_F(StepLinksTest, DoNotLeadToWhatIsRemoved) {
  Checkpointer run(root(), linked(keep::latest(2)), *context_);
  save(run, 1, {{"loss", 1.0}});
  save(run, 2, {{"loss", 2.0}});
  save(run, 3, {{"loss", 3.0}});

  EXPECT_THAT(run.steps(), ElementsAre(2, 3));
  EXPECT_EQ(link("best"), "2");
}

TEST_F(StepLinksTest, AreNoneWhereThereIsNothing) {
  Checkpointer run(root(), linked(keep::latest(1)), *context_);
  save(run, 1, {{"loss", 1.0}});
  save(run, 2, {{"other", 2.0}});

  EXPECT_EQ(link("latest"), "2");
  EXPECT_EQ(link("best"), "none");
  Checkpointer plain(root(), {}, *context_);
  save(plain, 3, {});
  EXPECT_EQ(link("latest"), "2");  // Nobody has asked for it.
}

TEST_F(StepLinksTest, LeadToTheDirectoryOfAStepThatWasOverwrittenWithoutAnExchange) {
  const auto disk = std::make_shared<io::FaultySyscalls>();
  disk->lacks_rename_modes = true;
  ContextOptions over = small();
  over.syscalls = disk;
  const Context context(over);
  Checkpointer run(root(), linked(), context);
  StepOptions options(Metrics{{"loss", 1.0}});
  options.save.overwrite = true;
  for (int times = 0; times < 3; ++times) {
    run.save(6, {{"state", tree_}}, options);
    run.wait();
  }

  EXPECT_EQ(link("latest"), "6.g3");
  EXPECT_EQ(link("best"), "6.g3");
  EXPECT_EQ(load(root() / "latest", {}, *context_).at("step").as<int>(), 7);
}

TEST_F(StepLinksTest, HaveTheNamesThatStepsHave) {
  CheckpointerOptions options = linked();
  options.names.format = StepFormat("step_", 8);
  Checkpointer run(root(), options, *context_);
  save(run, 5, {});

  EXPECT_EQ(link("latest"), "step_00000005");
}

TEST_F(StepLinksTest, LeaveAloneWhatIsNoLink) {
  std::filesystem::create_directories(root() / "latest");
  Checkpointer run(root(), linked(keep::latest(1)), *context_);
  run.save(1, {{"state", tree_}});
  EXPECT_THAT([&] { run.wait(); }, Fails(Errc::already_exists, HasSubstr("latest is not a link")));
  run.save(2, {{"state", tree_}});
  EXPECT_THAT([&] { run.wait(); }, Fails(Errc::already_exists));

  EXPECT_TRUE(std::filesystem::is_directory(root() / "latest"));
  EXPECT_THAT(run.steps(), ElementsAre(2));  // That does not keep old steps from being removed.
  run.close();
}

/// Another program that sets the same link, and uses the same name before it.
class RivalAtLinks final : public testing::ForwardingSyscalls {
 public:
  explicit RivalAtLinks(testing::CallKind moment) : moment_(moment) {}

  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    const bool is_it =
        call.kind == moment_ && call.name != nullptr && call.name == std::string_view(".latest");
    if (is_it && !std::exchange(has_acted_, true)) {
      if (moment_ == testing::CallKind::rename) {
        ::unlinkat(call.fd, ".latest", 0);
      } else {
        has_acted_ = ::symlinkat("1", call.fd, ".latest") == 0;
      }
    }
    return call.make();
  }

 private:
  const testing::CallKind moment_;
  bool has_acted_ = false;
};

TEST_F(StepLinksTest, AreSetBesideAnotherProgramThatSetsThem) {
  for (const testing::CallKind moment : {testing::CallKind::link, testing::CallKind::rename}) {
    ContextOptions over = small();
    over.syscalls = std::make_shared<RivalAtLinks>(moment);
    const Context context(over);
    const std::uint64_t step = moment == testing::CallKind::link ? 1 : 2;
    Checkpointer run(root(), linked(), context);
    save(run, step, {});

    EXPECT_EQ(link("latest"), std::to_string(step));
  }
}

TEST_F(StepLinksTest, AreMadeAgainAfterACrash) {
  std::filesystem::create_directories(root());
  std::filesystem::create_symlink("0", root() / ".latest");  // Before it was renamed.
  std::filesystem::create_symlink("nowhere", root() / "latest");
  Checkpointer run(root(), linked(), *context_);
  save(run, 1, {});

  EXPECT_EQ(link("latest"), "1");
  EXPECT_EQ(link(".latest"), "none");
}

}  // namespace
}  // namespace cairn
