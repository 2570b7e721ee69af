// SPDX-License-Identifier: Apache-2.0
#include "store/internal/verify.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/page_cache.hpp"
#include "io/internal/syscalls.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/forwarding_syscalls.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::read_text;
using testing::TempDir;
using testing::write_text;

/// A checkpoint with `state/data` (three chunks, the last a short one), `state/empty` and `more/deep/data`.
class Verify : public ::testing::Test {
 protected:
  Verify() : engine_(io::make_engine(io::EngineKind::threads).engine), path_(directory_ / "checkpoint") {
    StagedDirectory staged = StagedDirectory::create(*engine_, path_);
    const std::string large(2 * io::kChunkBytes + 100, 'x');
    staged.make_directory("state");
    staged.make_directory("more");
    fs::create_directory(staged.path() / "more/deep");
    std::vector<io::FileDigest> digests;
    for (const auto& [file, text] : std::vector<std::pair<std::string, std::string>>{
             {"more/deep/data", "deep"}, {"state/data", large}, {"state/empty", ""}}) {
      write_sample_file(staged, file, text);
      digests.push_back(digest_of(file, text));
    }
    Manifest manifest = sample_manifest();
    manifest.checkpointables.push_back({"more", "cairn.json/1", "more"});
    staged.publish(manifest, digests);
  }

  [[nodiscard]] VerifyReport check(const VerifyOptions& options = {}) const {
    return verify(io::posix_syscalls(), path_, options);
  }

  void flip(const std::string& file, std::size_t position) const {
    std::string text = read_text(path_ / file);
    text.at(position) = static_cast<char>(text.at(position) ^ 1);
    write_text(path_ / file, text);
  }

  TempDir directory_;
  std::unique_ptr<io::Engine> engine_;
  fs::path path_;
};

/// "<file>: <damage> <chunk>" of every problem.
std::vector<std::string> summary(const VerifyReport& report) {
  std::vector<std::string> lines;
  for (const VerifyProblem& problem : report.problems) {
    lines.push_back(problem.file + ": " + std::string(name(problem.damage)) +
                    (problem.chunk ? " " + std::to_string(*problem.chunk) : ""));
  }
  return lines;
}

TEST_F(Verify, FindsNothingInASoundCheckpoint) {
  EXPECT_THAT(summary(check()), IsEmpty());
}

TEST_F(Verify, ReadsEveryByteOfEveryFile) {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (entry.is_regular_file()) {
      bytes += entry.file_size();
      ++files;
    }
  }

  const VerifyReport report = check();

  EXPECT_EQ(report.files, files);
  EXPECT_EQ(report.bytes, bytes - fs::file_size(path_ / "chunks.xxh3"));  // Part of the roots, not a link.
}

TEST_F(Verify, NamesTheChunkAndTheRangeOfAFlippedBit) {
  flip("state/data", io::kChunkBytes + 5);

  const VerifyReport report = check();

  ASSERT_THAT(summary(report), ElementsAre("state/data: altered 1"));
  EXPECT_EQ(report.problems[0].begin_bytes, io::kChunkBytes);
  EXPECT_EQ(report.problems[0].end_bytes, 2 * io::kChunkBytes);
  EXPECT_THAT(report.problems[0].text, AllOf(HasSubstr((path_ / "state/data").string()),
                                             HasSubstr("chunk 1 (bytes 1048576 to 2097152)")));
}

TEST_F(Verify, DoesNotStopAtTheFirstProblem) {
  flip("state/data", 0);
  flip("state/data", 2 * io::kChunkBytes);
  flip("more/deep/data", 3);

  EXPECT_THAT(summary(check()),
              ElementsAre("more/deep/data: altered 0", "state/data: altered 0", "state/data: altered 2"));
}

TEST_F(Verify, NamesAMissingFile) {
  fs::remove(path_ / "state/empty");

  EXPECT_THAT(summary(check()), ElementsAre("state/empty: missing"));
}

TEST_F(Verify, NamesAllFilesOfAMissingDirectory) {
  fs::remove_all(path_ / "state");

  EXPECT_THAT(summary(check()), ElementsAre("state/data: missing", "state/empty: missing"));
}

