// SPDX-License-Identifier: Apache-2.0
#include "cairn/tools/export.hpp"

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/cairn.hpp"

#include "support/fails.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"
#include "tool_library/numbered.hpp"

namespace cairn {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using testing::numbered;

TEST(PlanExport, SaysWhatWouldBeWrittenAndWritesNothing) {
  const testing::TempDir folder;
  save(folder / "x", Tree{{"a", numbered({4})}, {"b", {{"c", numbered({5})}}}, {"step", 7}});
  ExportOptions options;
  options.separator = ".";
  options.is_folder = true;
  options.max_file_bytes = 20;

  const ExportPlan plan = plan_export(checkpointables_metadata(folder / "x"), options);

  EXPECT_EQ(plan.checkpointable, "state");
  ASSERT_EQ(plan.arrays.size(), 2u);
  EXPECT_EQ(plan.arrays[1].path, "b/c");
  EXPECT_EQ(plan.arrays[1].name, "b.c");
  EXPECT_THAT(plan.left_out, ElementsAre("step"));
  ASSERT_EQ(plan.files.size(), 2u);
  EXPECT_EQ(plan.files[1].name, "model-00002-of-00002.safetensors");
  EXPECT_EQ(plan.files[1].first_array, 1u);
  EXPECT_EQ(plan.files[1].bytes, 4096u + 20);
}

TEST(PlanExport, RefusesToLeaveOutWhatHasNoPlaceUnlessToldTo) {
  const CheckpointMetadata metadata = checkpointables_metadata(testing::test_data() / "torch_more/odd.pt");
  ExportOptions options;

  EXPECT_THAT([&] { static_cast<void>(plan_export(metadata, options)); },
              Fails(Errc::structure_mismatch, HasSubstr("'sparse' (a sparse tensor)")));
  options.leave_out = true;
  const ExportPlan plan = plan_export(metadata, options);

  EXPECT_EQ(plan.arrays.size(), 3u);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("'sparse': a sparse tensor has no place")));
}

TEST(PlanExport, SaysHowToCallAnArrayWhoseNameSafetensorsKeeps) {
  const testing::TempDir folder;
  save(folder / "x", Tree{{"__metadata__", numbered({4})}, {"b", numbered({5})}});
  const CheckpointMetadata metadata = checkpointables_metadata(folder / "x");
  ExportOptions options;

  EXPECT_THAT([&] { static_cast<void>(plan_export(metadata, options)); },
              Fails(Errc::invalid_argument, HasSubstr("--rename '__metadata__=")));
  options.rename = Renames({{"__metadata__", "metadata"}});

  EXPECT_EQ(plan_export(metadata, options).arrays.front().name, "metadata");
}

TEST(ExportArrays, WritesWhatOtherProgramsRead) {
  const testing::TempDir folder;
  const Tree tree{{"a", numbered({4})}, {"c", numbered({5})}};
  save(folder / "x", tree);

  const ExportPlan plan = export_arrays(folder / "x", folder / "out.safetensors");

  ASSERT_EQ(plan.files.size(), 1u);
  EXPECT_EQ(plan.files[0].name, "out.safetensors");
  EXPECT_EQ(plan.files[0].bytes, std::filesystem::file_size(folder / "out.safetensors"));
  EXPECT_EQ(load(folder / "out.safetensors"), tree);
}

TEST(ExportArrays, LeavesNothingOfADamagedCheckpoint) {
  const testing::TempDir folder;
  save(folder / "x", Tree{{"a", numbered({4})}});
  testing::damage_data(folder / "x");
  const std::vector<std::string> before = testing::list_tree(folder.path());

  EXPECT_THAT([&] { export_arrays(folder / "x", folder / "out"); },
              Fails(Errc::checksum_mismatch, HasSubstr("safetensors")));

  EXPECT_EQ(testing::list_tree(folder.path()), before);
}

TEST(ExportArrays, TellsHowFarItIs) {
  const testing::TempDir folder;
  save(folder / "x", Tree{{"a", numbered({4})}, {"b", numbered({5})}});
  ExportOptions options;
  std::vector<std::uint64_t> told;
  std::uint64_t total = 0;
  options.progress = [&](std::uint64_t done_bytes, std::uint64_t total_bytes) {
    EXPECT_FALSE(std::filesystem::exists(folder / "out.safetensors"));
    told.push_back(done_bytes);
    total = total_bytes;
  };

  const ExportPlan plan = export_arrays(folder / "x", folder / "out.safetensors", options);

  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back(), total);
  EXPECT_EQ(total, plan.arrays[0].bytes + plan.arrays[1].bytes);
}

TEST(ExportArrays, LeavesNothingWhenItIsStopped) {
  const testing::TempDir folder;
  save(folder / "x", Tree{{"a", numbered({4})}});
  ExportOptions options;
  options.progress = [](std::uint64_t /*done_bytes*/, std::uint64_t /*total_bytes*/) {
    throw std::runtime_error("stop");
  };

  for (const bool is_folder : {false, true}) {
    options.is_folder = is_folder;
    EXPECT_THROW(export_arrays(folder / "x", folder / "out", options), std::runtime_error);
  }

  const auto begin = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin, std::filesystem::directory_iterator()), 1) << "only the checkpoint is there";
}

}  // namespace
}  // namespace cairn
