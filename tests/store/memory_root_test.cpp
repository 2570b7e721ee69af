// SPDX-License-Identifier: Apache-2.0
#include "store/internal/memory_root.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "io/faulty_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/internal/spare_files.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/fails.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {
namespace {

using testing::Fails;
using testing::FailsWithErrno;
using ::testing::HasSubstr;
using testing::TempDir;

constexpr std::uint64_t kBytes = (std::uint64_t{2} << 20) + 17;

ino_t inode_at(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;

/// Returns whether the mapping of a file in this process has large pages.
bool has_large_pages(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/smaps");
  bool is_of_file = false;
  for (std::string line; std::getline(maps, line);) {
    is_of_file = line.ends_with(path.native()) || (is_of_file && line.find('-') == std::string::npos);
    if (is_of_file && (line.starts_with("ShmemPmdMapped:") || line.starts_with("FilePmdMapped:")) &&
        line.find(" 0 kB") == std::string::npos) {
      return true;
    }
  }
  return false;
}

/// Asks the system for a large page there.
bool may_have_large_pages(const std::byte* memory) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE.
  return ::madvise(const_cast<std::byte*>(memory), kLargePageBytes, kCollapse) == 0;
}

/// Leaves this process so many bytes of addresses.
class LimitedAddressSpace {
 public:
  explicit LimitedAddressSpace(std::uint64_t bytes) {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + bytes;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~LimitedAddressSpace() { ::setrlimit(RLIMIT_AS, &before_); }
  LimitedAddressSpace(const LimitedAddressSpace&) = delete;
  LimitedAddressSpace& operator=(const LimitedAddressSpace&) = delete;

 private:
  rlimit before_{};
};

class MemoryRoots : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(testing::kSharedMemory)) {
      GTEST_SKIP() << "no " << testing::kSharedMemory;
    }
    memory_ = std::make_unique<TempDir>(testing::kSharedMemory);
    root_ = *memory_ / "r00000";
    std::filesystem::create_directory(root_);
    write_mark(0);
    io::EngineOptions options;
    options.syscalls = &syscalls_;
    engine_ = io::make_engine(io::EngineKind::threads, options).engine;
  }

  void write_mark(std::uint64_t limit_bytes) const {
    MemoryMark mark;
    mark.run = "some run";
    mark.root = "/somewhere";
    mark.limit_bytes = limit_bytes;
    testing::write_text(*memory_ / ".cairn-memory", encode_mark(mark));
  }

  [[nodiscard]] std::shared_ptr<MemoryRoot> claim() {
    return MemoryRoot::claim(io::Directory::open(syscalls_, root_), 0, system_random);
  }

  StagedDirectory stage(const std::string& name) {
    StagedDirectory staged = StagedDirectory::create(*engine_, root_ / name);
    staged.make_directory("state");
    return staged;
  }

  std::unique_ptr<io::NewFile> create_file(StagedDirectory& staged, std::uint64_t bytes = kBytes) {
    io::NewFileOptions options;
    options.expected_bytes = bytes;
    options.is_filled_in_place = true;
    return staged.create_file("state/data", options);
  }

  /// Saves a checkpoint of one file. Returns where that was mapped.
  const std::byte* save(const std::string& name, char letter, std::uint64_t bytes = kBytes) {
    StagedDirectory staged = stage(name);
    const std::unique_ptr<io::NewFile> file = create_file(staged, bytes);
    const std::byte* const memory = file->memory().data();
    std::fill(file->memory().begin(), file->memory().end(), static_cast<std::byte>(letter));
    testing::run(file->finish(bytes));
    const io::FileDigest digest = digest_of("state/data", std::string(bytes, letter));
    staged.publish(sample_manifest(), std::span(&digest, 1));
    return memory;
  }

  void remove(const std::string& name) { remove_checkpoint(syscalls_, root_ / name); }

  [[nodiscard]] std::filesystem::path file_of(const std::string& name) const {
    return root_ / name / "state/data";
  }
  [[nodiscard]] std::size_t spare_files() const {
    const std::filesystem::directory_iterator all(root_ / ".cairn-spare");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  io::FaultySyscalls syscalls_;
  std::unique_ptr<TempDir> memory_;
  std::filesystem::path root_;
  std::unique_ptr<io::Engine> engine_;
};

TEST_F(MemoryRoots, UseTheMemoryOfWhatIsRemovedAgainWhereItIsMapped) {
  const std::shared_ptr<MemoryRoot> held = claim();
  const std::byte* const before = save("1", 'a');
  const ino_t inode = inode_at(file_of("1"));

  remove("1");
  EXPECT_EQ(spare_files(), 1u);
  EXPECT_EQ(save("2", 'b'), before);

  EXPECT_EQ(inode_at(file_of("2")), inode);
  EXPECT_EQ(spare_files(), 0u);
  EXPECT_EQ(load_sample(root_ / "2"), std::string(kBytes, 'b'));
  EXPECT_EQ(held->mapped_files(), 1u);
}

