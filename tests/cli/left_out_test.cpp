// SPDX-License-Identifier: Apache-2.0
// What is left out of files is named by whatever reads them: each layout by each exit. tests/tools/check_exits.py
// compares the lists below with the commands of the tool and with the public functions that take a path.
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "cairn/cairn.hpp"
#include "cairn/tools/diff.hpp"
#include "cairn/tools/export.hpp"
#include "cairn/tools/torch_export.hpp"

#include "cli/run_cli.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::run_cli;

/// What a command says of a source; it may write to the target.
using Exit = std::function<std::string(const fs::path& source, const fs::path& target)>;

std::string said(const std::vector<std::string>& words) {
  const testing::CliResult result = run_cli(words);
  return result.out + result.err;
}

LoadOptions leaving_out() {
  TreeLoadOptions of_trees;
  of_trees.leave_out = true;
  LoadOptions options;
  options.handler_options.set(of_trees);
  return options;
}

std::string described(const fs::path& source) {
  std::string text;
  for (const auto& [name, item] : checkpointables_metadata(source)) {
    const Description description = item.description();
    text += fmt::format("{}", fmt::join(description.problems, "\n"));
    for (const std::vector<DescribedValue>& values : {description.left_out, description.values}) {
      for (const DescribedValue& value : values) {
        text += fmt::format("\n{}: {}", value.name, value.kind);
      }
    }
  }
  return text;
}

ExportOptions all_but_what_has_no_place() {
  ExportOptions options;
  options.leave_out = true;
  return options;
}

std::string notes_of(const ExportPlan& plan) {
  return fmt::format("{} {}", fmt::join(plan.notes, "\n"), fmt::join(plan.left_out, "\n"));
}

const std::map<std::string, Exit>& exits() {
  static const std::map<std::string, Exit> kExits{
      // exits:begin
      {"ls",
       [](const fs::path& source, const fs::path&) {
         return said({"ls", source});
       }},
      {"inspect",
       [](const fs::path& source, const fs::path&) {
         return said({"inspect", source});
       }},
      {"verify",
       [](const fs::path& source, const fs::path&) {
         return said({"verify", source});
       }},
      {"diff",
       [](const fs::path& source, const fs::path&) {
         return said({"diff", source, source});
       }},
      {"export",
       [](const fs::path& source, const fs::path& target) {
         return said({"export", source, target, "--leave-out"});
       }},
      {"reshard",
       [](const fs::path& source, const fs::path& target) {
         return said({"reshard", source, target, "--one-file"});
       }},
      {"load_checkpointables",
       [](const fs::path& source, const fs::path&) {
         const Loaded loaded = load_checkpointables(source, {}, leaving_out());
         return fmt::format("{}", fmt::join(loaded.result().problems, "\n"));
       }},
      {"checkpointables_metadata", [](const fs::path& source, const fs::path&) { return described(source); }},
      {"export_arrays",
       [](const fs::path& source, const fs::path&) {
         return notes_of(plan_export(checkpointables_metadata(source), all_but_what_has_no_place()));
       }},
      {"write_torch_archive",
       [](const fs::path& source, const fs::path& target) {
         return notes_of(write_torch_archive(source, target, all_but_what_has_no_place()));
       }},
      {"write_torch_distributed",
       [](const fs::path& source, const fs::path& target) {
         return notes_of(write_torch_distributed(source, target, all_but_what_has_no_place()));
       }},
      {"diff_checkpoints",
       [](const fs::path& source, const fs::path&) {
         return fmt::format("{}", fmt::join(diff_checkpoints(source, source).notes, "\n"));
       }},
      // exits:end
  };
  return kExits;
}

