// SPDX-License-Identifier: Apache-2.0
// How much resident memory reading and saving takes at most, of a process of its own.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/builtin.hpp"
#include "cairn/handlers/describe.hpp"
#include "cairn/handlers/into.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "core/internal/start.hpp"
#include "support/peak_memory.hpp"
#include "support/temp_dir.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMemoryMiB = std::size_t{1} << 20;

/// What a reader may take: a little for itself, and so many times its input.
constexpr std::size_t kOfReaders = 16 * kMemoryMiB;
constexpr std::size_t kTimesInput = 16;

std::size_t bytes_below(const std::filesystem::path& root) {
  std::size_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  }
  return bytes;
}

/// A folder of files as other programs write them, each with one tensor of ten numbers.
void write_foreign_folder(const std::filesystem::path& folder, int files) {
  std::filesystem::create_directory(folder);
  for (int i = 0; i < files; ++i) {
    std::string header =
        fmt::format(R"({{"tensor{}":{{"dtype":"F32","shape":[10],"data_offsets":[0,40]}}}})", i);
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::string text(8, '\0');
    text[0] = static_cast<char>(header.size());
    testing::write_text(folder / fmt::format("shard{:04}.safetensors", i),
                        text + header + std::string(40, 'x'));
  }
}

/// One of very many.
struct Particle {
  std::vector<float> position;
  std::int64_t number = 0;
  double mass = 0;
  std::string name;
};
BOOST_DESCRIBE_STRUCT(Particle, (), (position, number, mass, name))

class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = testing::why_no_peak_memory(); *why != '\0') {
      GTEST_SKIP() << why;
    }
  }

  testing::TempDir directory_;
  RegistrySnapshot handlers_ = builtin_handlers();
};

using ReaderMemory = Memory;
using SaveMemory = Memory;

TEST_F(ReaderMemory, OfAForeignFolderIsBoundedByItsFiles) {
  write_foreign_folder(directory_ / "model", 400);

  const auto listed = testing::peak_growth([&] {
    const Context context;
    static_cast<void>(core::read_metadata(directory_ / "model", {}, handlers_, LoadOptions(), context));
  });
  const auto loaded = testing::peak_growth([&] {
    const Context context;
    static_cast<void>(core::start_load(directory_ / "model", {}, handlers_, LoadOptions(), context).wait());
  });

  const std::size_t most = kOfReaders + kTimesInput * bytes_below(directory_ / "model");
  ASSERT_TRUE(listed && loaded);
  EXPECT_LE(*listed, most);
  EXPECT_LE(*loaded, most);
}