TEST_F(Verify, NamesATruncatedFileWithBothSizes) {
  fs::resize_file(path_ / "state/data", 10);

  const VerifyReport report = check();

  ASSERT_THAT(summary(report), ElementsAre("state/data: wrong size"));
  EXPECT_THAT(report.problems[0].text, HasSubstr("10 bytes instead of 2097252"));
}

TEST_F(Verify, NamesAFileThatHasGrown) {
  write_text(path_ / "state/empty", "no longer");

  EXPECT_THAT(summary(check()), ElementsAre("state/empty: wrong size"));
}

TEST_F(Verify, NamesALinkInAFilesPlaceEvenWhenTheContentsAreRight) {
  fs::rename(path_ / "state/data", directory_ / "elsewhere");
  fs::create_symlink(directory_ / "elsewhere", path_ / "state/data");

  EXPECT_THAT(summary(check()), ElementsAre("state/data: wrong kind"));
}

TEST_F(Verify, NamesALinkInADirectorysPlace) {
  fs::rename(path_ / "more", directory_ / "elsewhere");
  fs::create_symlink(directory_ / "elsewhere", path_ / "more");

  EXPECT_THAT(summary(check()), ElementsAre("more: wrong kind", "more/deep/data: missing"));
}

TEST_F(Verify, NamesFilesAndDirectoriesThatDoNotBelongToTheCheckpoint) {
  write_text(path_ / "state/note.txt", "mine");
  fs::create_directories(path_ / "stray/inner");

  const VerifyReport report = check();

  EXPECT_TRUE(report.is_sound());
  EXPECT_THAT(report.foreign, ElementsAre("state/note.txt", "stray"));
  EXPECT_EQ(report.foreign_count, 2u);
}

/// The system calls that verifying a checkpoint of so many files takes.
int calls_to_verify(io::Engine& engine, const fs::path& path, int files) {
  StagedDirectory staged = StagedDirectory::create(engine, path);
  staged.make_directory("state");
  std::vector<io::FileDigest> digests;
  for (int i = 0; i < files; ++i) {
    const std::string file = "state/" + std::to_string(i);
    write_text(staged.path() / file, file);
    digests.push_back(digest_of(file, file));
  }
  staged.publish(sample_manifest(), digests);
  io::FaultySyscalls syscalls;
  EXPECT_TRUE(verify(syscalls, path).is_sound());
  return syscalls.calls();
}

TEST_F(Verify, TakesTenTimesTheCallsForTenTimesTheFiles) {
  const int few = calls_to_verify(*engine_, directory_ / "few", 20);
  const int many = calls_to_verify(*engine_, directory_ / "many", 200);

  EXPECT_LE(many, 10 * few);
}

TEST_F(Verify, AcceptsTheOwnerFileThatACommitMayLeave) {
  write_text(path_ / ".owner", "");

  EXPECT_THAT(summary(check()), IsEmpty());
}

TEST_F(Verify, TellsADamagedChunkTableFromDamagedData) {
  flip("chunks.xxh3", 8);  // The first chunk of state/data.

  EXPECT_THAT(summary(check()), ElementsAre("chunks.xxh3: altered"));
}

TEST_F(Verify, ComparesDataWithItsRootWhenTheChunkTableIsGone) {
  fs::remove(path_ / "chunks.xxh3");
  flip("state/data", 7);

  EXPECT_THAT(summary(check()), ElementsAre("chunks.xxh3: missing", "state/data: altered"));
}

TEST_F(Verify, NamesAChunkTableOfAnotherSize) {
  fs::resize_file(path_ / "chunks.xxh3", 8);

  EXPECT_THAT(summary(check()), ElementsAre("chunks.xxh3: wrong size"));
}

TEST_F(Verify, ChecksOnlyTheDirectoryThatWasAskedFor) {
  flip("state/data", 0);
  flip("more/deep/data", 0);
  write_text(path_ / "stray", "");
  VerifyOptions options;
  options.directory = "more";

  EXPECT_THAT(summary(check(options)), ElementsAre("more/deep/data: altered 0"));
}

