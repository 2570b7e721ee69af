// SPDX-License-Identifier: Apache-2.0
#include "store/internal/parts_directory.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/names.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::list_tree;
using testing::TempDir;
using ::testing::UnorderedElementsAre;
using testing::write_text;

/// The parts of a checkpoint `run`.
class Parts : public ::testing::Test {
 protected:
  [[nodiscard]] SaveTarget target() const {
    return look_at_target(io::posix_syscalls(), temp_ / "run", false, 0);
  }
  [[nodiscard]] PartsDirectory make() const { return PartsDirectory::make(target()); }

  void add_part(std::size_t number) {
    const fs::path made = elsewhere_ / part_name(number);
    StagedDirectory staged = StagedDirectory::create(*engine_, made);
    staged.make_directory("state");
    write_sample_file(staged, "state/data", "part");
    Manifest manifest = sample_manifest();
    manifest.annotations = fmt::format(R"({{"other":1,"{}":{{}}}})", kPartMember);
    const io::FileDigest digest = digest_of("state/data", "part");
    staged.publish(manifest, std::span(&digest, 1));
    fs::rename(made, home_ / part_name(number));
  }

  /// Says in words that a process has written it which is gone.
  [[nodiscard]] static std::string dead_owner() {
    return encode_owner({make_uuid(system_random), this_process({}).host, "another boot", 1, 1});
  }

  const TempDir temp_;
  const TempDir elsewhere_;
  const fs::path home_ = temp_ / ".partial-run";
  const std::unique_ptr<io::Engine> engine_ = io::make_engine(io::EngineKind::threads).engine;
};

TEST_F(Parts, GoWithTheirDirectory) {
  PartsDirectory parts = make();
  add_part(0);
  add_part(1);

  EXPECT_THAT(parts.remove(system_random).kept, IsEmpty());

  EXPECT_TRUE(fs::is_empty(temp_.path()));
}

TEST_F(Parts, GoOneByOneWhereSomethingElseLiesBesideThem) {
  PartsDirectory parts = make();
  add_part(0);
  write_text(home_ / "notes", "mine");
  write_text(home_ / temporary_name(kOwnerName, make_uuid(system_random)),
             "a mark that was never put in its place");

  EXPECT_THAT(parts.remove(system_random).kept, ElementsAre(HasSubstr("'notes'")));

  EXPECT_THAT(list_tree(home_), ElementsAre("notes"));
}

TEST_F(Parts, StayWhereAnOwnersFileIsInThem) {
  PartsDirectory parts = make();
  add_part(0);
  write_text(home_ / "notes", "mine");
  write_text(home_ / part_name(0) / "state" / "remarks", "mine, too");

  EXPECT_THAT(
      parts.remove(system_random).kept,
      UnorderedElementsAre(HasSubstr("'notes'"), HasSubstr("part-00000, because the part does not list it")));

  EXPECT_TRUE(fs::exists(home_ / part_name(0) / "state" / "remarks"));
  EXPECT_FALSE(fs::exists(home_ / part_name(0) / "state" / "data"));
}

TEST_F(Parts, ComeBackToTheirNameWhereAnOwnersFileIsInTheWholeDirectory) {
  PartsDirectory parts = make();
  add_part(0);
  write_text(home_ / part_name(0) / "state" / "remarks", "mine");

  EXPECT_THAT(parts.remove(system_random).kept, ElementsAre(HasSubstr("'state/remarks'")));

  EXPECT_THAT(list_tree(home_), ElementsAre("part-00000", "part-00000/state", "part-00000/state/remarks"));
}

TEST_F(Parts, OfAProgramThatHasDiedAreFinishedBeforeTheyGo) {
  PartsDirectory parts = make();
  add_part(0);
  const fs::path begun = home_ / temporary_name(part_name(1), make_uuid(system_random));
  fs::create_directory(begun);
  write_text(begun / std::string(kOwnerName), dead_owner());

  EXPECT_THAT(parts.remove(system_random).kept, IsEmpty());

  EXPECT_TRUE(fs::is_empty(temp_.path()));
}

TEST_F(Parts, AreFoundByTheirManifestOrTheirMarkWithoutAnOwnerOfThemAll) {
  fs::create_directory(home_);
  add_part(0);
  write_text(home_ / "notes", "mine");
  EXPECT_EQ(PartsDirectory::in_the_way(target()), "");
  fs::remove_all(home_ / part_name(0));
  EXPECT_THAT(PartsDirectory::in_the_way(target()), HasSubstr("'notes'"));

  fs::create_directory(home_ / part_name(1));
  write_text(home_ / part_name(1) / std::string(kUncommittedName), dead_owner());

  EXPECT_EQ(PartsDirectory::in_the_way(target()), "");
}

TEST_F(Parts, AreNoCheckpointOfOthersAndNoDamagedOne) {
  fs::create_directory(home_);
  save_sample(*engine_, elsewhere_ / part_name(0), "a checkpoint that is no part");
  fs::rename(elsewhere_ / part_name(0), home_ / part_name(0));
  fs::create_directory(home_ / part_name(1));
  write_text(home_ / part_name(1) / "checkpoint.json", "{");
  fs::create_directory(home_ / part_name(2));
  write_text(home_ / part_name(2) / std::string(kUncommittedName), "not of Cairn");
  write_text(home_ / "part-3", "");

  EXPECT_THAT([&] { static_cast<void>(make()); },
              Fails(Errc::already_exists, AllOf(HasSubstr("part-00000"), HasSubstr("part-00001"),
                                                HasSubstr("part-00002"), HasSubstr("part-3"))));
}

TEST_F(Parts, NameTenOfManyThingsOfOthers) {
  fs::create_directory(home_);
  for (int i = 0; i < 12; ++i) {
    write_text(home_ / fmt::format("notes{}", i), "mine");
  }

  EXPECT_THAT([&] { static_cast<void>(make()); }, Fails(Errc::already_exists, HasSubstr("and 2 more")));
}

TEST_F(Parts, AreNotMadeWhereAFileHasTheNameOfTheirDirectory) {
  write_text(home_, "mine");

  EXPECT_THAT([&] { static_cast<void>(make()); },
              Fails(Errc::already_exists, HasSubstr("is not a directory, and is left alone")));
}

TEST_F(Parts, AreNotMadeWhereSomethingElseHasTheNameOfTheirMark) {
  fs::create_directories(home_ / std::string(kOwnerName));

  EXPECT_THAT([&] { static_cast<void>(PartsDirectory::open(target(), PartsDirectory::Check::mark)); },
              Fails(Errc::already_exists, HasSubstr("is not the mark of a program")));
}

TEST_F(Parts, TellWhoHasWorkedOnThemBefore) {
  fs::create_directory(home_);
  EXPECT_EQ(PartsDirectory::open(target(), PartsDirectory::Check::everything)->worked_before(), "");

  write_text(home_ / std::string(kOwnerName), dead_owner());

  EXPECT_EQ(make().worked_before(), "process 1 on " + this_process({}).host);
}

TEST(PartNumber, IsWhatANameSaysInItsOneForm) {
  EXPECT_EQ(part_number("part-00007"), 7U);
  EXPECT_EQ(part_number("part-123456"), 123456U);
  for (const char* name :
       {"part-", "part-7", "part-0000x", "part-00007x", "part-000007", "party-00007", ""}) {
    EXPECT_EQ(part_number(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace cairn::store
