// SPDX-License-Identifier: Apache-2.0
// What lies in a directory of parts and was not written by Cairn.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "cairn/api/load.hpp"
#include "cairn/api/maintain.hpp"
#include "cairn/api/save.hpp"

#include "support/fails.hpp"
#include "support/sampling.hpp"
#include "training/parts_fixture.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::read_text;
using testing::write_text;

class OthersAmongParts : public testing::PartialSaves {
 protected:
  void put(const fs::path& name) const {
    fs::create_directories((parts() / name).parent_path());
    write_text(parts() / name, "mine");
  }
  void expect_kept(const fs::path& name) const { EXPECT_EQ(read_text(parts() / name), "mine") << name; }
};

TEST_F(OthersAmongParts, KeepADirectoryThatIsSomebodyElses) {
  for (const char* name : {"notes.txt", "part-00000/weights.bin", "part-99999999999999999999/x", "old/x"}) {
    put(name);
    const auto before = left();
    const std::string first = *fs::path(name).begin();

    EXPECT_THAT([&] { static_cast<void>(partial()); },
                Fails(Errc::already_exists,
                      AllOf(HasSubstr(".partial-checkpoint was not made by Cairn"), HasSubstr(first))));
    EXPECT_THAT(PartialSave::abandon(target(), *context_).kept, ElementsAre(HasSubstr(first)));

    EXPECT_EQ(left(), before);
    fs::remove_all(parts());
  }
}

TEST_F(OthersAmongParts, KeepADirectoryThatComesBeforeTheFirstPart) {
  PartialSave save = partial();
  put("notes.txt");

  EXPECT_THAT(
      [&] {
        save.add({{"state", layer(0)}});
      },
      Fails(Errc::already_exists, HasSubstr("'notes.txt'")));

  expect_kept("notes.txt");
  EXPECT_FALSE(fs::exists(parts() / ".owner"));
}

TEST_F(OthersAmongParts, MayHaveOnlyAMarkThatAKillHasLeft) {
  for (const char* mark : {"", "torn"}) {
    fs::create_directory(parts());
    write_text(parts() / ".owner", mark);
    PartialSave save = partial();
    save.add({{"state", layer(0)}});
    EXPECT_THAT(read_text(parts() / ".owner"), HasSubstr("cairn-owner 1"));
    save.finalize();
    expect_layers(1);
    remove_checkpoint(target(), {}, *context_);
  }
}

TEST_F(OthersAmongParts, AreNotCutWhereTheyAreCalledLikeTheMark) {
  partial().add({{"state", layer(0)}});
  const std::string large(100'000, 'x');
  write_text(parts() / ".owner", large);

  EXPECT_THAT([&] { static_cast<void>(partial()); },
              Fails(Errc::already_exists, HasSubstr(".owner is not the mark of a program")));
  EXPECT_THAT([&] { PartialSave::abandon(target(), *context_); }, Fails(Errc::already_exists));

  EXPECT_EQ(read_text(parts() / ".owner"), large);
}

TEST_F(OthersAmongParts, AreKeptAndNamedByFinalize) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  put("notes.txt");
  put("part-00007/x");
  fs::rename(parts() / "part-00007", parts() / "part-99999999999999999999");
  save.add({{"state", layer(1)}});

  EXPECT_THAT(save.finalize().kept,
              ElementsAre(AllOf(HasSubstr("kept in " + parts().string()), HasSubstr("'notes.txt'"),
                                HasSubstr("'part-99999999999999999999'"), Not(HasSubstr("part-00000")))));

  expect_layers(2);
  expect_kept("notes.txt");
  expect_kept("part-99999999999999999999/x");
  EXPECT_FALSE(fs::exists(parts() / "part-00000"));
  EXPECT_FALSE(fs::exists(parts() / ".owner"));
}

TEST_F(OthersAmongParts, AreKeptAndNamedByAbandon) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  put("notes.txt");

  EXPECT_THAT(save.abandon().kept, ElementsAre(HasSubstr("'notes.txt'")));

  expect_kept("notes.txt");
  EXPECT_FALSE(fs::exists(parts() / "part-00000"));
}