TEST_F(Verify, RefusesADirectoryThatTheCheckpointDoesNotHave) {
  VerifyOptions options;
  options.directory = "mor";

  EXPECT_THAT([&] { static_cast<void>(check(options)); }, Fails(Errc::not_found, HasSubstr("'mor'")));
}

TEST_F(Verify, CountsTheProblemsThatItDoesNotKeep) {
  flip("state/data", 0);
  flip("state/data", io::kChunkBytes);
  VerifyOptions options;
  options.max_problems = 1;

  const VerifyReport report = check(options);

  EXPECT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(report.problem_count, 2u);
}

TEST_F(Verify, CountsTheForeignFilesThatItDoesNotKeep) {
  for (const char* name : {"a", "b", "c"}) {
    write_text(path_ / name, "");
  }
  VerifyOptions options;
  options.max_problems = 2;

  const VerifyReport report = check(options);

  EXPECT_THAT(report.foreign, ::testing::SizeIs(2));
  EXPECT_EQ(report.foreign_count, 3U);
}

TEST_F(Verify, NamesADirectoryThatCannotBeRead) {
  io::FaultySyscalls syscalls;
  syscalls.plan(
      {.call = io::Call::list, .first = 2, .count = io::kForEver, .result = -EIO});  // Behind the root.

  const VerifyReport report = verify(syscalls, path_, {});

  ASSERT_THAT(report.problems, ::testing::SizeIs(1));
  EXPECT_EQ(report.problems.front().damage, Damage::unreadable);
  EXPECT_THAT(report.problems.front().text, HasSubstr(path_.string()));
}

TEST_F(Verify, FindsTheSameWithAnyNumberOfThreads) {
  save_sample(*engine_, directory_ / "large", std::string(17 * io::kChunkBytes, 'y'));
  path_ = directory_ / "large";
  flip("state/data", 7 * io::kChunkBytes);
  flip("state/data", 8 * io::kChunkBytes);  // In the batch of another thread.
  VerifyOptions options;
  options.threads = 2;

  EXPECT_THAT(summary(check(options)), ElementsAre("state/data: altered 7", "state/data: altered 8"));
}

/// A checkpoint with a file that is large enough to be read past the page cache, and is not in it.
class VerifyOfALargeFile : public Verify {
 protected:
  void SetUp() override {
    save_sample(*engine_, directory_ / "large", std::string(17 * io::kChunkBytes + 5, 'y'));
    path_ = directory_ / "large";
    if (!make_cold()) {
      GTEST_SKIP() << kStaysCached;
    }
  }

  static constexpr const char* kStaysCached = "the file does not leave the page cache";

