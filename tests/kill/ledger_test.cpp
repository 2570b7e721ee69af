// SPDX-License-Identifier: Apache-2.0
// The ledger finds what is untrue: what a victim has said is forged, and the disk is real.
#include "kill/ledger.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kill/state.hpp"
#include "support/temp_dir.hpp"

namespace cairn::kill {
namespace {

using ::testing::HasSubstr;

class LedgerTest : public ::testing::Test {
 protected:
  void put(const std::string& name, std::int64_t number) const {
    SaveOptions options;
    options.overwrite = true;
    save(root_ / name, state(number), options, context_);
  }

  std::string complaint() { return ledger_.complaint(root_.path(), context_); }

  const cairn::testing::TempDir root_;
  const Context context_;
  Ledger ledger_;
};

TEST_F(LedgerTest, SaysNothingOfWhatIsTrue) {
  put("step_0", 2);
  ledger_.read({"save step_0 1", "done 1", "save step_0 2", "done 2", "save step_1 3", "failed 3 timed out"});
  EXPECT_EQ(complaint(), "");
  put("step_0", 4);
  ledger_.read({"save step_0 4"});  // Killed in the middle of it.
  EXPECT_EQ(complaint(), "");
  EXPECT_EQ(ledger_.interrupted(), 1U);
}

TEST_F(LedgerTest, MissesACommittedSave) {
  ledger_.read({"save step_0 1", "done 1"});

  EXPECT_THAT(complaint(), HasSubstr("lost: step_0"));
}

TEST_F(LedgerTest, FindsASaveThatHasFailed) {
  put("step_0", 1);
  ledger_.read({"save step_0 1", "failed 1 timed out"});

  EXPECT_THAT(complaint(), HasSubstr("zombie: step_0"));
}

TEST_F(LedgerTest, FindsASaveThatALaterOneHasReplaced) {
  put("step_0", 1);
  ledger_.read({"save step_0 1", "placed 1", "save step_0 2", "done 2", "unknown 1"});

  EXPECT_THAT(complaint(), HasSubstr("order: step_0"));
}

TEST_F(LedgerTest, FindsWhatComesBack) {
  put("step_0", 1);
  ledger_.read({"save step_0 1", "done 1", "remove step_0 2"});
  remove_checkpoint(root_ / "step_0", {}, context_);
  EXPECT_EQ(complaint(), "");

  put("step_0", 1);

  EXPECT_THAT(complaint(), HasSubstr("damage: step_0"));
}

TEST_F(LedgerTest, FindsASaveThatHasReplacedWhatItWasNotTo) {
  put("step_0", 2);
  ledger_.read({"save step_0 1", "done 1", "save step_0 2 new", "done 2"});

  EXPECT_THAT(complaint(), HasSubstr("verdict: save 2"));
}

TEST_F(LedgerTest, FindsDamageAndLeftovers) {
  put("step_0", 1);
  cairn::testing::write_text(root_ / "step_0/checkpoint.json", "{}");
  cairn::testing::write_text(root_ / "left", "");
  ledger_.read({"save step_0 1", "done 1"});

  const std::string text = complaint();

  EXPECT_THAT(text, HasSubstr("damage: "));
  EXPECT_THAT(text, HasSubstr("left is left"));
}

}  // namespace
}  // namespace cairn::kill
