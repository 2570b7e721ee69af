// SPDX-License-Identifier: Apache-2.0
// Parts whose addition or finalization a failing call ends.
#include <filesystem>
#include <utility>

#include <gtest/gtest.h>

#include "cairn/api/maintain.hpp"

#include "training/parts_fixture.hpp"

namespace cairn {
namespace {

using ::testing::IsEmpty;
using testing::PartialSaves;

/// Calls of a finalization fail, one each time: then it is called again, by another program.
class InterruptedFinalization : public PartialSaves, public ::testing::WithParamInterface<bool> {};

TEST_P(InterruptedFinalization, IsCalledAgain) {
  files_->reaches_disk = false;
  bool has_failed = true;
  int failures = 0;
  const FailingCalls of_all = failing_calls();
  for (int failing = of_all.first; has_failed; failing += of_all.one_in) {
    PartialSaveOptions options;
    options.overwrite = true;
    PartialSave save = partial(options);
    save.add({{"state", layer(0)}});
    save.add({{"state", layer(1)}});
    files_->calls = 0;
    files_->failing_call = failing;
    try {
      save.finalize();
    } catch (const Error&) {
      ++failures;
    }
    has_failed = files_->calls >= failing;
    files_->failing_call = 0;

    const bool is_done = !std::filesystem::exists(parts());
    if (GetParam()) {
      recover(directory_.path(), {}, *context_);
    }
    if (!is_done) {
      partial().finalize();
    }
    expect_layers(2);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "call " << failing;
    recover(directory_.path(), {}, *context_);
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      EXPECT_EQ(entry.path().filename(), "checkpoint") << "call " << failing;
    }
    remove_checkpoint(target(), {}, *context_);
  }
  EXPECT_GT((failures + 1) * of_all.one_in, 30);
}

/// Calls of an addition fail, one each time: the part is there or not, and another program goes on.
TEST_F(PartialSaves, GoOnAfterAnAdditionThatFailed) {
  files_->reaches_disk = false;
  bool has_failed = true;
  int failures = 0;
  const FailingCalls of_all = failing_calls();
  for (int failing = of_all.first; has_failed; failing += of_all.one_in) {
    partial().add({{"state", layer(0)}});
    files_->calls = 0;
    files_->failing_call = failing;
    bool is_added = true;
    try {
      partial().add({{"state", layer(1)}});
    } catch (const Error&) {
      is_added = false;
      ++failures;
    }
    has_failed = files_->calls >= failing;
    files_->failing_call = 0;

    PartialSave save = partial();
    EXPECT_GE(save.parts(), is_added ? 2u : 1u) << "call " << failing;
    if (save.parts() == 1) {
      save.add({{"state", layer(1)}});
    }
    save.finalize();
    expect_layers(2);
    EXPECT_TRUE(verify(target(), {}, *context_).is_sound());
    remove_checkpoint(target(), {}, *context_);
    recover(directory_.path(), {}, *context_);
    ASSERT_THAT(left(), IsEmpty()) << "call " << failing;
  }
  EXPECT_GT((failures + 1) * of_all.one_in, 40);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutRecovery, InterruptedFinalization, ::testing::Bool());

}  // namespace
}  // namespace cairn
