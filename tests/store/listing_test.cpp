// SPDX-License-Identifier: Apache-2.0
#include "store/internal/listing.hpp"

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "store/commit_time.hpp"
#include "store/internal/recovery.hpp"
#include "store/names.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/peak_memory.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;
using testing::write_text;

/// Counts what listings ask of the system.
class CountingSyscalls final : public testing::ForwardingSyscalls {
 public:
  std::atomic<std::uint64_t> calls{0};  // Listings look at entries on several threads.
  std::atomic<std::uint64_t> lists{0};

 protected:
  std::int64_t pass(const testing::PassingCall& call) noexcept override {
    ++calls;
    lists += call.kind == testing::CallKind::list ? 1 : 0;
    return call.make();
  }
};

class Listing : public ::testing::Test {
 protected:
  void save(const std::string& name, StagedOptions options = {}) {
    save_sample(*engine_, temp_ / name, "sample", std::move(options));
  }

  /// Copies of a checkpoint, which the format allows.
  void copy(const std::string& from, const std::string& to) {
    std::filesystem::copy(temp_ / from, temp_ / to, std::filesystem::copy_options::recursive);
  }

  void damage(const std::string& name) { write_text(temp_ / name / "state/data", "other size"); }

  std::vector<FoundCheckpoint> list(bool everything = false) {
    ListOptions options;
    options.everything = everything;
    return list_checkpoints(io::posix_syscalls(), temp_.path(), options);
  }

  std::vector<std::string> names(bool everything = false) {
    std::vector<std::string> names;
    for (const FoundCheckpoint& each : list(everything)) {
      names.push_back(each.name);
    }
    return names;
  }

  TempDir temp_;
  std::unique_ptr<io::Engine> engine_ = io::make_engine(io::EngineKind::threads).engine;
};

TEST_F(Listing, HasNumbersInTheirOrder) {
  for (const char* name : {"step-10", "step-9", "step-100"}) {
    save(name);
  }

  EXPECT_THAT(names(), ElementsAre("step-9", "step-10", "step-100"));
}

TEST_F(Listing, TellsWhatIsKnownWithoutData) {
  save("step");

  const FoundCheckpoint found = list().at(0);

  EXPECT_EQ(found.path, temp_ / "step");
  EXPECT_EQ(found.kind, EntryClass::committed);
  EXPECT_EQ(found.committed, "2026-01-31T12:00:01Z");
  EXPECT_EQ(found.commit_time, parse_commit_time("2026-01-31T12:00:01Z", 0));
  EXPECT_EQ(found.start_time, parse_commit_time("2026-01-31T12:00:00Z", 0));
  EXPECT_EQ(found.checkpointables, 1u);
  EXPECT_EQ(found.bytes, 6u);
  EXPECT_EQ(found.generation, 1u);
}

TEST_F(Listing, LeavesOutWhatCannotBeLoaded) {
  save("good");
  save("bad");
  damage("bad");
  save("lost");
  std::filesystem::rename(temp_ / "lost", temp_ / temporary_name("lost", make_uuid(system_random)));

  EXPECT_THAT(names(), ElementsAre("good"));
}

TEST_F(Listing, OfEverythingSaysWhatIsWrong) {
  save("bad");
  damage("bad");

  const FoundCheckpoint found = list(true).at(0);

  EXPECT_EQ(found.kind, EntryClass::damaged);
  EXPECT_FALSE(found.is_sound());
  EXPECT_TRUE(found.counts());
  EXPECT_THAT(found.problem, HasSubstr((temp_ / "bad").string()));
  EXPECT_EQ(found.bytes, 6u);
}

TEST_F(Listing, PutsADisplacedOneWhereItBelongs) {
  save("step-9");
  save("step-10");
  save("step-11");
  const std::string displaced = temporary_name("step-10", make_uuid(system_random));
  std::filesystem::rename(temp_ / "step-10", temp_ / displaced);

  EXPECT_THAT(names(true), ElementsAre("step-9", displaced, "step-11"));
}

TEST_F(Listing, LeavesOutThingsOfOthers) {
  save("step");
  write_text(temp_ / "notes.txt", "mine");
  std::filesystem::create_directory(temp_ / "plots");
  std::filesystem::create_directory_symlink("step", temp_ / "link");

  EXPECT_THAT(names(true), ElementsAre("step"));
}

TEST_F(Listing, OpensALaterGenerationByItsName) {
  save("step.g2");  // One that is called so, and is a first generation.

  EXPECT_THAT(names(), ElementsAre("step.g2"));
}

