// SPDX-License-Identifier: Apache-2.0
// Files of torch cut at every length and with every byte flipped, of which one in sixteen is taken (see sampling.hpp),
// read to the last element: an Error or arrays, and nothing else.
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/base/error.hpp"

#include "array_store/index_of.hpp"
#include "array_store/internal/reader.hpp"
#include "array_store/memory_files.hpp"
#include "formats/internal/zstd.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::array_store {
namespace {

using testing::MemoryFiles;

constexpr std::size_t kMostBytes = 8192;
constexpr std::uint64_t kOneIn = testing::kHasSanitizer ? 256 : 16;

/// Reads all arrays; returns how many, or nothing where an Error says why not.
std::size_t read_all(const std::shared_ptr<const MemoryFiles>& files) {
  try {
    const auto layout = find_layout(files->names(), {});
    OpenOptions options;
    options.layout = layout;
    formats::Index index = testing::run(open_index(files, options));
    std::vector<WantedArray> wanted = testing::all_of(index);
    index = testing::run(locate_wanted(files, layout, index, wanted, ReadOptions()));
    ReadPlan plan = plan_read(index, wanted, ReadOptions(), *files);
    testing::run(read(files, std::move(plan.pieces)));
    return plan.arrays.size();
  } catch (const Error& error) {
    EXPECT_NE(error.code(), Errc::handler_failed) << error.what();
    return 0;
  }
}

/// A file or folder of fixtures.
class DamagedForeignFiles : public ::testing::TestWithParam<const char*> {
 protected:
  DamagedForeignFiles() {
    const auto path = testing::test_data() / GetParam();
    if (!std::filesystem::is_directory(path)) {
      files_->texts[path.filename().string()] = testing::read_text(path);
      return;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      files_->texts[entry.path().filename().string()] = testing::read_text(entry.path());
    }
  }

  const std::shared_ptr<MemoryFiles> files_ = std::make_shared<MemoryFiles>();
};

TEST_P(DamagedForeignFiles, AreAnErrorOrArrays) {
  if (GetParam() == std::string("torch_more/zstd") && !formats::can_read_zstd()) {
    GTEST_SKIP() << "without zstd";
  }
  ASSERT_GT(read_all(files_), 0U);
  const testing::Sample sample(kOneIn);
  std::size_t tried = 0;
  std::size_t refused = 0;
  for (auto& [name, text] : files_->texts) {
    const bool is_metadata = name.ends_with(".metadata");
    if (!is_metadata && (text.size() > kMostBytes || name.ends_with(".json"))) {
      continue;
    }
    const std::string whole = text;
    for (std::size_t at = 0; at < whole.size(); ++at) {
      if (sample.takes(at)) {
        text = whole.substr(0, at);
        refused += read_all(files_) == 0 ? 1 : 0;
        text = whole;
        text[at] = static_cast<char>(text[at] ^ (1 << at % 8));
        refused += read_all(files_) == 0 ? 1 : 0;
        tried += 2;
      }
    }
    text = whole;
  }
  EXPECT_GT(refused, 0U);
  fmt::print("damage: {}: {} tried, {} refused (seed {})\n", GetParam(), tried, refused, testing::seed());
}

INSTANTIATE_TEST_SUITE_P(
    All, DamagedForeignFiles,
    ::testing::Values("torch/state_dict.pt", "torch_more/dtypes.pt", "torch_more/views.pt",
                      "torch_more/big_endian.pt", "torch_more/objects.pt", "torch_more/odd.pt",
                      "torch_more/no_crc.pt", "torch/dcp", "torch_more/per_rank", "torch_more/zstd",
                      "torch_more/plain", "torch_more/fsdp2", "megatron/tp2_pp2", "megatron/flat_tp2_dp3"),
    [](const auto& test) {
      std::string name;
      for (const char c : std::string(test.param)) {
        name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? std::string(1, c) : "";
      }
      return name;
    });

}  // namespace
}  // namespace cairn::array_store