TEST_F(MemoryRoots, CutWhatIsLargerAndLeaveWhatIsSmaller) {
  const std::shared_ptr<MemoryRoot> held = claim();
  save("1", 'a', kBytes);
  save("2", 'a', 2 * kBytes);
  const ino_t small = inode_at(file_of("1"));
  const ino_t large = inode_at(file_of("2"));
  remove("1");
  remove("2");

  save("3", 'b', kBytes + 1);
  EXPECT_EQ(inode_at(file_of("3")), large);
  EXPECT_EQ(load_sample(root_ / "3"), std::string(kBytes + 1, 'b'));

  save("4", 'c', kBytes + 1);
  EXPECT_NE(inode_at(file_of("4")), small);
  EXPECT_EQ(spare_files(), 1u);
}

TEST_F(MemoryRoots, LeaveAFileAloneThatHasAnotherName) {
  const std::shared_ptr<MemoryRoot> held = claim();
  save("1", 'a');
  std::filesystem::create_hard_link(file_of("1"), *memory_ / "mine");
  remove("1");
  EXPECT_EQ(spare_files(), 0u);

  save("2", 'b');
  remove("2");
  ASSERT_EQ(spare_files(), 1u);
  for (const auto& spare : std::filesystem::directory_iterator(root_ / ".cairn-spare")) {
    std::filesystem::create_hard_link(spare.path(), *memory_ / "also mine");
  }
  save("3", 'c');

  EXPECT_EQ(testing::read_text(*memory_ / "mine"), std::string(kBytes, 'a'));
  EXPECT_EQ(testing::read_text(*memory_ / "also mine"), std::string(kBytes, 'b'));
}

TEST_F(MemoryRoots, TakeNoFileWithHoles) {
  const std::shared_ptr<MemoryRoot> held = claim();
  testing::write_text(root_ / ".cairn-spare/1", "");
  std::filesystem::resize_file(root_ / ".cairn-spare/1", kBytes);
  const ino_t inode = inode_at(root_ / ".cairn-spare/1");

  save("1", 'a');

  EXPECT_NE(inode_at(file_of("1")), inode);
}

TEST_F(MemoryRoots, MakeANewFileWhereTheSpareOneHasChangedMeanwhile) {
  const std::shared_ptr<MemoryRoot> held = claim();
  const std::function<void(const std::filesystem::path&)> cut = [](const auto& spare) {
    std::filesystem::resize_file(spare, 1);
  };
  const std::function<void(const std::filesystem::path&)> take = [](const auto& spare) {
    std::filesystem::remove(spare);
  };
  for (const auto& change : {cut, take}) {
    save("1", 'a');
    remove("1");
    StagedDirectory staged = stage("2");  // It looks at what is spare.
    ASSERT_EQ(spare_files(), 1u);
    change(std::filesystem::directory_iterator(root_ / ".cairn-spare")->path());

    EXPECT_EQ(create_file(staged)->memory().size(), kBytes);

    staged.abandon();
    std::filesystem::remove_all(root_ / "1");
    for (const auto& spare : std::filesystem::directory_iterator(root_ / ".cairn-spare")) {
      std::filesystem::remove(spare);
    }
  }
}

TEST_F(MemoryRoots, KeepNoMoreThanTheirLimit) {
  write_mark(kBytes);
  const std::shared_ptr<MemoryRoot> held = claim();
  save("1", 'a');
  save("2", 'a');

  remove("1");
  remove("2");

  EXPECT_EQ(spare_files(), 1u);
}

TEST_F(MemoryRoots, KeepWhatASaveThatWasGivenUpHasMade) {
  const std::shared_ptr<MemoryRoot> held = claim();
  {
    StagedDirectory staged = stage("1");
    static_cast<void>(create_file(staged));
  }
  EXPECT_EQ(spare_files(), 1u);
}

TEST_F(MemoryRoots, DoNotTakeAFileThatSomebodyStillFills) {
  const std::shared_ptr<MemoryRoot> held = claim();
  std::optional<StagedDirectory> given_up = stage("1");
  const std::unique_ptr<io::NewFile> file = create_file(*given_up);
  given_up.reset();
  ASSERT_EQ(spare_files(), 1u);

  save("2", 'b');
  std::fill(file->memory().begin(), file->memory().end(), std::byte{'x'});

  EXPECT_EQ(load_sample(root_ / "2"), std::string(kBytes, 'b'));
}