  [[nodiscard]] bool make_cold() const {
    const int fd = ::open((path_ / "state/data").c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const bool is_cold = !io::seems_cached(fd, 17 * io::kChunkBytes);
    ::close(fd);
    return is_cold;
  }
};

TEST_F(VerifyOfALargeFile, LeavesItOutOfThePageCacheAndFindsNothing) {
  const VerifyReport report = check();

  EXPECT_THAT(summary(report), IsEmpty());
  EXPECT_GT(report.bytes, 17 * io::kChunkBytes);
  const int fd = ::open((path_ / "state/data").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_FALSE(io::seems_cached(fd, 17 * io::kChunkBytes));
  ::close(fd);
}

TEST_F(VerifyOfALargeFile, NamesTheChunksThatAreDamaged) {
  flip("state/data", 7 * io::kChunkBytes);
  flip("state/data", 8 * io::kChunkBytes);
  flip("state/data", 17 * io::kChunkBytes);
  if (!make_cold()) {
    GTEST_SKIP() << kStaysCached;
  }

  EXPECT_THAT(summary(check()),
              ElementsAre("state/data: altered 7", "state/data: altered 8", "state/data: altered 17"));
}

TEST_F(VerifyOfALargeFile, ComparesItWithItsRootWhenTheChunkTableIsGone) {
  fs::remove(path_ / "chunks.xxh3");
  EXPECT_THAT(summary(check()), ElementsAre("chunks.xxh3: missing"));

  flip("state/data", 9 * io::kChunkBytes);
  if (!make_cold()) {
    GTEST_SKIP() << kStaysCached;
  }
  EXPECT_THAT(summary(check()), ElementsAre("chunks.xxh3: missing", "state/data: altered"));
}

/// A disk with one chunk that cannot be read.
class DiskWithABadChunk final : public testing::ForwardingSyscalls {
 public:
  explicit DiskWithABadChunk(std::uint64_t chunk) : begin_(chunk * io::kChunkBytes) {}

  std::int64_t read_at(int fd, std::byte* data, std::size_t size, std::uint64_t offset) noexcept override {
    const bool is_bad = offset < begin_ + io::kChunkBytes && offset + size > begin_;
    return is_bad ? -EIO : ForwardingSyscalls::read_at(fd, data, size, offset);
  }

 private:
  const std::uint64_t begin_;
};

TEST_F(VerifyOfALargeFile, NamesTheOneChunkThatCannotBeRead) {
  flip("state/data", 10 * io::kChunkBytes);
  if (!make_cold()) {
    GTEST_SKIP() << kStaysCached;
  }
  DiskWithABadChunk disk(9);

  EXPECT_THAT(summary(verify(disk, path_)),
              ElementsAre("state/data: unreadable 9", "state/data: altered 10"));
}

TEST_F(Verify, ReportsAChunkThatCannotBeReadAndGoesOn) {
  flip("state/data", 2 * io::kChunkBytes);
  std::vector<std::vector<std::string>> summaries;

  for (int read = 3; read < 12; ++read) {  // The first two are those of COMMIT and checkpoint.json.
    io::FaultySyscalls syscalls;
    syscalls.plan({.call = io::Call::read, .first = read, .count = 1, .result = -EIO});
    VerifyOptions options;
    options.threads = 1;
    try {
      summaries.push_back(summary(verify(syscalls, path_, options)));
    } catch (const Error&) {  // It was a read of checkpoint.json all the same.
    }
  }

  EXPECT_THAT(summaries, Contains(ElementsAre("state/data: unreadable 1", "state/data: altered 2")));
}

TEST_F(Verify, TellsTheProgressAtTheEnd) {
  VerifyProgress last;
  VerifyOptions options;
  options.progress = [&](const VerifyProgress& progress) { last = progress; };

  static_cast<void>(check(options));

  EXPECT_EQ(last.checked_bytes, 2 * io::kChunkBytes + 104);
  EXPECT_EQ(last.total_bytes, last.checked_bytes);
}

TEST_F(Verify, EndsWithWhatTheProgressCallbackThrows) {
  VerifyOptions options;
  options.progress = [](const VerifyProgress&) { throw std::runtime_error("enough"); };

  EXPECT_THROW(static_cast<void>(check(options)), std::runtime_error);
}

TEST_F(Verify, EndsInTheMiddleWithWhatTheProgressCallbackThrows) {
  class SlowReads : public testing::ForwardingSyscalls {
   protected:
    std::int64_t pass(const testing::PassingCall& call) noexcept override {
      const bool is_read = call.kind == testing::CallKind::read;
      std::this_thread::sleep_for(std::chrono::milliseconds(is_read ? 100 : 0));
      return call.make();
    }
  };
  SlowReads slow;
  VerifyOptions options;
  options.threads = 1;
  options.progress = [](const VerifyProgress& progress) {
    EXPECT_LT(progress.checked_bytes, progress.total_bytes);
    throw std::runtime_error("enough");
  };

  EXPECT_THROW(static_cast<void>(verify(slow, path_, options)), std::runtime_error);
}

TEST_F(Verify, RefusesADirectoryWithoutCommit) {
  fs::remove(path_ / "COMMIT");

  EXPECT_THAT([&] { static_cast<void>(check()); }, Fails(Errc::not_committed, HasSubstr(path_.string())));
}

TEST_F(Verify, RefusesAManifestThatCommitDoesNotVouchFor) {
  flip("checkpoint.json", 30);

  EXPECT_THAT([&] { static_cast<void>(check()); },
              Fails(Errc::checksum_mismatch, HasSubstr((path_ / "checkpoint.json").string())));
}

}  // namespace
}  // namespace cairn::store
