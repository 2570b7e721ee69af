// SPDX-License-Identifier: Apache-2.0
// The tool and the files of other programs: tests/data/torch, torch_more and megatron.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"

#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::CliResult;
using ::testing::HasSubstr;
using testing::read_text;
using testing::run_cli;
using testing::write_text;

class CliForeign : public ::testing::Test {
 protected:
  static std::string data(std::string_view path) { return (testing::test_data() / path).string(); }

  static json ask(std::vector<std::string> words) {
    words.emplace_back("--json");
    const CliResult result = run_cli(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out);
  }

  /// A copy of a folder or file that a test may change.
  [[nodiscard]] fs::path copy_of(std::string_view path) const {
    const fs::path copy = folder_.path() / fs::path(path).filename();
    fs::copy(data(path), copy, fs::copy_options::recursive);
    return copy;
  }

  /// Flips a bit of the first storage, and one of a member that no load reads.
  static void damage(const fs::path& file) {
    std::string bytes = read_text(file);
    for (const char* member : {"/data/0", "/.data/serialization_id"}) {
      const std::size_t behind = bytes.find(std::string("PK\x07\x08", 4), bytes.find(member));
      ASSERT_NE(behind, std::string::npos);
      bytes[behind - 1] = static_cast<char>(bytes[behind - 1] ^ 1);
    }
    write_text(file, bytes);
  }

  testing::TempDir folder_;
};

TEST_F(CliForeign, LsListsFilesAndFoldersOfOtherPrograms) {
  fs::create_directory(folder_ / "run");
  fs::copy(data("torch/state_dict.pt"), folder_ / "run" / "a.pt");
  fs::copy(data("torch/state_dict.pt"), folder_ / "run" / "b.pt");
  fs::copy(data("torch/dcp"), folder_ / "run" / "iter_10");

  const CliResult result = run_cli({"ls", folder_ / "run"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("a.pt        torch.archive"), HasSubstr("iter_10     torch.distributed"),
                    HasSubstr("0 checkpoints, 3 of other programs")));
  const json listed = ask({"ls", folder_ / "run"});
  EXPECT_EQ(listed["foreign"].size(), 3U);
  EXPECT_EQ(listed["foreign"][0]["name"], "a.pt");
  EXPECT_EQ(listed["foreign"][0]["bytes"], fs::file_size(data("torch/state_dict.pt")));
  EXPECT_EQ(listed["foreign"][2]["layout"], "torch.distributed");
}

TEST_F(CliForeign, LsDescribesADistributedCheckpoint) {
  const json described = ask({"ls", data("torch/dcp")});

  EXPECT_EQ(described["checkpointables"]["state"]["array_count"], 5);
  EXPECT_THAT(run_cli({"ls", data("torch/dcp")}).out, HasSubstr("another program (torch.distributed)"));
}

TEST_F(CliForeign, InspectNamesWhatHasNoPlaceInATree) {
  EXPECT_THAT(run_cli({"inspect", data("torch_more/odd.pt")}).out,
              AllOf(HasSubstr("tree (torch.archive)"), HasSubstr("a sparse tensor"),
                    HasSubstr("'collections.deque'")));
  const json described = ask({"inspect", data("torch_more/odd.pt")})["checkpointables"]["state"];
  EXPECT_EQ(described["layout"], "torch.archive");
  EXPECT_EQ(described["left_out"][0]["why"], "a sparse tensor");
}

TEST_F(CliForeign, InspectHasNoValueForAnObjectWithoutAPlace) {
  const json described = ask({"inspect", data("torch_more/odd_objects")})["checkpointables"]["state"];

  const auto is_huge = [](const json& one) { return one["name"] == "huge"; };
  EXPECT_TRUE(std::none_of(described["values"].begin(), described["values"].end(), is_huge));
  EXPECT_TRUE(std::any_of(described["left_out"].begin(), described["left_out"].end(), is_huge));
}

TEST_F(CliForeign, VerifyComparesAllMembersOfAnArchive) {
  const CliResult result = run_cli({"verify", data("torch/state_dict.pt")});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("12 members of archives and "));
  EXPECT_THAT(result.out, HasSubstr("every byte of them is as it was written"));
}

