// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/chunked_file.hpp"

#include <system_error>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/records/record_options.hpp"
#include "cairn/records/record_writer.hpp"

#include "crash/fates.hpp"
#include "crash/simulated_machine.hpp"
#include "io/faulty_syscalls.hpp"
#include "proto/internal/chunked_file.hpp"
#include "shapes.pb.h"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"

namespace cairn::proto {
namespace {

using cairn::test::shapes::All;
using cairn::test::shapes::Leaf;
using crash::SimulatedDisk;
using crash::SimulatedMachine;
using crash::SimulatedProcess;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::list_tree;
using testing::TempDir;
using testing::write_text;

/// A message whose string has so many bytes, with a list and a child.
All message_of(std::size_t bytes) {
  All message;
  message.set_f_string(std::string(bytes, 'x'));
  for (int i = 0; i < 50; ++i) {
    message.add_r_all()->set_f_int32(i);
  }
  message.mutable_r_all(7)->set_f_bytes(std::string(200, 'y'));
  message.mutable_child()->mutable_f_leaf()->set_name("leaf");
  return message;
}

SplitOptions limit(std::uint64_t max_size) {
  SplitOptions options;
  options.max_size = max_size;
  return options;
}

Written write_cut(const All& message, const std::filesystem::path& prefix,
                  const char* records = "uncompressed") {
  WriteOptions options;
  options.records = records;
  AutoSplitter splitter(message, limit(100));
  return splitter.write(prefix, options);
}

All read_all(const std::filesystem::path& prefix, unsigned threads = 0) {
  MergeOptions options;
  options.threads = threads;
  All message;
  static_cast<void>(read(prefix, message, options));
  return message;
}

TEST(ChunkedFile, IsAWholeMessageWhereNothingWasCut) {
  const TempDir temp;
  const All message = message_of(100);

  const Written written = AutoSplitter(message).write(temp / "model");

  EXPECT_EQ(written.path, temp / "model.pb");
  EXPECT_EQ(written.bytes, message.ByteSizeLong());
  EXPECT_EQ(testing::read_text(temp / "model.pb"), message.SerializeAsString());
  EXPECT_EQ(read_all(temp / "model").SerializeAsString(), message.SerializeAsString());
}

TEST(ChunkedFile, HasChunksWhereAMessageWasCut) {
  const TempDir temp;
  const All message = message_of(1000);

  const Written written = write_cut(message, temp / "model");

  EXPECT_EQ(written.path, temp / "model.cpb");
  EXPECT_EQ(written.bytes, std::filesystem::file_size(temp / "model.cpb"));
  EXPECT_THAT(list_tree(temp.path()), ElementsAre("model.cpb"));
  const auto metadata = read_metadata(temp / "model");
  EXPECT_GT(metadata->chunks_size(), 4);
  EXPECT_EQ(metadata->version().splitter_version(), 1);
  EXPECT_EQ(metadata->version().join_version(), 0);
  for (const unsigned threads : {0U, 1U, 2U, 8U}) {
    EXPECT_EQ(read_all(temp / "model", threads).SerializeAsString(), message.SerializeAsString());
  }
}

TEST(ChunkedFile, IsReadFromEachCodec) {
  const All message = message_of(100'000);
  for (const char* options :
       {"uncompressed", "brotli:2", "zstd", "snappy", "zstd,chunk_size:50", "brotli,chunk_size:1000"}) {
    const records::Codec codec = [&] {
      const std::string text(options);
      return text.starts_with("brotli")   ? records::Codec::brotli
             : text.starts_with("zstd")   ? records::Codec::zstd
             : text.starts_with("snappy") ? records::Codec::snappy
                                          : records::Codec::none;
    }();
    if (!records::is_built_in(codec)) {
      continue;
    }
    const TempDir temp;
    write_cut(message, temp / "model", options);

    EXPECT_EQ(read_all(temp / "model", 3).SerializeAsString(), message.SerializeAsString()) << options;
  }
}

TEST(ChunkedFile, IsNotWrittenOfAMessageThatWasChangedSinceItWasSplit) {
  const TempDir temp;
  All message = message_of(1000);
  AutoSplitter splitter(message, limit(100));
  static_cast<void>(splitter.chunks());
  message.add_r_int32(1);  // No chunk has it.

  EXPECT_THAT([&] { splitter.write(temp / "model"); }, Fails(Errc::invalid_argument, HasSubstr("changed")));
  EXPECT_THAT([&] { static_cast<void>(splitter.write_to_string()); },
              Fails(Errc::invalid_argument, HasSubstr("changed")));
  EXPECT_THAT(list_tree(temp.path()), IsEmpty());
}

TEST(ChunkedFile, OfAnEmptyMessageIsEmpty) {
  const TempDir temp;
  EXPECT_EQ(AutoSplitter(All::default_instance()).write(temp / "model").bytes, 0U);
  EXPECT_EQ(read_all(temp / "model").ByteSizeLong(), 0U);
}

TEST(ChunkedFile, ReplacesTheOtherKind) {
  const TempDir temp;
  write_text(temp / "model.txt", "not ours");
  AutoSplitter(message_of(1)).write(temp / "model");

  write_cut(message_of(1000), temp / "model");
  EXPECT_THAT(list_tree(temp.path()), ElementsAre("model.cpb", "model.txt"));
  EXPECT_EQ(read_all(temp / "model").f_string().size(), 1000U);

  AutoSplitter(message_of(2)).write(temp / "model");
  EXPECT_THAT(list_tree(temp.path()), ElementsAre("model.pb", "model.txt"));
  EXPECT_EQ(read_all(temp / "model").f_string().size(), 2U);
}

TEST(ChunkedFile, ComesBeforeAWholeMessageBesideIt) {
  const TempDir temp;
  write_cut(message_of(1000), temp / "model");
  write_text(temp / "model.pb", "anything");
  All message;

  const Merged merged = read(temp / "model", message);

  EXPECT_EQ(message.f_string().size(), 1000U);
  EXPECT_THAT(merged.remarks, ElementsAre(HasSubstr("model.pb lies beside it and was not read")));
}

TEST(ChunkedFile, IsMadeWithItsDirectories) {
  const TempDir temp;
  AutoSplitter(message_of(1)).write(temp / "a/b/model");
  write_cut(message_of(1000), temp / "c/model");
  EXPECT_THAT(list_tree(temp.path()), ElementsAre("a", "a/b", "a/b/model.pb", "c", "c/model.cpb"));
}

TEST(ChunkedFile, IsReadBehindALink) {
  const TempDir temp;
  AutoSplitter(message_of(1)).write(temp / "whole");
  write_cut(message_of(1000), temp / "cut");
  std::filesystem::create_symlink(temp / "whole.pb", temp / "one.pb");
  std::filesystem::create_symlink(temp / "cut.cpb", temp / "two.cpb");

  EXPECT_EQ(read_all(temp / "one").f_string().size(), 1U);
  EXPECT_EQ(read_all(temp / "two").f_string().size(), 1000U);
}

TEST(ChunkedFile, IsARegularFile) {
  const TempDir temp;
  std::filesystem::create_symlink("/dev/zero", temp / "whole.pb");
  std::filesystem::create_symlink("/dev/zero", temp / "cut.cpb");
  std::filesystem::create_directory(temp / "directory.pb");

  for (const char* name : {"whole.pb", "cut.cpb", "directory.pb"}) {
    EXPECT_THAT([&] { read_all(temp / std::filesystem::path(name).stem().string()); },
                Fails(Errc::malformed_metadata, AllOf(HasSubstr(name), HasSubstr("is not a regular file"))));
  }
}

TEST(ChunkedFile, HasALastRecordThatNamesChunksWhereThereAreOthers) {
  const TempDir temp;
  records::RecordWriter one(temp / "one.cpb");
  one.write("");
  one.finish();
  records::RecordWriter two(temp / "two.cpb");
  two.write("a chunk");
  two.write("");
  two.finish();

  EXPECT_EQ(read_all(temp / "one").ByteSizeLong(), 0U);
  EXPECT_THAT([&] { read_all(temp / "two"); },
              Fails(Errc::malformed_metadata, AllOf(HasSubstr("two.cpb"), HasSubstr("it names none"))));
  EXPECT_THAT([&] { static_cast<void>(read_metadata(temp / "two")); },
              Fails(Errc::malformed_metadata, HasSubstr("two.cpb")));
}

TEST(ChunkedFile, RecordsTheVersionOfTheSplitter) {
  const TempDir temp;
  const All message = message_of(1000);
  SplitOptions options = limit(100);
  options.splitter_version = 7;

  AutoSplitter(message, options).write(temp / "model");

  EXPECT_EQ(read_metadata(temp / "model")->version().splitter_version(), 7);
  EXPECT_EQ(read_all(temp / "model").SerializeAsString(), message.SerializeAsString());
}

TEST(ChunkedFile, IsNamedWhenItIsNotThere) {
  const TempDir temp;
  for (const char* prefix : {"model", "no directory/model"}) {
    EXPECT_THAT([&] { read_all(temp / prefix); },
                Fails(Errc::not_found, AllOf(HasSubstr("model.cpb"), HasSubstr("model.pb is there"))));
  }
  EXPECT_THAT([&] { static_cast<void>(read_metadata(temp / "model")); },
              Fails(Errc::not_found, HasSubstr("model.cpb")));
}

TEST(ChunkedFile, ComesFromAndGoesToAString) {
  for (const std::uint64_t max_size : {std::uint64_t{100}, std::uint64_t{1} << 20}) {
    const All message = message_of(1000);
    AutoSplitter splitter(message, limit(max_size));

    const auto [bytes, is_cut] = splitter.write_to_string();
    All again;
    static_cast<void>(read_string(bytes, again));

    EXPECT_EQ(is_cut, max_size == 100);
    EXPECT_EQ(again.SerializeAsString(), message.SerializeAsString());
  }
}

TEST(ChunkedFile, GivesAPartAlone) {
  const TempDir temp;
  const All message = message_of(1000);
  write_cut(message, temp / "cut");
  AutoSplitter(message).write(temp / "whole");
  for (const char* prefix : {"cut", "whole"}) {
    const auto part = [&](const char* path, google::protobuf::Message& out, bool parts_are_whole = false) {
      MergeOptions options;
      options.parts_are_whole = parts_are_whole;
      static_cast<void>(read_part(temp / prefix, *All::descriptor(), parse_path(path), out, options));
    };
    All all;
    Leaf leaf;

    part("r_all[49]", all);
    EXPECT_EQ(all.f_int32(), 49);
    for (const bool parts_are_whole : {false, true}) {
      part("r_all[7]", all, parts_are_whole);
      EXPECT_EQ(all.SerializeAsString(), message.r_all(7).SerializeAsString());
    }
    part("child.f_leaf", leaf);
    EXPECT_EQ(leaf.name(), "leaf");
    EXPECT_THAT([&] { part("r_all[50]", all); }, Fails(Errc::not_found, HasSubstr("r_all[50]")));
    EXPECT_THAT([&] { part("r_all", all); }, Fails(Errc::invalid_argument));
  }
}

TEST(ChunkedFile, IsRefusedByNameWhenItIsNotRight) {
  const TempDir temp;
  write_text(temp / "text.pb", "\xff\xff");
  EXPECT_THAT([&] { read_all(temp / "text"); },
              Fails(Errc::malformed_metadata, HasSubstr("text.pb: chunk 0")));

  records::RecordWriter(temp / "empty.cpb").finish();
  EXPECT_THAT([&] { read_all(temp / "empty"); },
              Fails(Errc::malformed_metadata, HasSubstr("empty.cpb: the last record does not say")));

  records::RecordWriter writer(temp / "wrong.cpb");
  chunked::ChunkMetadata metadata;
  metadata.mutable_message()->set_chunk_index(0);
  chunked::ChunkInfo& info = *metadata.add_chunks();
  info.set_type(chunked::ChunkInfo::MESSAGE);
  info.set_size(3);
  info.set_offset(writer.write("ab"));
  writer.write(metadata.SerializeAsString());
  writer.finish();
  EXPECT_THAT(
      [&] { read_all(temp / "wrong"); },
      Fails(Errc::malformed_metadata, HasSubstr("wrong.cpb: chunk 0 has 2 bytes, and should have 3")));

  write_cut(message_of(1000), temp / "damaged");
  std::string bytes = testing::read_text(temp / "damaged.cpb");
  bytes[200] ^= 1;
  write_text(temp / "damaged.cpb", bytes);
  EXPECT_THAT([&] { read_all(temp / "damaged"); }, Fails(Errc::checksum_mismatch, HasSubstr("damaged.cpb")));
}

TEST(ChunkedFile, RefusesTreesOfAMillionLevels) {
  std::string tree;  // Its bytes in reverse.
  for (int i = 0; i < 1'000'000; ++i) {
    for (const char field : {'\x12', '\x1a'}) {  // A field in a message, and that in a field.
      std::string length;
      for (std::size_t left = tree.size(); left > 0 || length.empty(); left >>= 7) {
        length += static_cast<char>((left & 0x7F) | (left > 0x7F ? 0x80 : 0));
      }
      tree.append(length.rbegin(), length.rend());
      tree += field;
    }
  }
  std::string file;
  auto writer = records::RecordWriter::append_to(file);
  writer.write(std::string(tree.rbegin(), tree.rend()));
  writer.finish();
  All out;

  EXPECT_THAT([&] { read_string(file, out); },
              Fails(Errc::malformed_metadata, HasSubstr("does not say where chunks belong")));
}

TEST(ChunkedFile, IsTheOldOneOrTheNewOneWhateverFails) {
  const All old_message = message_of(1);
  const All new_message = message_of(1000);
  for (const bool was_cut : {false, true}) {
    for (const bool is_cut : {false, true}) {
      AutoSplitter old_splitter(old_message, limit(was_cut ? 100 : 1 << 20));
      AutoSplitter new_splitter(new_message, limit(is_cut ? 100 : 1 << 20));
      for (const io::Call call : io::kAllCalls) {
        for (int first = 1, hits = 1; hits > 0 && first < 100; ++first) {
          const TempDir temp;
          old_splitter.write(temp / "model");
          io::FaultySyscalls syscalls;
          syscalls.plan({call, first, 1, -EIO});
          bool is_done = false;
          try {
            static_cast<void>(write_message(syscalls, new_splitter.split(), temp / "model", WriteOptions()));
            is_done = true;
          } catch (const std::system_error& error) {
            EXPECT_EQ(error.code().value(), EIO) << error.what();
          }
          hits = syscalls.hits();
          const std::size_t there = read_all(temp / "model", 1).f_string().size();
          EXPECT_TRUE(there == 1000 || (there == 1 && !is_done)) << static_cast<int>(call) << " " << first;
        }
      }
    }
  }
}

// The n-th call of each kind fails: then the read says so, or the message is there, whole.
TEST(ChunkedFile, IsReadWholeOrNotAtAllWhateverFails) {
  const All written = message_of(1000);
  for (const bool is_cut : {false, true}) {
    const TempDir temp;
    AutoSplitter(written, limit(is_cut ? 100 : 1 << 20)).write(temp / "model");
    for (const io::Call call : io::kAllCalls) {
      for (int first = 1, hits = 1; hits > 0 && first < 200; ++first) {
        io::FaultySyscalls syscalls;
        syscalls.plan({call, first, 1, -EIO});
        MergeOptions options;
        options.threads = 1;
        All message;
        try {
          static_cast<void>(read_message(syscalls, temp / "model", message, options));
          EXPECT_EQ(message.SerializeAsString(), written.SerializeAsString())
              << static_cast<int>(call) << " " << first;
        } catch (const std::system_error& error) {
          EXPECT_EQ(error.code().value(), EIO) << error.what();
        }
        hits = syscalls.hits();
      }
    }
  }
}

constexpr const char* kPrefix = "/run/model";

/// How many bytes the string of the message has that lies on a disk; nothing where there is none, 0 of a damaged one.
std::optional<std::size_t> stored_on(SimulatedDisk disk) {
  SimulatedMachine machine(std::move(disk));
  SimulatedProcess process(machine);
  MergeOptions options;
  options.threads = 1;
  All message;
  try {
    static_cast<void>(read_message(process, kPrefix, message, options));
  } catch (const Error& error) {
    return error.code() == Errc::not_found ? std::nullopt : std::optional(std::size_t{0});
  }
  const std::size_t bytes = message.f_string().size();
  return message.SerializeAsString() == message_of(bytes).SerializeAsString() ? bytes : 0;
}

void write_on(SimulatedMachine& machine, const All& message, bool is_cut) {
  SimulatedProcess process(machine);
  AutoSplitter splitter(message, limit(is_cut ? 100 : 1 << 20));
  static_cast<void>(write_message(process, splitter.split(), kPrefix, WriteOptions()));
}

/// Calls `check` with the disk after each operation of a write, as it is there and as a power cut may leave it: each
/// set of the changes of names, and files that were not synced in four ways.
template <class Check>
std::size_t for_each_crash(const SimulatedMachine& machine, const Check& check) {
  std::size_t disks = 0;
  for (std::size_t i = 0; i < machine.moments().size(); ++i) {
    const crash::Moment& moment = machine.moments()[i];
    const bool is_end = i + 1 == machine.moments().size();
    check(moment.disk, is_end, moment.operation);
    const std::size_t names = moment.disk.pending_names();
    for (std::size_t set = 0; set < (std::size_t{1} << names); ++set) {
      std::vector<bool> kept(names);
      for (std::size_t name = 0; name < names; ++name) {
        kept[name] = (set >> name & 1) != 0;
      }
      using Kind = crash::UniformFate::Kind;
      for (const Kind kind : {Kind::lost, Kind::kept, Kind::hollow, Kind::garbage}) {
        crash::UniformFate fate(kind);
        check(moment.disk.after_power_cut(kept, fate), is_end, moment.operation);
        ++disks;
      }
    }
  }
  return disks;
}

/// A write over nothing (0), over a whole message (1), or over one in chunks (2).
struct CrashScene {
  int was = 0;
  bool is_cut = false;
};

/// Plays a write with a power cut after each of its operations. Returns how many disks there were, or calls `refuse`
/// with those on which neither the old message nor the new one is.
template <class Refuse>
std::size_t play(const CrashScene& scene, crash::Saboteur* saboteur, const Refuse& refuse) {
  SimulatedDisk disk;
  disk.make(crash::kRootInode, "run", io::FileKind::directory);
  disk.sync_all();
  SimulatedMachine machine(std::move(disk));
  if (scene.was > 0) {
    write_on(machine, message_of(1), scene.was == 2);
  }
  machine.disk().sync_all();
  machine.record();
  machine.saboteur = saboteur;
  write_on(machine, message_of(300), scene.is_cut);
  if (saboteur != nullptr) {
    saboteur->settle();
  }
  return for_each_crash(machine, [&](const SimulatedDisk& left, bool is_end, const std::string& operation) {
    const std::optional<std::size_t> found = stored_on(left);
    const bool is_old = scene.was > 0 ? found == std::size_t{1} : !found;
    if (found != std::size_t{300} && (!is_old || is_end)) {
      refuse(left, operation);
    }
    if (saboteur == nullptr) {
      SimulatedMachine next(left);
      write_on(next, message_of(2), !scene.is_cut);
      EXPECT_EQ(next.disk().node(*next.disk().find(crash::kRootInode, "run")).entries.size(), 1U)
          << operation;
    }
  });
}

TEST(ChunkedFileCrash, LeavesTheOldMessageOrTheNewOne) {
  for (const int was : {0, 1, 2}) {
    for (const bool is_cut : {false, true}) {
      SCOPED_TRACE(std::to_string(was) + (is_cut ? " cut" : " whole"));
      const std::size_t disks =
          play({was, is_cut}, nullptr, [](const SimulatedDisk& left, const std::string& operation) {
            ADD_FAILURE() << operation << '\n' << left.describe();
          });
      EXPECT_GT(disks, 30U);
    }
  }
}

using Match = std::function<bool(const crash::Operation&)>;

/// Leaves out what matches or, with `until`, does it only after that; says that it was done.
class Disorder final : public crash::Saboteur {
 public:
  Disorder(Match what, Match until) : what_(std::move(what)), until_(std::move(until)) {}

  int run(const crash::Operation& operation, std::function<int()> effect) override {
    if (is_over_) {
      settle();
      return effect();
    }
    is_over_ = until_ && until_(operation);
    if (!is_over_ && what_(operation)) {
      late_.push_back(std::move(effect));
      return 0;
    }
    return effect();  // The power may go before the rest is done.
  }

  void settle() override {
    for (const auto& each : std::exchange(late_, {})) {
      if (until_) {
        each();
      }
    }
  }

 private:
  Match what_;
  Match until_;  // Null: never.
  bool is_over_ = false;
  std::vector<std::function<int()>> late_;
};

Match change(crash::Change kind, std::string part_of_path) {
  return [kind, part = std::move(part_of_path)](const crash::Operation& operation) {
    return operation.change == kind && operation.path.find(part) != std::string::npos;
  };
}

/// The n-th sync of the directory.
Match directory_sync(int number) {
  return [number, seen = 0](const crash::Operation& operation) mutable {
    return operation.change == crash::Change::sync && operation.path == crash::kRunPath && ++seen == number;
  };
}

// The enumeration sees each break of the order.
TEST(ChunkedFileCrash, FindsWritesThatAreBroken) {
  using crash::Change;
  struct Broken {
    const char* how;
    CrashScene scene;
    Match what;
    Match until;
    bool is_seen = true;
  };
  const Match file_sync = change(Change::sync, ".tmp");
  const Match rename = change(Change::rename, ".tmp");
  const Match unlink = change(Change::unlink, "model");
  const std::vector<Broken> all = {
      {"the file is not synced", {0, true}, file_sync, {}},
      {"the file is synced after the rename", {2, true}, file_sync, rename},
      {"the directory is not synced", {0, false}, directory_sync(1), {}},
      {"the directory is not synced before the .pb goes", {1, true}, directory_sync(1), {}},
      {"the directory is not synced before the .cpb goes", {2, false}, directory_sync(1), {}},
      {"the new name comes when the .pb has gone", {1, true}, rename, unlink},
      {"the new name comes when the .cpb has gone", {2, false}, rename, unlink},
      {"the .cpb stays", {2, false}, unlink, {}},
      {"that the .cpb has gone is not synced", {2, false}, directory_sync(2), {}},
      {"the .pb stays: readers take the .cpb", {1, true}, unlink, {}, false},
      {"that the .pb has gone is not synced: readers take the .cpb", {1, true}, directory_sync(2), {}, false},
  };
  for (const Broken& broken : all) {
    Disorder disorder(broken.what, broken.until);
    std::size_t refused = 0;
    play(broken.scene, &disorder, [&](const SimulatedDisk&, const std::string&) { ++refused; });
    EXPECT_EQ(refused > 0, broken.is_seen) << broken.how;
  }
}

}  // namespace
}  // namespace cairn::proto
