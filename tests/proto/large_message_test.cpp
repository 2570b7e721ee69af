// SPDX-License-Identifier: Apache-2.0
// Messages above 2 GiB, which protobuf neither serialises nor parses, are saved, loaded, written and read in bounded
// memory.
//
// CAIRN_LARGE_MESSAGES=all: each kind of message, and each snapshot, from checkpoints and files; else the first alone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cairn/cairn.hpp"
#include "cairn/handlers/proto.hpp"
#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked_file.hpp"

#include "large.pb.h"
#include "support/peak_memory.hpp"
#include "support/temp_dir.hpp"

namespace cairn::proto {
namespace {

using cairn::test::large::Group;
using cairn::test::large::Part;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kSlackBytes = 64 * kMiB;
constexpr std::size_t kFilePageBytes = 64 * kMiB;
constexpr std::uint64_t kWantedMemoryMiB = 8192;
constexpr std::uint64_t kWantedForAllMiB = 12288;  // A map of 2.5 GB is there four times while it is read.

/// Bytes in which each page tells where it belongs.
std::string content_of(int number, std::size_t bytes) {
  std::string content(bytes, static_cast<char>('a' + number % 26));
  for (std::size_t at = 0; at + 32 < bytes; at += 4096) {
    const std::string mark = fmt::format("{}:{}", number, at);
    std::copy(mark.begin(), mark.end(), content.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return content;
}

void add_parts(Group& group, int parts) {
  for (int i = 0; i < parts; ++i) {
    Part& part = *group.add_parts();
    part.set_name(fmt::format("part {}", i));
    part.set_content(content_of(i, 31 * kMiB));
  }
}

/// 2.1 GiB in a child of a child: the sizes that protobuf keeps of both are wrong.
void fill_nested(Group& root) {
  root.set_name("root");
  root.mutable_child()->set_name("between");
  add_parts(*root.mutable_child()->mutable_child(), 70);
}

/// 3.1 GiB, with many small parts.
void fill_root(Group& root) {
  add_parts(root, 101);
  for (int i = 0; i < 100'000; ++i) {
    root.add_parts()->set_name(fmt::format("small part {}", i));
  }
}

/// 2.5 GB in a single string.
void fill_map(Group& root) {
  root.set_name("root");
  (*root.mutable_texts())["small"] = "text";
  (*root.mutable_texts())["large"] = content_of(0, 2'500'000'000);
  root.mutable_child()->set_name("child");
}

bool is_same(const Part& one, const Part& other) {
  return one.name() == other.name() && one.content() == other.content();
}

/// Field by field, for nothing of it is serialised.
bool is_same(const Group& one, const Group& other) {
  return one.name() == other.name() &&
         std::equal(one.parts().begin(), one.parts().end(), other.parts().begin(), other.parts().end(),
                    [](const Part& left, const Part& right) { return is_same(left, right); }) &&
         one.texts_size() == other.texts_size() &&
         std::all_of(one.texts().begin(), one.texts().end(),
                     [&](const auto& text) {
                       const auto found = other.texts().find(text.first);
                       return found != other.texts().end() && found->second == text.second;
                     }) &&
         one.has_child() == other.has_child() && (!one.has_child() || is_same(one.child(), other.child()));
}

void require_same(bool are_same) {
  if (!are_same) {
    throw std::runtime_error("another message is there");
  }
}

struct Scene {
  const char* name;
  void (*fill)(Group& root);
  std::size_t budget_bytes;
  std::vector<Snapshot> snapshots;
  const char* part;               ///< The path of one.
  std::size_t of_maps_bytes = 0;  ///< Bytes of the largest map, of which protobuf makes a list as well.
};

std::vector<Scene> scenes() {
  const std::vector<Snapshot> all = {Snapshot::copy, Snapshot::borrow, Snapshot::share};
  std::vector<Scene> some = {
      {"a child in two parents", &fill_nested, 256 * kMiB, {Snapshot::borrow}, "child.child.parts[69]"}};
  const char* wanted = std::getenv("CAIRN_LARGE_MESSAGES");
  if (wanted != nullptr && std::string_view(wanted) == "all") {
    some.push_back({"a root", &fill_root, 1024 * kMiB, all, "parts[100]"});
    some.push_back({"a string in a map", &fill_map, 256 * kMiB, all, "child", 2'500'000'000});
  }
  return some;
}

std::uint64_t available_mib() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("MemAvailable:")) {
      return std::stoull(line.substr(line.find(':') + 1)) / 1024;
    }
  }
  return 0;
}

class LargeMessage : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::uint64_t wanted = scenes().size() > 1 ? kWantedForAllMiB : kWantedMemoryMiB;
    if (available_mib() < wanted) {
      GTEST_SKIP() << "it takes " << wanted << " MiB of memory, and " << available_mib() << " are there";
    }
    if (const char* why = testing::why_no_peak_memory(); *why != '\0') {
      GTEST_SKIP() << why;
    }
  }

  [[nodiscard]] static Context context_of(const Scene& scene) {
    ContextOptions options;
    options.staging_bytes = scene.budget_bytes;
    options.registry.add<ProtoHandler>();
    return Context(std::move(options));
  }

  /// Does something in a process of its own, which may take so many bytes more than it has.
  static void within(std::size_t most_bytes, const char* what, const std::function<void()>& work) {
    const std::optional<std::size_t> growth = testing::peak_growth(work);
    ASSERT_TRUE(growth) << what;
    EXPECT_LE(*growth, most_bytes) << what;
    fmt::print("large: {}: {} MiB more, of {} MiB\n", what, *growth / kMiB, most_bytes / kMiB);
  }

  void save(const Scene& scene, const std::shared_ptr<Group>& message, Snapshot snapshot) const {
    within(scene.budget_bytes + scene.of_maps_bytes + kSlackBytes, "save", [&] {
      SaveOptions options;
      options.snapshot = snapshot;
      options.overwrite = true;
      const ProtoMessage value(message);
      save_checkpointables(target(), {{"message", value}}, options, context_of(scene));
    });
  }

  void load(const Scene& scene, const Group& message) const {
    within(message.SpaceUsedLong() + 2 * scene.of_maps_bytes + scene.budget_bytes + kSlackBytes, "load", [&] {
      Loaded loaded = load_checkpointables(target(), {{"message", abstract_message<Group>()}}, LoadOptions(),
                                           context_of(scene));
      require_same(is_same(loaded.take<Group>("message"), message));
    });
    within(scene.budget_bytes + kSlackBytes, "load of a part", [&] {
      const AbstractProto part = abstract_message<Group>().part(scene.part);
      Loaded loaded = load_checkpointables(target(), {{"message", part}}, LoadOptions(), context_of(scene));
      const auto read = loaded.take<ProtoMessage>("message");
      require_part(read.get(), message);
    });
  }

  void write_and_read(const Scene& scene, const Group& message) const {
    within(scene.of_maps_bytes + kFilePageBytes + kSlackBytes, "write", [&] {
      SplitOptions options;
      options.max_size = kFilePageBytes;
      static_cast<void>(AutoSplitter(message, options).write(prefix()));
    });
    within(message.SpaceUsedLong() + 2 * scene.of_maps_bytes + 8 * kFilePageBytes + kSlackBytes, "read", [&] {
      Group read_again;
      static_cast<void>(read(prefix(), read_again));
      require_same(is_same(read_again, message));
    });
    within(2 * kFilePageBytes + kSlackBytes, "read of a part", [&] {
      const Path path = parse_path(scene.part);
      MergeOptions options;
      options.parts_are_whole = true;
      if (std::string_view(scene.part) == "child") {
        Group part;
        static_cast<void>(read_part(prefix(), *Group::descriptor(), path, part, options));
        require_part(part, message);
      } else {
        Part part;
        static_cast<void>(read_part(prefix(), *Group::descriptor(), path, part, options));
        require_part(part, message);
      }
    });
  }

  [[nodiscard]] std::filesystem::path target() const { return folder_ / "checkpoint"; }
  [[nodiscard]] std::filesystem::path prefix() const { return folder_ / "message"; }

 private:
  static void require_part(const google::protobuf::Message& part, const Group& message) {
    if (const auto* group = dynamic_cast<const Group*>(&part)) {
      return require_same(is_same(*group, message.child()));
    }
    const Group& group = message.has_child() ? message.child().child() : message;
    const auto& found = dynamic_cast<const Part&>(part);
    require_same(std::any_of(group.parts().begin(), group.parts().end(),
                             [&](const Part& each) { return is_same(each, found); }));
  }

  const testing::TempDir folder_;
};

TEST_F(LargeMessage, IsSavedLoadedWrittenAndReadInBoundedMemory) {
  for (const Scene& scene : scenes()) {
    SCOPED_TRACE(scene.name);
    const auto message = std::make_shared<Group>();
    scene.fill(*message);
    ASSERT_GT(message->ByteSizeLong(), std::uint64_t{1} << 31);
    for (const Snapshot snapshot : scene.snapshots) {
      fmt::print("large: {}, snapshot {}\n", scene.name, static_cast<int>(snapshot));
      save(scene, message, snapshot);
      if (HasFailure()) {
        return;
      }
    }
    load(scene, *message);
    std::filesystem::remove_all(target());
    if (scenes().size() > 1) {
      write_and_read(scene, *message);
      std::filesystem::remove(prefix().string() + ".cpb");
    }
  }
}

}  // namespace
}  // namespace cairn::proto
