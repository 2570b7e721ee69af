// SPDX-License-Identifier: Apache-2.0
// Folders of Megatron-Core's of which something is missing, or cannot be read: what is lost is told.
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/states_of_ranks.hpp"
#include "support/test_data.hpp"

namespace cairn::megatron {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using testing::read_text;
using testing::write_text;

/// A text as a pickle has it.
std::string pickled(std::string_view text) {
  return std::string("\x8c") + static_cast<char>(text.size()) + std::string(text);
}

class ForeignFolder : public testing::StatesOfRanks {
 protected:
  /// Copies a folder of the test data.
  static void copy_to(const std::filesystem::path& folder, const std::string& name) {
    std::filesystem::create_directories(folder);
    for (const auto& entry : std::filesystem::directory_iterator(testing::test_data() / name)) {
      write_text(folder / entry.path().filename(), read_text(entry.path()));
    }
  }
  void take(const std::string& name) const { copy_to(target(), name); }
  /// Its common state is common.pt.
  void take_older() const { take("megatron/flat_tp2_dp3"); }
  /// Its common state is an object.
  void take_newer() const { take("megatron/tp2_pp2"); }

  /// Replaces texts in `.metadata`.
  void describe_otherwise(const std::map<std::string, std::string>& texts) const {
    std::string description = read_text(target() / ".metadata");
    description.erase(2, 9);  // The frame, whose length will be another one.
    for (const auto& [from, to] : texts) {
      std::size_t at = description.find(pickled(from));
      ASSERT_NE(at, std::string::npos) << from;
      for (; at != std::string::npos; at = description.find(pickled(from), at)) {
        description.replace(at, pickled(from).size(), pickled(to));
        at += pickled(to).size();
      }
    }
    write_text(target() / ".metadata", description);
  }

  /// All that can be loaded of the older folder when its bfloat16 tensor cannot be.
  static StateDict float_tensors() {
    const auto tensor = [](const std::string& key, const Shape& shape) {
      return ShardedTensor::from_rank_offsets(key, Array(shape, DType::float32));
    };
    return {{"guide", tensor("optimizer.state.exp_avg.guide", {2, 6})},
            {"weight", tensor("optimizer.state.exp_avg.weight", {7, 6, 4})},
            {"layers", tensor("optimizer.state.fp32_param.layers", {3, 5, 4})}};
  }