TEST_F(MemoryRoots, GiveUpSpareFilesWhenThereIsNoMemory) {
  const std::shared_ptr<MemoryRoot> held = claim();
  save("1", 'a');
  remove("1");
  StagedDirectory staged = stage("2");

  syscalls_.plan({io::Call::allocate, 1, 1, -ENOSPC});
  const std::unique_ptr<io::NewFile> file = create_file(staged, 2 * kBytes);

  EXPECT_EQ(file->memory().size(), 2 * kBytes);
  EXPECT_EQ(spare_files(), 0u);
  syscalls_.plan({io::Call::allocate, 1, 1, -ENOSPC});
  StagedDirectory other = stage("3");
  EXPECT_THAT([&] { static_cast<void>(create_file(other, 2 * kBytes)); },
              FailsWithErrno(ENOSPC, HasSubstr("data")));
}

TEST_F(MemoryRoots, LetGoOfWhatIsNotUsedForLong) {
  const std::shared_ptr<MemoryRoot> held = claim();
  save("1", 'a');
  EXPECT_EQ(held->mapped_files(), 1u);

  for (std::uint64_t round = 0; round <= io::MappedFiles::kRounds; ++round) {
    held->begin();
  }

  EXPECT_EQ(held->mapped_files(), 0u);
}

TEST_F(MemoryRoots, LetGoOfWhatIsRemoved) {
  const std::shared_ptr<MemoryRoot> held = claim();
  const std::function<void()> drop = [&] { held->drop_spare(); };
  const std::function<void()> trim = [&] {
    StagedDirectory staged = stage("2");  // It looks at what is spare.
    held->trim(0);
  };
  const std::function<void()> lose = [&] {
    std::filesystem::remove_all(root_ / ".cairn-spare");
    std::filesystem::create_directory(root_ / ".cairn-spare");
    held->drop_removed();
  };
  for (const auto& act : {drop, trim, lose}) {
    save("1", 'a');
    remove("1");
    EXPECT_EQ(held->mapped_files(), 1u);

    act();

    EXPECT_EQ(held->mapped_files(), 0u);
  }
}

TEST_F(MemoryRoots, KeepWhatWasRemovedWhileSomebodyFillsIt) {
  const std::shared_ptr<MemoryRoot> held = claim();
  StagedDirectory staged = stage("1");
  std::unique_ptr<io::NewFile> file = create_file(staged);
  staged.abandon();
  held->drop_spare();
  EXPECT_EQ(held->mapped_files(), 0u) << "it goes as soon as that ends";
  std::fill(file->memory().begin(), file->memory().end(), std::byte{'x'});

  EXPECT_EQ(file->memory().back(), std::byte{'x'});
}

TEST_F(MemoryRoots, AreMadeReadyForTheSavesToCome) {
  save("1", 'a');
  const std::shared_ptr<MemoryRoot> held = claim();
  EXPECT_EQ(held->mapped_files(), 0u);

  held->warm("1");
  EXPECT_EQ(held->mapped_files(), 1u);
  const std::uint64_t sizes[] = {kBytes, 17, 2 * kBytes};
  held->prepare(sizes, [] { return false; });
  EXPECT_EQ(spare_files(), 2u);
  EXPECT_EQ(held->mapped_files(), 3u);

  save("2", 'b', 2 * kBytes);
  save("3", 'c', kBytes);
  EXPECT_EQ(spare_files(), 0u);
  EXPECT_EQ(held->mapped_files(), 3u);
}

/// Somebody else enters what is removed: another object, if not another process.
TEST_F(MemoryRoots, CountWhatIsSpareSinceTheyLookedLast) {
  const std::shared_ptr<MemoryRoot> held = claim();
  save("1", 'a');
  remove("1");
  held->allow(held->asked_bytes() + kBytes + kBytes / 2);

  const std::uint64_t sizes[] = {kBytes};
  held->prepare(sizes, [] { return false; });
  EXPECT_EQ(spare_files(), 1u) << "another one is more than is allowed";

  save("2", 'b');
  remove("2");
  held->trim(0);
  EXPECT_EQ(spare_files(), 0u);
}

TEST_F(MemoryRoots, DropWhatAKilledProgramHadBegunToMake) {
  const std::shared_ptr<MemoryRoot> held = claim();
  testing::write_text(root_ / ".cairn-spare/begun", "");

  held->drop_spare();

  EXPECT_EQ(spare_files(), 0u);
}

TEST_F(MemoryRoots, HaveFilesWrittenThatTheAddressSpaceHasNoRoomFor) {
  if (testing::kHasSanitizer) {
    GTEST_SKIP() << "threads of a sanitizer take address space when they like";
  }
  const std::shared_ptr<MemoryRoot> held = claim();
  StagedDirectory staged = stage("1");
  std::unique_ptr<io::NewFile> file;
  {
    const LimitedAddressSpace limited(kBytes / 2);
    file = create_file(staged);
  }

  EXPECT_TRUE(file->memory().empty());
  EXPECT_THAT(file->why_not_direct(), HasSubstr("cannot be mapped (Cannot allocate memory)"));
  const std::string text(kBytes, 'a');
  testing::run(file->write(0, std::as_bytes(std::span(text))));
  testing::run(file->finish(kBytes));
  const io::FileDigest digest = digest_of("state/data", text);
  staged.publish(sample_manifest(), std::span(&digest, 1));
  EXPECT_EQ(testing::read_text(file_of("1")), text);
}

