// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "cairn/handlers/tree_handler.hpp"

#include "handlers/store.hpp"
#include "support/sanitizer.hpp"

namespace cairn {
namespace {

class LargeTree : public testing::StoreTest {
 protected:
  static constexpr std::size_t kArrays = testing::kHasSanitizer ? 20'000 : 100'000;

  LargeTree() : values_(kArrays) {
    for (std::size_t i = 0; i < kArrays; ++i) {
      values_[i] = static_cast<float>(i);
      tree_["layer" + std::to_string(i / 100)]["w" + std::to_string(i % 100)] =
          ArrayView(&values_[i], {1}, DType::float32);
    }
  }

  std::vector<float> values_;
  Tree tree_;
};

TEST_F(LargeTree, ComesBackWhole) {
  auto saving = start(tree_);
  const auto result = saving.wait();
  RecordProperty("blocking_us", static_cast<int>(result.blocking_time.count() / 1000));

  EXPECT_EQ(load<Tree>(), tree_);
}

TEST_F(LargeTree, IsDescribedWithoutATree) {
  save(tree_);
  const AbstractTree described = metadata<AbstractTree>();
  const auto begin = std::chrono::steady_clock::now();
  std::size_t count = 0;
  for (const ArrayEntry& array : described.arrays()) {
    count += array.bytes == 4 ? 1 : 0;
  }
  const auto time = std::chrono::steady_clock::now() - begin;
  RecordProperty("iterate_us",
                 static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(time).count()));

  EXPECT_EQ(count, kArrays);
  EXPECT_TRUE(described.is_view());
}

TEST_F(LargeTree, IsComparedWithWhatIsWanted) {
  save(tree_);
  AbstractTree wanted = metadata<AbstractTree>();
  wanted["layer7"] = placeholder;

  const Tree loaded = load<Tree>({"item", wanted});

  EXPECT_EQ(loaded.size(), tree_.size() - 1);
}

}  // namespace
}  // namespace cairn