TEST_F(CliForeign, VerifyNamesTheMembersThatWereChanged) {
  const fs::path file = copy_of("torch/state_dict.pt");
  damage(file);

  const CliResult result = run_cli({"verify", file});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr(file.string() + ": bytes ["), HasSubstr("member 'state_dict/data/0'"),
                    HasSubstr("serialization_id'"), HasSubstr("2 problems found")));
  EXPECT_THAT(result.err, HasSubstr("its CRC-32 is another"));
}

TEST_F(CliForeign, VerifyNamesAChunkOfADistributedCheckpointThatWasChanged) {
  const fs::path folder = copy_of("torch/dcp");
  damage(folder / "__0_0.distcp");

  const CliResult result = run_cli({"verify", folder});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("__0_0.distcp: bytes ["), HasSubstr("member 'archive/data/0'"),
                                HasSubstr("2 problems found")));
}

TEST_F(CliForeign, VerifySaysWhatHasNoSums) {
  EXPECT_THAT(run_cli({"verify", data("torch_more/no_crc.pt")}).out,
              HasSubstr("headers are valid; 411 B of data have no checksums to verify"));
  EXPECT_THAT(run_cli({"verify", data("torch_more/zstd")}).out,
              HasSubstr("KiB of data have no checksums to verify (.metadata)"));
  const json answer = ask({"verify", data("torch/dcp")});
  EXPECT_EQ(answer["has_checksums"], true);
  EXPECT_EQ(answer["unchecked_bytes"], fs::file_size(data("torch/dcp") + "/.metadata"));
  EXPECT_EQ(answer["unchecked_files"], json::array({".metadata"}));
  EXPECT_EQ(ask({"verify", data("safetensors/tiny.safetensors")})["has_checksums"], false);
}

TEST_F(CliForeign, VerifyFindsAChunkThatNoLoadCanDecode) {
  const fs::path folder = copy_of("torch_more/zstd");
  const std::string magic = "\x28\xb5\x2f\xfd";  // Of each frame.
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    std::string bytes = read_text(file.path());
    if (const std::size_t at = bytes.find(magic); at != std::string::npos) {
      bytes[at] = '\0';
      write_text(file.path(), bytes);
    }
  }

  const CliResult result = run_cli({"verify", folder});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr(".distcp"));
}

TEST_F(CliForeign, VerifyFindsFilesThatAreShort) {
  const fs::path folder = copy_of("torch/dcp");
  fs::resize_file(folder / "__0_0.distcp", 2000);
  const CliResult result = run_cli({"verify", folder});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("__0_0.distcp"));
}

TEST_F(CliForeign, VerifyFindsChunksOfAnotherCheckpoint) {
  const fs::path folder = copy_of("torch/dcp");
  std::string text = read_text(folder / "__1_0.distcp");
  for (std::size_t at = text.find("FloatStorage"); at != std::string::npos;
       at = text.find("FloatStorage", at)) {
    text.replace(at, 12, "IntStorage\n)");  // Whatever it is now, it is not what was described.
  }
  write_text(folder / "__1_0.distcp", text);

  const CliResult result = run_cli({"verify", folder});

  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("__1_0.distcp"), HasSubstr("more problems")));
}

TEST_F(CliForeign, ReshardMakesACheckpointOfThem) {
  for (const char* files :
       {"torch/state_dict.pt", "torch_more/training.pt", "torch/dcp", "torch_more/plain"}) {
    const fs::path target = folder_.path() / fs::path(files).stem();
    const CliResult result = run_cli({"reshard", data(files), target, "--parts", "2"});
    ASSERT_EQ(result.status, 0) << files << result.err;

    TreeLoadOptions of_trees;
    of_trees.leave_out = true;
    LoadOptions options;
    options.handler_options.set(of_trees);
    EXPECT_EQ(load(target), load(data(files), options)) << files;
    EXPECT_EQ(run_cli({"verify", target}).status, 0);
    const json manifest = json::parse(read_text(target / "checkpoint.json"));
    EXPECT_EQ(manifest["annotations"]["cairn.made_of"]["path"], data(files));
    EXPECT_THAT(manifest["annotations"]["cairn.made_of"]["layout"].get<std::string>(), HasSubstr("torch."));
  }
}