TEST_F(Listing, DoesNotCallSoundWhatReadersDoNotReach) {
  save("step");
  copy("step", "step.g2");
  write_text(temp_ / "step.g2/COMMIT", "garbage");

  EXPECT_THAT(names(), IsEmpty());
  const std::vector<FoundCheckpoint> found = list(true);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].problem, HasSubstr("step.g2"));
  EXPECT_THAT([&] { static_cast<void>(load_sample(temp_ / "step")); }, Fails(Errc::malformed_metadata));
}

TEST_F(Listing, OfNamesOpensNoneAndLeavesOutWhatHasNoCommit) {
  save("a");
  save("b");
  write_text(temp_ / "b/checkpoint.json", "garbage");
  save("c.g2");  // One that is called so, and is a first generation.
  save("d");
  std::filesystem::rename(temp_ / "d", temp_ / temporary_name("d", make_uuid(system_random)));
  std::filesystem::create_directory(temp_ / "e");
  std::filesystem::create_directory_symlink("a", temp_ / "f");
  CountingSyscalls counting;

  std::vector<std::string> found;
  for (const NamedCheckpoint& each : list_names(open_root(counting, temp_.path()))) {
    found.push_back(each.name);
  }

  EXPECT_THAT(found, ElementsAre("a", "b", "c.g2"));
  EXPECT_LT(counting.calls, 30u);
}

TEST_F(Listing, OfNamesLooksOnlyAtWhatHasChangedSinceAnEarlierOne) {
  for (const char* name : {"a", "b", "c", "d.g2", "e"}) {
    save(name);
  }
  copy("e", "e.g2");  // Called so, but no second generation.
  CountingSyscalls counting;
  const io::Directory root = open_root(counting, temp_.path());
  const std::vector<NamedCheckpoint> earlier = list_names(root);
  const auto names_since = [&] {
    std::vector<std::string> found;
    for (const NamedCheckpoint& each : list_names(root, earlier)) {
      found.push_back(each.name);
    }
    return found;
  };
  const std::uint64_t before = counting.calls;
  EXPECT_THAT(names_since(), ElementsAre("a", "b", "c", "d.g2", "e", "e.g2"));
  EXPECT_EQ(counting.calls, before + 1);

  save("f");
  std::filesystem::remove_all(temp_ / "a");
  std::filesystem::rename(temp_ / "b", temp_ / "aside");
  std::filesystem::create_directory(temp_ / "b");  // In its place, without a COMMIT.

  EXPECT_THAT(names_since(), ElementsAre("aside", "c", "d.g2", "e", "e.g2", "f"));
}

TEST_F(Listing, OfNamesHasWhatCannotBeLookedAt) {
  save("a");
  save("b");
  io::FaultySyscalls faulty;
  io::Fault fault;
  fault.call = io::Call::open;
  fault.first = 2;  // Behind the root.
  fault.result = -EIO;
  faulty.plan(fault);
  EXPECT_EQ(list_names(open_root(faulty, temp_.path())).size(), 2u);
  ASSERT_EQ(faulty.hits(), 1);
  fault.result = -EMFILE;
  faulty.plan(fault);

  EXPECT_THAT([&] { static_cast<void>(list_names(open_root(faulty, temp_.path()))); },
              FailsWithErrno(EMFILE, HasSubstr("a")));
}

TEST_F(Listing, ByTimeHasTheLastCommitLast) {
  for (const auto& [name, nanoseconds] : {std::pair("a", 3u), std::pair("b", 1u), std::pair("c", 2u)}) {
    StagedDirectory staged = StagedDirectory::create(*engine_, temp_ / name, {});
    Manifest manifest = sample_manifest();
    manifest.checkpointables.clear();
    manifest.committed_nanoseconds = nanoseconds;
    staged.publish(std::move(manifest), {});
  }
  ListOptions options;
  options.order = CheckpointOrder::by_time;

  std::string order;
  for (const FoundCheckpoint& each : list_checkpoints(io::posix_syscalls(), temp_.path(), options)) {
    order += each.name;
  }

  EXPECT_EQ(order, "bca");
}

TEST_F(Listing, AsksTheSameOfEachCheckpointHoweverManyThereAre) {
  save("0");
  for (int i = 1; i < 600; ++i) {
    copy("0", std::to_string(i));
  }
  CountingSyscalls syscalls;

  EXPECT_EQ(list_checkpoints(syscalls, temp_.path()).size(), 600u);
  EXPECT_LE(syscalls.calls, 600u * 26);
  EXPECT_EQ(syscalls.lists, 1u);
}