TEST_F(OthersAmongParts, AreKeptInAPart) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  put("part-00000/notes.txt");
  put("part-00000/state/plot.png");

  EXPECT_THAT(save.finalize().kept,
              ElementsAre(AllOf(HasSubstr("kept in " + (parts() / "part-00000").string()),
                                HasSubstr("'notes.txt'"), HasSubstr("'state/plot.png'"))));

  expect_layers(1);
  expect_kept("part-00000/notes.txt");
  expect_kept("part-00000/state/plot.png");
  EXPECT_FALSE(fs::exists(parts() / "part-00000" / "COMMIT"));
}

TEST_F(OthersAmongParts, AreKeptByARecoveryAfterACrashOfTheRemoval) {
  partial().add({{"state", layer(0)}});
  put("part-00000/notes.txt");
  const fs::path trash = directory_ / ".trash-.partial-checkpoint-f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
  fs::rename(parts(), trash);

  const store::RecoveryReport report = recover(directory_.path(), {}, *context_);

  EXPECT_FALSE(fs::exists(trash));
  expect_kept("part-00000/notes.txt");
  EXPECT_FALSE(fs::exists(parts() / "part-00000" / "checkpoint.json"));
  ASSERT_EQ(report.entries.size(), 1u);
  EXPECT_THAT(report.entries[0].note, HasSubstr("'notes.txt'"));
}

TEST_F(OthersAmongParts, DoNotKeepTheRestWhereNothingIsTheirs) {
  partial().add({{"state", layer(0)}});
  const fs::path trash = directory_ / ".trash-.partial-checkpoint-f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
  fs::rename(parts(), trash);
  fs::remove(trash / "part-00000" / "chunks.xxh3");  // It was interrupted there.

  recover(directory_.path(), {}, *context_);

  EXPECT_THAT(left(), IsEmpty());
}

/// The lower layer of overlayfs lets no directory of parts be renamed.
TEST_F(OthersAmongParts, EndAlsoInTheLowerLayerOfAnOverlay) {
  PartialSave save = partial();
  save.add({{"state", layer(0)}});
  save.add({{"state", layer(1)}});
  files_->is_lower_layer = true;

  EXPECT_THAT(save.finalize().kept, IsEmpty());

  expect_layers(2);
  EXPECT_THAT(left(), Not(Contains(HasSubstr("partial"))));
  remove_checkpoint(target(), {}, *context_);
  files_->is_lower_layer = false;
  partial().add({{"state", layer(0)}});
  files_->is_lower_layer = true;
  PartialSave::abandon(target(), *context_);
  EXPECT_THAT(left(), IsEmpty());
}

TEST_F(OthersAmongParts, AreNotTakenForPartsWhenARemovalOneByOneIsInterrupted) {
  const testing::Sample sample = testing::sample_of_calls();
  for (int failing = 1;; ++failing) {
    if (!sample.takes(static_cast<std::uint64_t>(failing))) {
      continue;
    }
    PartialSave save = partial();
    for (int number = 0; number < 3; ++number) {
      save.add({{"state", layer(number)}});
    }
    put("notes.txt");
    files_->calls = 0;
    files_->failing_call = failing;
    bool is_done = true;
    try {
      PartialSave::abandon(target(), *context_);
    } catch (const Error&) {
      is_done = false;
    }
    const bool has_failed = files_->calls >= failing;
    files_->failing_call = 0;

    if (!is_done && fs::exists(parts() / ".owner")) {
      const std::size_t found = partial().parts();
      EXPECT_LE(found, 3u) << "call " << failing;
      PartialSave::abandon(target(), *context_);
    }
    expect_kept("notes.txt");
    fs::remove_all(parts());
    ASSERT_THAT(left(), IsEmpty()) << "call " << failing;
    if (!has_failed) {
      break;
    }
  }
}

}  // namespace
}  // namespace cairn
