// SPDX-License-Identifier: Apache-2.0
// How much staging memory a save of many small files takes.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"

#include "api/fixture.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMebi = std::size_t{1} << 20;
constexpr std::size_t kSmallFiles = 300;

/// Those below 4 MiB count as multiples of 64 KiB; and 8 MiB for each of two workers.
constexpr std::size_t kMostPoolBytes = kSmallFiles * (kMebi / 16) + 2 * 8 * kMebi;

/// A file for each array.
class OneEach final : public ShardingPolicy {
 public:
  [[nodiscard]] std::string description() const override { return "a file for each array"; }
  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override {
    std::vector<FilePlan> files(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      files[i].push_back({i, {}, {}});
    }
    return files;
  }
};

class SmallFiles : public testing::ApiTest {
 protected:
  static ContextOptions with_room() {
    ContextOptions options = small();
    options.staging_bytes = 4096 * kMebi;
    return options;
  }

  SmallFiles() : ApiTest(with_room()) {}

  [[nodiscard]] std::size_t peak_of_save(const Checkpointables& items,
                                         const SaveOptions& options = {}) const {
    return save_checkpointables_async(target(), items, options, *context_).wait().pool.peak_bytes;
  }
};

TEST_F(SmallFiles, OfManyCheckpointablesShareStagingMemory) {
  Checkpointables items;
  for (std::size_t i = 0; i < kSmallFiles; ++i) {
    items.emplace_back("item" + std::to_string(i), Array::zeros({4}, DType::float32));
  }

  EXPECT_LE(peak_of_save(items), kMostPoolBytes);
}

TEST_F(SmallFiles, OfAPolicyShareStagingMemory) {
  Tree tree = {{"a0", Array::zeros({4}, DType::float32)}};
  for (std::size_t i = 1; i < kSmallFiles; ++i) {
    tree["a" + std::to_string(i)] = Array::zeros({4}, DType::float32);
  }
  SaveOptions options;
  options.handler_options.set(ShardingOptions(std::make_shared<OneEach>()));

  EXPECT_LE(peak_of_save({{"tree", tree}}, options), kMostPoolBytes);
}

}  // namespace
}  // namespace cairn
