// SPDX-License-Identifier: Apache-2.0
// A process pins a step while another removes it: the pin stands and the step stays, or neither.
#include <cerrno>
#include <filesystem>
#include <memory>

#include <gmock/gmock.h>

#include "io/attacked_syscalls.hpp"
#include "store/internal/checkpoint_hold.hpp"
#include "training/fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;

constexpr std::uint64_t kStep = 7;

class PinsBeside : public testing::TrainingTest {
 protected:
  PinsBeside() {
    ContextOptions options = small();
    options.syscalls = attacked_;
    attacked_context_ = std::make_unique<Context>(std::move(options));
  }

  /// Of a process at whose every call somebody else may do something.
  [[nodiscard]] StepDirectory attacked() const { return StepDirectory(root(), {}, *attacked_context_); }
  [[nodiscard]] StepDirectory other() const { return StepDirectory(root(), {}, *context_); }

  static bool is_pinned_by(StepDirectory& directory) {
    try {
      directory.pin(kStep);
      return true;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Errc::not_found || error.code() == std::errc::device_or_resource_busy)
          << error.what();
      return false;
    }
  }
  void expect_both_or_neither(bool is_pinned) const {
    EXPECT_EQ(fs::exists(root() / std::to_string(kStep)), is_pinned);
    EXPECT_EQ(other().is_pinned(kStep), is_pinned);
  }

  std::shared_ptr<io::AttackedSyscalls> attacked_ = std::make_shared<io::AttackedSyscalls>();
  std::unique_ptr<Context> attacked_context_;
};

TEST_F(PinsBeside, ARemovalStandOrAreRefused) {
  int stood = 0;
  int refused = 0;
  for (int moment = 1;; ++moment) {
    SCOPED_TRACE(moment);
    save_alone(std::to_string(kStep));
    StepDirectory remover = attacked();
    StepDirectory pinner = other();
    bool is_pinned = false;
    attacked_->plan(moment, [&] {
      is_pinned = is_pinned_by(pinner);
      return true;
    });
    const bool is_removed = remover.remove_unless_pinned(kStep, {}, *attacked_context_);
    EXPECT_NE(is_removed, is_pinned);
    expect_both_or_neither(is_pinned);
    if (!attacked_->is_reached()) {
      break;
    }
    ++(is_pinned ? stood : refused);
    fs::remove_all(root());
  }
  EXPECT_GE(stood, 1);
  EXPECT_GE(refused, 5);
}

TEST_F(PinsBeside, StandOrAreRefusedWhenTheStepIsRemovedMeanwhile) {
  int stood = 0;
  int refused = 0;
  for (int moment = 1;; ++moment) {
    SCOPED_TRACE(moment);
    save_alone(std::to_string(kStep));
    StepDirectory pinner = attacked();
    StepDirectory remover = other();
    attacked_->plan(moment, [&] {
      remover.remove_unless_pinned(kStep, {}, *context_);
      return true;
    });
    const bool is_pinned = is_pinned_by(pinner);
    expect_both_or_neither(is_pinned);
    if (!attacked_->is_reached()) {
      break;
    }
    ++(is_pinned ? stood : refused);
    fs::remove_all(root());
  }
  EXPECT_GE(stood, 1);
  EXPECT_GE(refused, 1);
}

TEST_F(PinsBeside, ASlowRemovalAreRefused) {
  save_alone(std::to_string(kStep));
  const io::Directory directory = io::Directory::open(io::posix_syscalls(), root());
  const store::CheckpointHold removal(directory, std::to_string(kStep));
  ASSERT_TRUE(removal.is_held());

  EXPECT_THAT([&] { other().pin(kStep); }, FailsWithErrno(EBUSY, HasSubstr("step 7")));
  EXPECT_FALSE(other().is_pinned(kStep));
  EXPECT_FALSE(other().remove_unless_pinned(kStep, {}, *context_));
  EXPECT_TRUE(fs::exists(root() / std::to_string(kStep)));
}

TEST_F(PinsBeside, FilesThatMayNotBeWrittenArePossible) {
  save_alone(std::to_string(kStep));
  fs::permissions(root() / std::to_string(kStep) / "COMMIT", fs::perms::owner_read);

  other().pin(kStep);
  EXPECT_FALSE(other().remove_unless_pinned(kStep, {}, *context_));
  other().unpin(kStep);
  EXPECT_TRUE(other().remove_unless_pinned(kStep, {}, *context_));
  EXPECT_FALSE(fs::exists(root() / std::to_string(kStep)));
}

}  // namespace
}  // namespace cairn