TEST_F(ReaderMemory, OfObjectsIsAtMostTwiceThatOfTheirTree) {
  const std::vector<Particle> saved(20'000, {{1, 2, 3}, 4, 0.5, "p"});
  {
    const Context context;
    core::start_save(directory_ / "step", Checkpointables{{"item", to_tree(saved)}}, handlers_, SaveOptions(),
                     context)
        .wait();
  }
  const auto growth = [this](const Request& request) {
    return testing::peak_growth([&] {
      LoadOptions options;
      options.handler_options.set(ObjectsOnly());
      const Context context;
      static_cast<void>(core::start_load(directory_ / "step", {request}, handlers_, options, context).wait());
    });
  };
  std::vector<Particle> particles;

  const auto as_tree = growth("item");
  const auto as_objects = growth({"item", into(particles)});

  ASSERT_TRUE(as_tree && as_objects);
  EXPECT_LE(*as_objects, 2 * *as_tree);
}

TEST_F(ReaderMemory, OfManySmallCheckpointablesIsBoundedByTheirFiles) {
  std::deque<Tree> trees;
  Checkpointables items;
  for (int i = 0; i < 200; ++i) {
    Tree tree;
    tree["a"] = Array::adopt(std::vector<float>(3, static_cast<float>(i)));
    tree["b"] = Array::adopt(std::vector<float>(5, static_cast<float>(i)));
    trees.push_back(std::move(tree));
    items.push_back({fmt::format("item{}", i), trees.back()});
  }
  {
    const Context context;
    core::start_save(directory_ / "step", items, handlers_, SaveOptions(), context).wait();
  }

  const auto loaded = testing::peak_growth([&] {
    const Context context;
    static_cast<void>(core::start_load(directory_ / "step", {}, handlers_, LoadOptions(), context).wait());
  });

  ASSERT_TRUE(loaded);
  EXPECT_LE(*loaded, kOfReaders + kTimesInput * bytes_below(directory_ / "step"));
}

TEST_F(SaveMemory, OfBorrowedStateIsTheBuffersOfTheRequestsInFlight) {
  const std::vector<float> numbers(24 * kMemoryMiB / sizeof(float) + 1, 1.5F);
  std::deque<Array> arrays;
  Checkpointables items;
  for (int i = 0; i < 6; ++i) {
    // At an odd place in memory: no direct write of it is possible.
    arrays.push_back(Array::adopt(std::vector<float>(numbers)));
    items.push_back({fmt::format("item{}", i), arrays.back()});
  }
  ContextOptions few;
  few.queue_depth = 3;
  SaveOptions options;
  options.snapshot = Snapshot::borrow;

  const auto grown = testing::peak_growth([&] {
    const Context context(few);
    core::start_save(directory_ / "step", items, handlers_, options, context).wait();
  });

  ASSERT_TRUE(grown);
  EXPECT_LE(*grown, kOfReaders + 3 * 4 * kMemoryMiB);
}

TEST_F(SaveMemory, IsAtMostTheBudget) {
  Tree tree;
  for (int i = 0; i < 4; ++i) {
    tree[fmt::format("array{}", i)] = Array::adopt(std::vector<float>(32 * kMemoryMiB / sizeof(float), 1.5F));
  }
  ContextOptions small;
  small.staging_bytes = 32 * kMemoryMiB;
  Checkpointables items{{"item", tree}};

  const auto grown = testing::peak_growth([&] {
    const Context context(small);
    core::start_save(directory_ / "step", items, handlers_, SaveOptions(), context).wait();
  });

  ASSERT_TRUE(grown);
  EXPECT_LE(*grown, kOfReaders + 32 * kMemoryMiB);
}

/// A control group with little memory, below the one that CAIRN_TEST_CGROUP names: its path in the file system. Without
/// the variable no group is made: those that there are belong to whatever started the tests.
class SmallGroup {
 public:
  explicit SmallGroup(std::size_t bytes) {
    if (const char* parent = std::getenv("CAIRN_TEST_CGROUP")) {
      make(parent, bytes);
    }
  }

  ~SmallGroup() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  SmallGroup(const SmallGroup&) = delete;
  SmallGroup& operator=(const SmallGroup&) = delete;

  [[nodiscard]] bool exists() const { return !path_.empty(); }

  /// Moves the calling process into it.
  void enter() const {
    std::ofstream members(path_ / "cgroup.procs");
    members << ::getpid() << std::flush;
    if (!members) {
      throw std::runtime_error("the group takes no process");
    }
  }

 private:
  void make(const std::filesystem::path& parent, std::size_t bytes) {
    const std::filesystem::path group = parent / fmt::format("cairn-test-{}", ::getpid());
    std::error_code failure;
    if (!std::filesystem::create_directory(group, failure)) {
      return;
    }
    for (const char* name : {"memory.limit_in_bytes", "memory.max"}) {
      if (std::filesystem::exists(group / name)) {
        std::ofstream limit(group / name);
        limit << bytes << std::flush;
        path_ = limit ? group : std::filesystem::path();
      }
    }
    if (!exists()) {
      std::filesystem::remove(group, failure);
    }
  }

  std::filesystem::path path_;
};

/// Saves 180 MiB with the default budget.
void save_much(const std::filesystem::path& path, const RegistrySnapshot& handlers) {
  Tree tree;
  for (int i = 0; i < 6; ++i) {
    tree[fmt::format("array{}", i)] = Array::adopt(std::vector<float>(30 * kMemoryMiB / sizeof(float), 1.5F));
  }
  const Checkpointables items{{"item", tree}};
  const Context context;
  core::start_save(path, items, handlers, SaveOptions(), context).wait();
}

TEST_F(SaveMemory, OfTheDefaultBudgetFitsIntoASmallContainer) {
  const SmallGroup group(330 * kMemoryMiB);
  if (!group.exists()) {
    GTEST_SKIP() << "CAIRN_TEST_CGROUP names no control group in which one for memory can be made";
  }

  const auto grown = testing::peak_growth([&] {
    group.enter();
    save_much(directory_ / "step", handlers_);
  });

  EXPECT_TRUE(grown) << "it was killed, or failed";
}

std::size_t data_of_this_process() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) {
      return std::stoull(line.substr(7)) * 1024;
    }
  }
  return 0;
}

TEST_F(SaveMemory, OfTheDefaultBudgetFollowsTheLimitOfTheProcess) {
  const auto grown = testing::peak_growth([&] {
    // Of data that is written to: threads reserve much more addresses than that for their heaps.
    const rlim_t most = data_of_this_process() + 480 * kMemoryMiB;
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_DATA, &limit) != 0) {
      throw std::runtime_error("setrlimit");
    }
    save_much(directory_ / "step", handlers_);
  });

  ASSERT_TRUE(grown);
  EXPECT_LE(*grown, kOfReaders + (180 + 120) * kMemoryMiB + data_of_this_process() / 4);
}

TEST_F(ReaderMemory, OfLongHeadersIsTakenForAFewAtOnce) {
  constexpr std::size_t kHeader = 4 * kMemoryMiB;
  std::string text(8 + kHeader, ' ');
  for (std::size_t i = 0; i < 8; ++i) {
    text[i] = static_cast<char>(kHeader >> (8 * i));
  }
  text.replace(8, 2, "{}");
  std::filesystem::create_directory(directory_ / "model");
  testing::write_text(directory_ / "model/0.safetensors", text);
  for (int i = 1; i < 200; ++i) {
    std::filesystem::create_hard_link(directory_ / "model/0.safetensors",
                                      directory_ / fmt::format("model/{}.safetensors", i));
  }

  const auto grown = testing::peak_growth([&] {
    const rlim_t most = data_of_this_process() + 480 * kMemoryMiB;  // Of 800 MiB of headers.
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_DATA, &limit) != 0) {
      throw std::runtime_error("setrlimit");
    }
    ContextOptions options;
    options.open_files = 2;
    const Context context(options);
    static_cast<void>(core::start_load(directory_ / "model", {}, handlers_, LoadOptions(), context).wait());
  });

  EXPECT_TRUE(grown);
}

TEST(FewOpenFilesOfAFolder, AreEnoughForManyShards) {
  const testing::TempDir directory;
  write_foreign_folder(directory / "model", 600);
  ContextOptions options;
  options.open_files = 2;
  const Context context(options);

  Tree tree = core::start_load(directory / "model", {}, builtin_handlers(), LoadOptions(), context)
                  .wait()
                  .take<Tree>("state");

  EXPECT_EQ(tree.size(), 600u);
}

}  // namespace
}  // namespace cairn