TEST_F(Listing, OfWhatIsNotADirectorySaysSo) {
  write_text(temp_ / "file", "x");
  save("step");
  const auto list = [&](const char* name) {
    static_cast<void>(list_checkpoints(io::posix_syscalls(), temp_ / name));
  };

  EXPECT_THAT([&] { list("nothing"); }, Fails(Errc::not_found, HasSubstr("nothing")));
  EXPECT_THAT([&] { list("file"); }, FailsWithErrno(ENOTDIR, HasSubstr("file")));
  EXPECT_THAT([&] { list("step"); }, Fails(Errc::invalid_argument, HasSubstr("step is a checkpoint")));
}

/// A directory of a hundred thousand files of somebody else's.
class ForeignFiles final : public testing::ForwardingSyscalls {
 public:
  int list(int, std::vector<io::DirectoryEntry>& entries) noexcept override {
    for (int i = 0; i < 100'000; ++i) {
      entries.push_back({fmt::format("a-file-of-somebody-else-{:08}.dat", i), io::FileKind::regular});
    }
    return 0;
  }
};

TEST_F(Listing, TakesLittleMemoryForWhatIsForeign) {
  if (const char* why = testing::why_no_peak_memory(); *why != '\0') {
    GTEST_SKIP() << why;
  }
  constexpr std::size_t kMost = std::size_t{40} << 20;
  ForeignFiles files;

  const auto listing = testing::peak_growth([&] {
    ListOptions options;
    options.everything = true;
    EXPECT_THAT(list_checkpoints(files, temp_.path(), options), IsEmpty());
  });
  const auto recovery = testing::peak_growth(
      [&] { EXPECT_EQ(scan_directory(files, temp_.path(), RecoveryOptions()).entries.size(), 100'000u); });

  ASSERT_TRUE(listing && recovery);
  EXPECT_LE(*listing, kMost);
  EXPECT_LE(*recovery, kMost);
}

TEST_F(Listing, IsCommittedSaysWhatIsACheckpoint) {
  save("step");
  save("bad");
  damage("bad");
  write_text(temp_ / "file", "x");
  const auto is = [&](const std::string& name) { return is_committed(io::posix_syscalls(), temp_ / name); };

  EXPECT_TRUE(is("step"));
  EXPECT_TRUE(is("step/"));
  EXPECT_FALSE(is("bad"));
  EXPECT_FALSE(is("file"));
  EXPECT_FALSE(is("nothing"));
  EXPECT_FALSE(is("."));
}

TEST_F(Listing, IsCommittedDoesNotGuessWhereTheDiskFails) {
  save("step");
  for (const io::Call call : {io::Call::open, io::Call::read}) {
    io::FaultySyscalls faulty;
    faulty.plan({.call = call, .first = 1, .count = io::kForEver, .result = -EIO});

    EXPECT_THAT([&] { static_cast<void>(is_committed(faulty, temp_ / "step")); },
                FailsWithErrno(EIO, HasSubstr(temp_.path().string())));
  }
}

TEST_F(Listing, OfGenerationsKnowsTheNameWhereTheRootMayNotBeRead) {
  save("step");
  io::FaultySyscalls faulty;
  faulty.plan({.call = io::Call::list, .first = 1, .count = io::kForEver, .result = -EACCES});
  const io::Directory root = open_root(faulty, temp_.path());

  EXPECT_THAT(list_generations(root, "step"), ElementsAre(1U));
  EXPECT_THAT(list_generations(root, "other"), IsEmpty());
  EXPECT_EQ(list_if_allowed(root), std::nullopt);
}

TEST(CommitTimeText, IsReadToTheNanosecond) {
  using namespace std::chrono;  // NOLINT: its literals are the point.

  EXPECT_EQ(parse_commit_time("2026-01-31T12:34:56Z", 789),
            sys_days(2026y / 1 / 31) + 12h + 34min + 56s + 789ns);
}

TEST(CommitTimeText, OfAnotherFormIsNoTime) {
  for (const char* text : {"", "now", "2026-02-30T12:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31 12:00:00Z",
                           "2026-01-31T12:00:00+01:00", "9999-01-31T12:00:00Z", "0001-01-01T00:00:00Z"}) {
    EXPECT_EQ(parse_commit_time(text, 0), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace cairn::store
