// SPDX-License-Identifier: Apache-2.0
// Files of torch that are cut or changed, read to the last element: an Error or arrays, and nothing else.
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/array_store/reader.hpp"
#include "cairn/base/error.hpp"

#include "array_store/index_of.hpp"
#include "array_store/memory_files.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn::array_store {
namespace {

using testing::MemoryFiles;

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

class DamagedForeignFiles : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(DamagedForeignFiles, AreAnErrorOrArrays) {
  const auto path = testing::test_data() / GetParam().first;
  const auto files = std::make_shared<MemoryFiles>();
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      files->texts[entry.path().filename().string()] = testing::read_text(entry.path());
    }
  } else {
    files->texts[path.filename().string()] = testing::read_text(path);
  }
  const std::size_t arrays = read_all(files);
  ASSERT_GT(arrays, 0U);
  std::string& text = files->texts.at(GetParam().second);
  const std::string whole = text;
  std::size_t refused = 0;
  for (std::size_t end = 0; end < whole.size(); end += 13) {
    text = whole.substr(0, end);
    refused += read_all(files) == 0 ? 1 : 0;
  }
  EXPECT_GT(refused, 0U);
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    text = whole;
    text[at] = static_cast<char>(text[at] ^ (1 << at % 8));
    static_cast<void>(read_all(files));
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedForeignFiles,
                         ::testing::Values(std::pair("torch/state_dict.pt", "state_dict.pt"),
                                           std::pair("torch_more/views.pt", "views.pt"),
                                           std::pair("torch_more/big_endian.pt", "big_endian.pt"),
                                           std::pair("torch/dcp", ".metadata"),
                                           std::pair("torch/dcp", "__0_0.distcp"),
                                           std::pair("megatron/flat_tp2_dp3", "__1_1.distcp")),
                         [](const auto& test) {
                           std::string name;
                           for (const char c : std::string(test.param.first) + test.param.second) {
                             name +=
                                 std::isalnum(static_cast<unsigned char>(c)) != 0 ? std::string(1, c) : "";
                           }
                           return name;
                         });

}  // namespace
}  // namespace cairn::array_store