  void expect_refused_load(Errc code, const ::testing::Matcher<std::string>& why) const {
    EXPECT_THAT([&] { static_cast<void>(load_alone(StateDict())); }, Fails(code, why));
    EXPECT_THAT([&] { static_cast<void>(load_common_state_dict(target(), *context_)); }, Fails(code, why));
  }
};

TEST_F(ForeignFolder, ThatHasLostItsCommonStateSaysSo) {
  take_older();
  std::filesystem::remove(target() / "common.pt");

  expect_refused_load(Errc::not_found, HasSubstr("common.pt: it is gone, and metadata.json names it"));
  for (const LoadEnd& end : load_on([](std::uint32_t) { return StateDict(); }, 2)) {
    EXPECT_THAT(end.text, HasSubstr("common.pt: it is gone"));
  }
  EXPECT_EQ(load_plain_tensors(target(), *context_).size(), 4u);
}

TEST_F(ForeignFolder, WithAnEmptyCommonFileIsRefused) {
  take_older();
  write_text(target() / "common.pt", "");

  expect_refused_load(Errc::malformed_metadata, HasSubstr("common.pt is empty"));
}

TEST_F(ForeignFolder, WithACommonFileOfAnotherFormIsRefused) {
  take_older();
  write_text(target() / "common.pt", "these bytes are no archive");

  expect_refused_load(Errc::malformed_metadata, HasSubstr("common state is a dict"));
}

TEST_F(ForeignFolder, WithoutADescriptionIsASaveThatDidNotEnd) {
  take_older();
  std::filesystem::remove(target() / ".metadata");
  const auto why = AllOf(HasSubstr(".metadata is missing"), HasSubstr("the save did not end"));

  expect_refused_load(Errc::not_committed, why);
  EXPECT_THAT([&] { static_cast<void>(load_plain_tensors(target(), *context_)); },
              Fails(Errc::not_committed, why));
  EXPECT_THAT([&] { static_cast<void>(load_sharded_metadata(target(), *context_)); },
              Fails(Errc::not_committed, why));
}

TEST_F(ForeignFolder, WithoutItsConfigIsASaveThatDidNotEnd) {
  const auto why = HasSubstr("metadata.json: it is missing, or names no backend");
  take_older();
  std::filesystem::remove(target() / "metadata.json");
  expect_refused_load(Errc::not_committed, why);

  std::filesystem::remove_all(target());
  take_newer();
  std::filesystem::remove(target() / "metadata.json");
  expect_refused_load(Errc::not_committed, why);
}

TEST_F(ForeignFolder, WithAConfigThatIsNotJsonIsRefused) {
  take_older();
  for (const char* text : {"", "{\"sharded_backend\": \"torch_", "[]"}) {
    write_text(target() / "metadata.json", text);

    expect_refused_load(Errc::malformed_metadata, HasSubstr("metadata.json: it is not a JSON object"));
    EXPECT_THAT([&] { static_cast<void>(backend_of(target())); }, Fails(Errc::malformed_metadata));
  }
}

TEST_F(ForeignFolder, OfTorchNeedsNoConfig) {
  take("torch/dcp");
  EXPECT_EQ(load_plain_tensors(target(), *context_).size(), 5u);

  write_text(target() / "metadata.json", R"({"step": 7})");  // The program's own.

  EXPECT_EQ(load_plain_tensors(target(), *context_).size(), 5u);
}

TEST_F(ForeignFolder, AboveOthersNamesThem) {
  copy_to(target() / "iter_0000100", "megatron/tp2_pp2");
  copy_to(target() / "iter_0000020", "megatron/flat_tp2_dp3");

  expect_refused_load(Errc::not_committed, HasSubstr("load one of iter_0000020, iter_0000100"));
}

TEST_F(ForeignFolder, WithADtypeThatIsNotKnownNamesTheTensor) {
  take_older();
  describe_otherwise({{"bfloat16", "float4_x2"}});
  std::vector<LeftOutKey> left_out;

  EXPECT_THAT([&] { static_cast<void>(load_plain_tensors(target(), *context_)); },
              Fails(Errc::structure_mismatch, HasSubstr("'weight' cannot be loaded: a tensor of")));
  EXPECT_THAT([&] { static_cast<void>(load_tensors_metadata(target(), *context_)); },
              Fails(Errc::structure_mismatch, HasSubstr("'weight'")));
  EXPECT_EQ(load_plain_tensors(target(), *context_, &left_out).size(), 3u);
  EXPECT_THAT(left_out, ElementsAre(LeftOutKey{"weight", "a tensor of 'torch.float4_x2'", true}));
  left_out.clear();
  const StateDict stored = load_sharded_metadata(target(), *context_, &left_out);
  EXPECT_EQ(stored.map_if()->size(), 3u);
  EXPECT_EQ(left_out.size(), 1u);
}

TEST_F(ForeignFolder, WithADtypeThatIsNotKnownLacksTheTensor) {
  take_older();
  describe_otherwise({{"bfloat16", "float4_x2"}});
  StateDictLoadOptions options;
  EXPECT_THAT(load_alone(float_tensors(), options).result.problems,
              Contains(HasSubstr("'weight' is left out: a tensor of")));

  options.strict = Strict::raise_all;
  EXPECT_THAT([&] { static_cast<void>(load_alone(float_tensors(), options)); },
              Fails(Errc::not_found, AllOf(HasSubstr("Missing keys"), HasSubstr("'weight'"))));
  options.strict = Strict::return_all;
  EXPECT_THAT(load_alone(float_tensors(), options).missing, ElementsAre("weight"));

  StateDict with_it = float_tensors();
  with_it["more"] = ShardedTensor::from_rank_offsets("weight", Array({7, 6, 4}, DType::float32));
  for (const Strict strict : {Strict::assume_ok_unexpected, Strict::ignore_all, Strict::raise_all}) {
    options.strict = strict;
    EXPECT_THAT([&] { static_cast<void>(load_alone(with_it, options)); },
                Fails(Errc::structure_mismatch, HasSubstr("'weight' is asked for, and cannot be loaded")));
  }
}

TEST_F(ForeignFolder, NamesObjectsThatAreNoPartsOfGrids) {
  take("torch_more/odd_objects");
  std::vector<LeftOutKey> left_out;

  EXPECT_THAT([&] { static_cast<void>(load_sharded_metadata(target(), *context_)); },
              Fails(Errc::structure_mismatch, HasSubstr("'huge'")));
  static_cast<void>(load_sharded_metadata(target(), *context_, &left_out));
  std::vector<std::string> keys;
  for (const LeftOutKey& one : left_out) {
    EXPECT_FALSE(one.is_tensor);
    keys.push_back(one.key);
  }
  EXPECT_THAT(keys, ElementsAre("huge", "when", "x/shard_0"));
  EXPECT_EQ(load_plain_tensors(target(), *context_).size(), 1u);
}

TEST_F(ForeignFolder, RefusesAnObjectWithoutAPlaceInATreeThatIsAskedFor) {
  take("torch_more/odd_objects");
  describe_otherwise({{"when", "when/shard_0_1"}});

  EXPECT_THAT(
      [&] {
        static_cast<void>(load_alone({{"when", ShardedObject{"when", std::nullopt}}}));
      },
      Fails(Errc::structure_mismatch,
            AllOf(HasSubstr("when~1shard_0_1"), HasSubstr("has no place in a tree"))));
  EXPECT_NO_THROW(static_cast<void>(load_alone(StateDict())));
}

TEST_F(ForeignFolder, CompletesOlderNamesOfObjects) {
  take_newer();
  describe_otherwise({{"rng_state/shard_0.0_2.2", "rng_state/shard_0.0_2"},
                      {"rng_state/shard_0.1_2.2", "rng_state/shard_0.1_2"},
                      {"rng_state/shard_1.0_2.2", "rng_state/shard_1.0_2"},
                      {"rng_state/shard_1.1_2.2", "rng_state/shard_1.1_2"}});

  const StateDict stored = load_sharded_metadata(target(), *context_);

  EXPECT_THAT(*stored.map_if(),
              AllOf(Contains(Key("rng_state/shard_0.0_2.2")), Contains(Key("rng_state/shard_1.1_2.2"))));
  const Tree state = load_alone({{"rng", ShardedObject{"rng_state", std::nullopt, {2, 2}, {1, 0}}}}).state;
  EXPECT_EQ(state.at("rng/torch_rng_state").as<Array>().data<const std::uint8_t>()[0], 10);
}

TEST_F(ForeignFolder, LeavesOutAnObjectOutsideOfItsGrid) {
  take_newer();
  describe_otherwise({{"rng_state/shard_0.0_2.2", "rng_state/shard_9.9_2.2"}});
  std::vector<LeftOutKey> left_out;

  static_cast<void>(load_sharded_metadata(target(), *context_, &left_out));

  ASSERT_EQ(left_out.size(), 1u);
  EXPECT_EQ(left_out[0].key, "rng_state/shard_9.9_2.2");
}

}  // namespace
}  // namespace cairn::megatron