TEST_F(MemoryRoots, PinFilesOnceAndNotWhereADeviceFails) {
  const std::shared_ptr<MemoryRoot> held = claim();
  int pins = 0;
  const auto create = [&](const std::string& step, const io::MemoryHook& pin) {
    StagedDirectory staged = stage(step);  // It goes, and its file is the next one.
    io::NewFileOptions options;
    options.expected_bytes = kBytes;
    options.is_filled_in_place = true;
    options.pin = pin;
    const std::unique_ptr<io::NewFile> file = staged.create_file("state/data", options);
    return file->memory().empty() ? file->why_not_direct() : "pinned";
  };
  const io::MemoryHook fails = [&](std::span<std::byte>) -> std::shared_ptr<void> {
    ++pins;
    throw Error(Errc::device_failure, "it is gone");
  };
  const io::MemoryHook works = [&](std::span<std::byte> memory) {
    ++pins;
    return std::make_shared<std::span<std::byte>>(memory);
  };

  EXPECT_THAT(create("1", works), HasSubstr("not pinned yet"));
  held->make_ready();
  EXPECT_EQ(create("2", works), "pinned");
  held->make_ready();
  EXPECT_EQ(create("3", works), "pinned");
  EXPECT_EQ(pins, 1);

  held->drop_spare();
  EXPECT_THAT(create("4", fails), HasSubstr("not pinned yet"));
  held->make_ready();
  EXPECT_THAT(create("5", fails), HasSubstr("could not pin"));
  held->make_ready();
  EXPECT_EQ(pins, 2);
}

TEST_F(MemoryRoots, HaveLargePagesOnceTheyAreReady) {
  const std::shared_ptr<MemoryRoot> held = claim();
  const std::byte* const memory = save("1", 'a');
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % kLargePageBytes, 0u);
  EXPECT_FALSE(has_large_pages(file_of("1")));

  held->make_ready();

  if (!has_large_pages(file_of("1")) && !may_have_large_pages(memory)) {
    GTEST_SKIP() << "this system gives no large pages now";
  }
  EXPECT_TRUE(has_large_pages(file_of("1")));
  EXPECT_EQ(testing::read_text(file_of("1")), std::string(kBytes, 'a'));
}

TEST_F(MemoryRoots, AreFilledByOneOfAProcess) {
  std::shared_ptr<MemoryRoot> held = claim();
  EXPECT_THAT([&] { static_cast<void>(claim()); },
              Fails(Errc::invalid_argument, HasSubstr("this process fills")));

  held.reset();

  EXPECT_NO_THROW(held = claim());
}

TEST_F(MemoryRoots, AreNotFilledWithoutTheirClaim) {
  const std::shared_ptr<MemoryRoot> held = claim();
  std::filesystem::remove(root_ / ".cairn-program");

  EXPECT_THAT([&] { stage("1"); }, FailsWithErrno(ENOENT, HasSubstr(".cairn-program")));
}

TEST_F(MemoryRoots, LieInTheMemoryOfARun) {
  std::filesystem::remove(*memory_ / ".cairn-memory");
  EXPECT_THAT([&] { static_cast<void>(claim()); }, Fails(Errc::invalid_argument, HasSubstr(".cairn-memory")));

  write_mark(0);
  syscalls_.lies_on = io::FileSystem::local;
  EXPECT_THAT([&] { static_cast<void>(claim()); },
              Fails(Errc::invalid_argument, HasSubstr("not on a tmpfs")));
}

TEST_F(MemoryRoots, HaveNothingToKeepAfterTheirMarkIsGone) {
  static_cast<void>(claim());  // Leaves its folder.
  std::filesystem::remove(*memory_ / ".cairn-memory");
  save("1", 'a');

  remove("1");

  EXPECT_EQ(spare_files(), 0u);
}

TEST_F(MemoryRoots, AreRecoveredIntoTheirSpareFiles) {
  {
    const std::shared_ptr<MemoryRoot> held = claim();
    save("1", 'a');
  }
  std::filesystem::rename(root_ / "1", root_ / (".trash-1-" + to_string(make_uuid(system_random))));

  const RecoveryReport report = recover(syscalls_, root_);

  EXPECT_EQ(spare_files(), 1u);
  EXPECT_EQ(std::count_if(report.entries.begin(), report.entries.end(),
                          [](const RecoveryEntry& entry) { return entry.has_failed; }),
            0);
}

}  // namespace
}  // namespace cairn::store
