// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"

#include "api/fixture.hpp"
#include "api/scripted.hpp"
#include "store/internal/manifest.hpp"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using testing::read_text;
using testing::write_text;

class DamagedCheckpoint : public testing::ApiTest {
 protected:
  DamagedCheckpoint() {
    const std::vector<float> weights(300'000, 1.0F);
    const std::vector<float> others(300'000, 2.0F);
    const nlohmann::json config = {{"width", 512}};
    save_items({{"config", config}, {"first", weights}, {"second", others}});
    for (const auto& entry : fs::recursive_directory_iterator(target())) {
      if (entry.is_regular_file()) {
        files_.push_back(entry.path());
      }
    }
  }

  /// Loads everything; returns what it says, or an empty text when it succeeds.
  [[nodiscard]] std::string complaint() const {
    try {
      static_cast<void>(load_items());
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  [[nodiscard]] fs::path data_of(const std::string& name) const {
    for (const fs::path& file : files_) {
      if (file.extension() == ".safetensors" && file.parent_path().filename() == name) {
        return file;
      }
    }
    return {};
  }

  std::vector<fs::path> files_;
};

TEST_F(DamagedCheckpoint, NamesEachFileWhoseBitIsFlipped) {
  for (const fs::path& file : files_) {
    const std::string text = read_text(file);
    std::string damaged = text;
    damaged[text.size() / 2] = static_cast<char>(damaged[text.size() / 2] ^ 4);
    write_text(file, damaged);
    EXPECT_THAT(complaint(), HasSubstr(file.string()));
    write_text(file, text);
  }
}

TEST_F(DamagedCheckpoint, NamesEachFileThatIsTruncated) {
  for (const fs::path& file : files_) {
    const std::string text = read_text(file);
    fs::resize_file(file, text.size() - 1);
    EXPECT_THAT(complaint(), HasSubstr(file.string()));
    write_text(file, text);
  }
}

TEST_F(DamagedCheckpoint, NamesEachFileThatIsMissing) {
  for (const fs::path& file : files_) {
    const std::string text = read_text(file);
    fs::remove(file);
    EXPECT_THAT(complaint(),
                AllOf(HasSubstr(file.parent_path().string()), HasSubstr(file.filename().string())));
    write_text(file, text);
  }
}

TEST_F(DamagedCheckpoint, NamesAFileThatWasSwappedWithOneOfTheSameSize) {
  ASSERT_EQ(fs::file_size(data_of("first")), fs::file_size(data_of("second")));
  fs::rename(data_of("first"), directory_ / "aside");
  fs::rename(data_of("second"), data_of("first"));
  fs::rename(directory_ / "aside", data_of("second"));

  EXPECT_THAT(complaint(), AllOf(HasSubstr("safetensors: chunk "), HasSubstr("checksum mismatch")));
}

TEST_F(DamagedCheckpoint, NamesTheChunk) {
  std::string text = read_text(data_of("first"));
  text[(1 << 20) + 9] ^= 1;
  write_text(data_of("first"), text);

  EXPECT_THAT(
      [&] { static_cast<void>(load_items({"first"})); },
      Fails(Errc::checksum_mismatch, AllOf(HasSubstr(data_of("first").string()), HasSubstr("chunk 1 "))));
}

TEST_F(DamagedCheckpoint, LoadsTheCheckpointablesThatAreSound) {
  fs::remove(data_of("first"));

  EXPECT_EQ(load_items({"second"}).take<std::vector<float>>("second").size(), 300'000u);
}

TEST_F(DamagedCheckpoint, OfALaterFormatIsRefusedAsSuch) {
  std::string text = read_text(target() / "checkpoint.json");
  const std::size_t at = text.find("\"version\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(text.find('1', at), 1, "2");
  store::CommitRecord record = store::decode_commit(read_text(target() / "COMMIT"), "COMMIT");
  record.manifest_bytes = text.size();
  record.manifest_hash = hash_text(text);
  write_text(target() / "checkpoint.json", text);
  write_text(target() / "COMMIT", store::encode_commit(record));

  EXPECT_THAT([&] { static_cast<void>(load_items()); },
              Fails(Errc::unsupported_version, HasSubstr("checkpoint.json")));
}

TEST_F(DamagedCheckpoint, ThatACrashLeftIsNoCheckpoint) {
  const fs::path temporary = directory_ / ".tmp-checkpoint-00112233-4455-4677-8899-aabbccddeeff";
  fs::rename(target(), temporary);

  EXPECT_THAT([&] { static_cast<void>(load_checkpointables(temporary, {}, {}, *context_)); },
              Fails(Errc::not_committed));
  EXPECT_THAT([&] { static_cast<void>(load_checkpointables(temporary / "first", {}, {}, *context_)); },
              Fails(Errc::not_committed));
}

TEST_F(DamagedCheckpoint, WithoutCommitIsNoCheckpoint) {
  fs::remove(target() / "COMMIT");

  EXPECT_THAT([&] { static_cast<void>(load_items()); },
              Fails(Errc::not_committed, HasSubstr(target().string())));
}

TEST_F(DamagedCheckpoint, AtAPathThatIsMissingIsNotFound) {
  EXPECT_THAT([&] { static_cast<void>(load(directory_ / "nothing", {}, *context_)); },
              Fails(Errc::not_found, HasSubstr("nothing")));
}

class ForeignHandler : public testing::ApiTest {
 protected:
  ForeignHandler() {
    ContextOptions options = small();
    options.registry.add<testing::ScriptedHandler>();
    save_checkpointables(target(), {{"script", testing::Script()}, {"model", tree_}},
                         Context(std::move(options)));
  }
};

TEST_F(ForeignHandler, IsNamedWithAllThatThereAreWhenItIsNotRegistered) {
  EXPECT_THAT(
      [&] { static_cast<void>(load_items()); },
      Fails(Errc::unknown_handler_id, AllOf(HasSubstr("'script'"), HasSubstr("test.scripted/1"),
                                            HasSubstr("cairn.tree/1"), HasSubstr("cairn.stateful/1"))));
}

TEST_F(ForeignHandler, DoesNotHideTheOthers) {
  EXPECT_EQ(load_items({"model"}).take<Tree>("model"), tree_);
}

TEST_F(ForeignHandler, IsAProblemInTheMetadata) {
  const CheckpointMetadata metadata = checkpointables_metadata(target(), *context_);

  EXPECT_THAT(metadata.at("script").problem, HasSubstr("test.scripted/1"));
  EXPECT_TRUE(metadata.at("model").problem.empty());
}

TEST_F(ForeignHandler, ReturnsNoValueOfAnotherType) {
  Loaded loaded = load_items({"model"});

  EXPECT_THAT([&] { static_cast<void>(loaded.take<nlohmann::json>("model")); },
              Fails(Errc::type_mismatch, AllOf(HasSubstr("'model'"), HasSubstr("Tree"))));
}

TEST_F(ForeignHandler, NamesTheCheckpointableWhoseTreeIsAnotherValue) {
  Loaded loaded = load_items({"model"});

  EXPECT_THAT([&] { static_cast<void>(loaded.take<int>("model")); },
              Fails(Errc::type_mismatch, HasSubstr("'model': the node is of kind map, not integer")));
}

}  // namespace
}  // namespace cairn