TEST_F(CliForeign, ExportRefusesToLeaveOutWhatHasNoPlaceUnlessToldTo) {
  const fs::path target = folder_ / "odd.safetensors";

  const CliResult refused = run_cli({"export", data("torch_more/odd.pt"), target});

  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("odd.pt: 'sparse' (a sparse tensor), "), HasSubstr("--leave-out")));
  EXPECT_FALSE(fs::exists(target));
  const CliResult done = run_cli({"export", data("torch_more/odd.pt"), target, "--leave-out"});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("note: 'sparse': a sparse tensor has no place in a tree, and is left out"));
  EXPECT_EQ(load(target).as_map().size(), 3U);
  const json answer = ask({"export", data("torch_more/odd.pt"), folder_ / "2", "--leave-out"});
  EXPECT_EQ(answer["notes"].size(), 9U);
}

TEST_F(CliForeign, ObjectsAreTrees) {
  const std::string folder = data("megatron/flat_tp2_dp3");
  EXPECT_THAT(run_cli({"inspect", folder}).out, HasSubstr("common_state/shard_0_1/step"));
  EXPECT_THAT(run_cli({"show", folder, "common_state/shard_0_1/step"}).out, HasSubstr("17"));
  const CliResult whole = run_cli({"show", folder, "common_state/shard_0_1"});
  EXPECT_EQ(whole.status, 1);
  EXPECT_THAT(whole.err, AllOf(HasSubstr("is a subtree"), HasSubstr("common_state/shard_0_1/")));

  ASSERT_EQ(run_cli({"reshard", folder, folder_ / "1", "--parts", "2"}).status, 0);

  EXPECT_THAT(run_cli({"inspect", folder_ / "1"}).out, HasSubstr("common_state~1shard_0_1/step"));
  EXPECT_EQ(run_cli({"diff", folder, folder_ / "1"}).status, 0);
}

TEST_F(CliForeign, ReshardNamesWhatItLeavesOut) {
  const CliResult result = run_cli({"reshard", data("torch_more/odd.pt"), folder_ / "odd", "--one-file"});

  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("left out: 'sparse': a sparse tensor"));
}

TEST_F(CliForeign, ReshardStillRefusesPartsOfACheckpoint) {
  ASSERT_EQ(run_cli({"reshard", data("torch/state_dict.pt"), folder_ / "1", "--one-file"}).status, 0);

  const CliResult result = run_cli({"reshard", folder_ / "1" / "state", folder_ / "2", "--one-file"});

  EXPECT_EQ(result.status, 1);
  EXPECT_FALSE(fs::exists(folder_ / "2"));
}

TEST_F(CliForeign, ALayoutIsForcedByItsName) {
  // Its name says nothing of what it is.
  fs::create_directory(folder_ / "named");
  const fs::path file = folder_ / "named" / "weights.dat";
  fs::copy(data("torch/state_dict.pt"), file);

  EXPECT_EQ(run_cli({"ls", file}).status, 1);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"ls", file},
                                             {"inspect", file, "--stats"},
                                             {"show", file, "model/layer.weight"},
                                             {"verify", file},
                                             {"diff", file, data("torch/state_dict.pt")},
                                             {"export", file, folder_ / "out.safetensors"},
                                             {"reshard", file, folder_ / "resharded", "--one-file"}}) {
    std::vector<std::string> with_layout = words;
    with_layout.insert(with_layout.end(), {"--layout", "torch.archive"});
    const CliResult result = run_cli(with_layout);
    EXPECT_EQ(result.status, 0) << words.front() << ": " << result.err << result.out;
  }
  EXPECT_THAT(run_cli({"ls", file, "--layout", "pickle"}).err, HasSubstr("no layout is called 'pickle'"));
}

}  // namespace
}  // namespace cairn::cli
