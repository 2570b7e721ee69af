// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"

#include "api/fixture.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

class SnapshotModes : public testing::ApiTest {
 protected:
  static std::vector<std::int32_t> counted(std::size_t size) {
    std::vector<std::int32_t> values(size);
    std::iota(values.begin(), values.end(), 0);
    return values;
  }
};

TEST_F(SnapshotModes, CopyKeepsTreesAsTheyWere) {
  std::vector<std::int32_t> values = counted(1 << 20);
  Tree tree = {{"values", values}, {"step", 1}};
  const AsyncResponse response = save_async(target(), tree, {}, *context_);

  std::fill(values.begin(), values.end(), -1);
  tree["step"] = 2;
  response.wait();

  const Tree loaded = load(target(), {}, *context_);
  EXPECT_EQ(loaded.get<std::vector<std::int32_t>>("values"), counted(1 << 20));
  EXPECT_EQ(loaded.get<int>("step"), 1);
}

TEST_F(SnapshotModes, CopyKeepsDocumentsAsTheyWere) {
  nlohmann::json document = {{"step", 1}};
  const AsyncResponse response = save_checkpointables_async(target(), {{"config", document}}, *context_);

  document["step"] = 2;
  response.wait();

  EXPECT_EQ(load_items().take<nlohmann::json>("config"), nlohmann::json({{"step", 1}}));
}

TEST_F(SnapshotModes, BorrowSavesWhatTheCallerKeeps) {
  const std::vector<std::int32_t> values = counted(1 << 20);
  const Tree tree = {{"values", values}};
  SaveOptions options;
  options.snapshot = Snapshot::borrow;

  save(target(), tree, options, *context_);

  EXPECT_EQ(load(target(), {}, *context_).get<std::vector<std::int32_t>>("values"), values);
}

TEST_F(SnapshotModes, ShareKeepsArraysAliveThatTheCallerDrops) {
  std::optional<Tree> tree = Tree{{"values", Array::adopt(counted(1 << 20))}};
  SaveOptions options;
  options.snapshot = Snapshot::share;
  const AsyncResponse response = save_async(target(), *tree, options, *context_);

  tree.reset();
  response.wait();

  EXPECT_EQ(load(target(), {}, *context_).get<std::vector<std::int32_t>>("values"), counted(1 << 20));
}

TEST_F(SnapshotModes, ShareRefusesAnArrayWithoutOwner) {
  const std::vector<std::int32_t> values = counted(16);
  const Tree tree = {{"values", values}};
  SaveOptions options;
  options.snapshot = Snapshot::share;

  EXPECT_THAT([&] { save(target(), tree, options, *context_); },
              Fails(Errc::invalid_argument, HasSubstr("values")));
}

TEST_F(SnapshotModes, AStateLargerThanTheBudgetStreams) {
  ContextOptions options = small();
  options.staging_bytes = std::size_t{8} << 20;
  const Context context(std::move(options));
  const std::vector<std::int32_t> values = counted(8 << 20);
  const Tree tree = {{"values", values}};

  save(target(), tree, {}, context);

  EXPECT_EQ(load(target(), {}, context).get<std::vector<std::int32_t>>("values"), values);
}

}  // namespace
}  // namespace cairn