// no exits:begin
// show, ArrayReader: they read what is asked for by its name, and say where that is not there.
// load, load_async, load_into, load_into_async, load_state, load_state_async, load_latest: as load_checkpointables.
// load_checkpointables_async, metadata, metadata_async: as those without it.
// recover, recover_async, prune, unrewind, agent, remove_checkpoint: they look at Cairn's own checkpoints.
// list_checkpoints, latest_checkpoint, is_checkpoint, is_checkpoint_async: they read no content.
// copy, copy_checkpoint, copy_checkpoint_async: a copy has every byte, of Cairn's own checkpoints.
// completion, manual: they print what the parser knows.
// write_torch_dist: as write_torch_distributed, of state dicts alone; tests/megatron/export_test.cpp.
// save, save_async, save_checkpointables, save_checkpointables_async: they read nothing.
// no exits:end

/// A layout, with something that is left out.
struct Case {
  std::string layout;
  fs::path source;
  std::string named;                             ///< What each exit says of it,
  std::map<std::string, std::string> otherwise;  ///< but for these.
};

class LeftOut : public ::testing::Test {
 protected:
  void expect_named(const Case& one) {
    for (const auto& [name, exit] : exits()) {
      const auto other = one.otherwise.find(name);
      const std::string& expected = other == one.otherwise.end() ? one.named : other->second;

      EXPECT_THAT(exit(one.source, folder_ / fmt::format("{}-of-{}", name, one.layout)), HasSubstr(expected))
          << one.layout << ", " << name;
    }
  }

  /// A copy that a test may add to.
  [[nodiscard]] fs::path copy_of(std::string_view path, const std::string& name) const {
    const fs::path copy = folder_ / name;
    fs::copy(testing::test_data() / path, copy, fs::copy_options::recursive);
    return copy;
  }

  testing::TempDir folder_;
};

TEST_F(LeftOut, OfAnArchiveOfTorchIsNamedByEveryExit) {
  expect_named({"archive", testing::test_data() / "torch_more/odd.pt", "a sparse tensor", {}});
}

TEST_F(LeftOut, OfADistributedCheckpointIsNamedByEveryExit) {
  expect_named({"distributed",
                testing::test_data() / "torch_more/odd_objects",
                "an integer of more than 64 bits",
                {{"ls", "objects are not looked into"},
                 {"export", "left out, not arrays: huge"},
                 {"export_arrays", "huge"},
                 {"checkpointables_metadata", "huge: object"}}});
}

TEST_F(LeftOut, OfATorchDistFolderIsNamedByEveryExit) {
  const fs::path folder = copy_of("torch_more/plain", "torch_dist");
  fs::copy(testing::test_data() / "torch_more/odd.pt", folder / "common.pt");

  expect_named({"torch_dist",
                folder,
                "a sparse tensor",
                {{"ls", "objects are not looked into"},
                 {"export", "left out, not arrays: common_state~1shard_0_1"},
                 {"export_arrays", "common_state~1shard_0_1"},
                 {"checkpointables_metadata", "common_state~1shard_0_1: object"}}});
}

TEST_F(LeftOut, OfAFolderOfHuggingFaceIsNamedByEveryExit) {
  const fs::path folder = copy_of("safetensors/hf_sharded", "hf");
  fs::copy(testing::test_data() / "safetensors/tiny.safetensors", folder / "model.safetensors");

  expect_named({"hugging_face", folder, "'model.safetensors' is read", {}});
}

TEST_F(LeftOut, OfSafetensorsByAnotherNameIsToldByEveryExit) {
  expect_named(
      {"safetensors", copy_of("safetensors/tiny.safetensors", "x.pt"), "it is a file of safetensors", {}});
}

TEST_F(LeftOut, OfACheckpointOfCairnIsNamedByTheExitsThatLeaveSomethingOut) {
  save(folder_ / "own", Tree{{"w", std::vector<float>{1, 2}}, {"step", 7}});

  expect_named(
      {"own", folder_ / "own", "", {{"export", "left out, not arrays: step"}, {"export_arrays", "step"}}});
}

}  // namespace
}  // namespace cairn::cli
