// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <list>
#include <memory>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "cairn/sharding/policy.hpp"

#include "sharding/slow_model.hpp"
#include "support/fails.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace cairn {
namespace {

using testing::Dice;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

using Texts = std::vector<std::string>;

ShardableTensor tensor(std::string_view key, Shape full, DType dtype = DType::float32) {
  ShardableTensor made;
  made.key = key;
  made.size_bytes = *byte_count(dtype, full);
  made.full = std::move(full);
  made.dtype = dtype;
  return made;
}

/// A file as "key;slice key;slice", a slice as TensorFlow writes it.
std::string text_of(const FilePlan& file, const std::vector<ShardableTensor>& tensors) {
  std::string text;
  for (const TensorPart& part : file) {
    const ShardableTensor& of = tensors[part.tensor];
    const std::optional<Box> box = part.box ? part.box : of.slice;
    text += (text.empty() ? "" : "|") + std::string(of.key) + ";" + (box ? slice_spec(of.full, *box) : "");
  }
  return text;
}

Texts run(const ShardingPolicy& policy, const std::vector<ShardableTensor>& tensors) {
  const std::vector<FilePlan> files = policy(tensors);
  check_policy_result(policy, tensors, files);
  Texts texts;
  for (const FilePlan& file : files) {
    texts.push_back(text_of(file, tensors));
  }
  return texts;
}

// ---- As TensorFlow.

struct Task {
  std::deque<Texts> rows;  // What the tensors' texts lie in.
  std::vector<ShardableTensor> tensors;
  Texts files;
};

struct Case {
  std::string name;
  std::uint64_t max_bytes = 0;
  std::list<Task> tasks;
};

ShardableTensor read_tensor(const Texts& fields) {
  ShardableTensor made;
  made.key = fields.at(1);
  made.dtype = parse_dtype(fields.at(2)).value();
  made.size_bytes = std::stoull(fields.at(3));
  std::vector<std::uint64_t> full;
  std::istringstream extents(fields.at(4));
  for (std::uint64_t extent = 0; extents >> extent;) {
    full.push_back(extent);
  }
  made.full = Shape(std::span<const std::uint64_t>(full));
  if (fields.size() > 5) {
    made.slice = parse_slice_spec(fields[5]).second;
  }
  return made;
}

std::list<Case> read_cases() {
  std::istringstream text(testing::read_text(testing::test_data() / "sharding/tensorflow_layouts.txt"));
  std::list<Case> cases;  // Tensors have views of the texts: nothing may move.
  for (std::string line; std::getline(text, line);) {
    Texts fields;
    std::istringstream rest(line);
    for (std::string field; std::getline(rest, field, '|');) {
      fields.push_back(field);
    }
    if (fields[0] == "case") {
      cases.push_back({fields.at(1), std::stoull(fields.at(2)), {}});
    } else if (fields[0] == "task") {
      cases.back().tasks.emplace_back();
    } else if (fields[0] == "tensor") {
      Task& task = cases.back().tasks.back();
      fields.resize(std::max<std::size_t>(fields.size(), 5));
      task.rows.push_back(fields);
      task.tensors.push_back(read_tensor(task.rows.back()));
    } else if (fields[0] == "file") {
      cases.back().tasks.back().files.push_back(line.substr(line.find('|') + 1));
    }
  }
  return cases;
}

TEST(Policies, MakeTheFilesThatTensorFlowMakes) {
  const std::list<Case> cases = read_cases();
  ASSERT_EQ(cases.size(), 25u);
  for (const Case& one : cases) {
    for (const Task& task : one.tasks) {
      const Texts files = one.max_bytes == 0 ? run(ShardByTask(), task.tensors)
                                             : run(MaxShardSize(one.max_bytes), task.tensors);
      EXPECT_EQ(files, task.files) << one.name;
    }
  }
}

TEST(MaxShardSize, FillsTheRestOfAFileFirst) {
  EXPECT_THAT(run(MaxShardSize(20), {tensor("a", {4, 4})}),
              ElementsAre("a;4 4 0,1:0,4", "a;4 4 1,1:0,4", "a;4 4 2,1:0,4|a;4 4 3,1:0,1", "a;4 4 3,1:1,3"));
  EXPECT_THAT(run(MaxShardSize(24), {tensor("a", {4, 8})}),
              ElementsAre("a;4 8 0,4:0,1", "a;4 8 0,4:1,1", "a;4 8 0,1:2,6", "a;4 8 1,1:2,6", "a;4 8 2,1:2,6",
                          "a;4 8 3,1:2,6"));
}

// The example of TensorFlow's RFC: ten billion floats.
TEST(MaxShardSize, CutsTenBillionFloatsAsTensorFlowDoes) {
  const std::vector<ShardableTensor> tensors = {tensor("x", {10'000'000'000})};

  const std::vector<FilePlan> files = MaxShardSize(500 << 20)(tensors);

  check_policy_result(MaxShardSize(500 << 20), tensors, files);
  ASSERT_EQ(files.size(), 77u);
  EXPECT_EQ(text_of(files[0], tensors),
            "x;10000000000 0,129870130|x;10000000000 129870130,1201770|x;10000000000 131071900,100");
}

// ---- Where TensorFlow has no answer.

TEST(MaxShardSize, CutsAlongSeveralAxesWhereOneIsNotEnough) {
  EXPECT_THAT(run(MaxShardSize(8), {tensor("a", {2, 4})}),
              ElementsAre("a;2 4 0,2:0,1", "a;2 4 0,2:1,1", "a;2 4 0,1:2,2", "a;2 4 1,1:2,2"));
  EXPECT_THAT(run(MaxShardSize(8), {tensor("a", {4, 4})}),
              ElementsAre("a;4 4 0,1:0,2", "a;4 4 0,1:2,2", "a;4 4 1,1:0,2", "a;4 4 1,1:2,2", "a;4 4 2,1:0,2",
                          "a;4 4 2,1:2,2", "a;4 4 3,1:0,2", "a;4 4 3,1:2,2"));
}

TEST(MaxShardSize, GivesWhatCannotBeCutAFileOfItsOwnAndWarns) {
  std::vector<ShardableTensor> tensors = {
      tensor("f64", {2}, DType::float64), tensor("small", {1}, DType::int8),
      tensor("scalar", Shape{}, DType::complex64), tensor("packed", {16}, DType::float4)};
  const MaxShardSize policy(4);

  EXPECT_THAT(run(policy, tensors),
              ElementsAre("small;1 0,1", "f64;2 0,1", "f64;2 1,1", "scalar;", "packed;"));
  EXPECT_THAT(
      policy.warnings(tensors, policy(tensors)),
      ElementsAre(HasSubstr("Tensor 'f64' has a smallest slice 2 0,1 of size 8 bytes"), HasSubstr("2 1,1"),
                  HasSubstr("Tensor 'scalar' is a C64 scalar of size 8 bytes"), HasSubstr("'packed'")));
}

TEST(MaxShardSize, NamesTheFirstOfVeryManyThatCannotBeCut) {
  const std::vector<ShardableTensor> tensors = {tensor("a", {1000}, DType::float64)};
  for (const auto& policy : std::vector<std::shared_ptr<const ShardingPolicy>>{
           std::make_shared<MaxShardSize>(4), std::make_shared<MaxFileSize>(4)}) {
    const Texts warnings = policy->warnings(tensors, (*policy)(tensors));

    ASSERT_EQ(warnings.size(), 6u);
    EXPECT_THAT(warnings[4], HasSubstr("1000 4,1"));
    EXPECT_EQ(warnings[5], "995 more cannot be cut to shards of at most 4 bytes, 1000 in all.");
  }
}

TEST(MaxShardSize, KeepsTensorsOfNoElements) {
  EXPECT_THAT(run(MaxShardSize(8), {tensor("a", {0, 3})}), ElementsAre("a;0 3 0,0:0,3"));
}

TEST(MaxShardSize, RefusesZero) {
  EXPECT_THAT([] { return MaxShardSize(0); }, Fails(Errc::invalid_argument, HasSubstr("must be positive")));
}

std::vector<ShardableTensor> random_tensors(Dice& dice, std::deque<std::string>& keys) {
  std::vector<ShardableTensor> tensors;
  const std::array<DType, 4> dtypes = {DType::float32, DType::int8, DType::float64, DType::bfloat16};
  for (std::size_t count = dice.below(8); tensors.size() < count;) {
    keys.push_back((dice.one_in(2) ? "params/" : "state/") + std::to_string(tensors.size()));
    const Shape full = testing::random_shape(dice, 300);
    tensors.push_back(tensor(keys.back(), full, dice.pick(dtypes)));
    const auto boxes = testing::random_sharding(dice, full).boxes(0, full);
    if (!boxes.empty() && dice.one_in(2)) {
      tensors.back().slice = boxes[0].box;
      tensors.back().size_bytes = *byte_count(tensors.back().dtype, boxes[0].box.extents());
    }
    tensors.back().device.index = static_cast<std::int32_t>(dice.below(2));
  }
  return tensors;
}

TEST(MaxShardSize, KeepsToTheSizeAndLosesNothing) {
  Dice dice(12);
  for (int i = 0; i < 400; ++i) {
    std::deque<std::string> keys;
    const std::vector<ShardableTensor> tensors = random_tensors(dice, keys);
    const std::uint64_t max_bytes = 1 + dice.below(200);
    const MaxShardSize policy(max_bytes);

    const std::vector<FilePlan> files = policy(tensors);

    ASSERT_NO_THROW(check_policy_result(policy, tensors, files));
    for (const FilePlan& file : files) {
      std::uint64_t bytes = 0;
      for (const TensorPart& part : file) {
        bytes += *byte_count(tensors[part.tensor].dtype,
                             (part.box ? *part.box : tensors[part.tensor].region()).extents());
      }
      const bool is_one_element = file.size() == 1 && bytes == bits(tensors[file[0].tensor].dtype) / 8;
      ASSERT_TRUE(bytes <= max_bytes || is_one_element) << text_of(file, tensors) << " of " << max_bytes;
    }
  }
}

// ---- Of one array a box in each file.

TEST(MaxFileSize, PutsOneBoxOfAnArrayIntoAFileAndFillsItWithOthers) {
  EXPECT_THAT(
      run(MaxFileSize(20), {tensor("a", {4, 4}), tensor("b", {2})}),
      ElementsAre("a;4 4 0,1:0,4", "a;4 4 1,1:0,4", "a;4 4 2,1:0,4", "a;4 4 3,1:0,4|b;2 0,1", "b;2 1,1"));
}

TEST(MaxFileSize, RefusesZero) {
  EXPECT_THAT([] { return MaxFileSize(0); }, Fails(Errc::invalid_argument, HasSubstr("must be positive")));
}

TEST(MaxFileSize, NeverPutsTwoBoxesOfAnArrayIntoAFileAndKeepsToTheSize) {
  Dice dice(14);
  for (int i = 0; i < 400; ++i) {
    std::deque<std::string> keys;
    std::vector<ShardableTensor> tensors = random_tensors(dice, keys);
    if (!tensors.empty()) {  // As of a task that holds an array in two boxes.
      tensors.push_back(tensor(tensors[0].key, {10, 10}));
      tensors.back().slice = Box({0, 3}, {4, 4});
      tensors.back().size_bytes = 64;
    }
    const std::uint64_t max_bytes = 1 + dice.below(200);
    const MaxFileSize policy(max_bytes);

    const std::vector<FilePlan> files = policy(tensors);

    ASSERT_NO_THROW(check_policy_result(policy, tensors, files));
    for (const FilePlan& file : files) {
      std::set<std::string_view> arrays;
      std::uint64_t bytes = 0;
      for (const TensorPart& part : file) {
        ASSERT_TRUE(arrays.insert(tensors[part.tensor].key).second) << text_of(file, tensors);
        bytes += *byte_count(tensors[part.tensor].dtype,
                             (part.box ? *part.box : tensors[part.tensor].region()).extents());
      }
      ASSERT_TRUE(bytes <= max_bytes || file.size() == 1) << text_of(file, tensors) << " of " << max_bytes;
    }
  }
}

// ---- The others.

TEST(ShardByTask, MakesAFileForEachTask) {
  std::vector<ShardableTensor> tensors = {tensor("a", {2}), tensor("b", {2}), tensor("c", {2})};
  tensors[1].task = 1;

  EXPECT_THAT(run(ShardByTask(), tensors), ElementsAre("a;|c;", "b;"));
}

TEST(ShardByDevice, MakesAFileForEachDevice) {
  std::vector<ShardableTensor> tensors = {tensor("a", {2}), tensor("b", {2}), tensor("c", {2})};
  tensors[0].device = {Device::Kind::cuda, 1};
  tensors[2].device = {Device::Kind::cuda, 1};

  EXPECT_THAT(run(ShardByDevice(), tensors), ElementsAre("a;|c;", "b;"));
}

TEST(AllInOne, MakesOneFile) {
  EXPECT_THAT(run(AllInOne(), {tensor("a", {2}), tensor("b", {2})}), ElementsAre("a;|b;"));
  EXPECT_TRUE(run(AllInOne(), {}).empty());
}

TEST(ByPrefix, TakesTheFirstPrefixThatFits) {
  EXPECT_THAT(run(ByPrefix({"b/", "none", "b/c"}),
                  {tensor("a", {2}), tensor("b/c", {2}), tensor("d", {2}), tensor("b/e", {2})}),
              ElementsAre("b/c;|b/e;", "a;|d;"));
}

TEST(ByPrefix, SaysWhichPrefixesItHasSoThatRanksSeeOthers) {
  EXPECT_THAT(ByPrefix({"b/", "c"}).description(), HasSubstr("'b/', 'c'"));
  EXPECT_NE(ByPrefix({"b/"}).description(), ByPrefix({"c/"}).description());
}

TEST(Compose, RunsTheSecondOnEachFileOfTheFirst) {
  const auto policy = compose(std::make_shared<ByPrefix>(Texts{"b"}), std::make_shared<MaxShardSize>(8));

  EXPECT_THAT(run(*policy, {tensor("a", {3}), tensor("b", {2}), tensor("c", {1})}),
              ElementsAre("b;2 0,2", "a;3 0,2", "a;3 2,1|c;1 0,1"));
  EXPECT_EQ(policy->description(),
            "Split tensors into shards based on these prefixes of their keys: 'b'. Then: Split tensors into "
            "shards with a max shard size of 8 bytes.");
}

TEST(Compose, LosesNothingHoweverOftenItCuts) {
  Dice dice(13);
  for (int i = 0; i < 200; ++i) {
    std::deque<std::string> keys;
    const std::vector<ShardableTensor> tensors = random_tensors(dice, keys);
    const auto policy = compose(
        compose(std::make_shared<MaxShardSize>(50 + dice.below(100)), std::make_shared<ShardByDevice>()),
        std::make_shared<MaxShardSize>(1 + dice.below(50)));

    ASSERT_NO_THROW(check_policy_result(*policy, tensors, (*policy)(tensors)));
  }
}

TEST(Compose, RefusesNothing) {
  EXPECT_THAT([] { return compose(nullptr, std::make_shared<AllInOne>()); }, Fails(Errc::invalid_argument));
}

/// Puts twice the value in the place of each float32, as the seed's policy that normalises.
class Doubling final : public ShardingPolicy {
 public:
  [[nodiscard]] std::string description() const override { return "Doubles."; }

  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override {
    std::vector<FilePlan> files(1);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      auto values = std::make_shared<Array>(Array::copy_of(*tensors[i].view));
      for (float& value : values->data<float>()) {
        value *= 2;
      }
      files[0].push_back({i, std::nullopt, std::move(values)});
    }
    return files;
  }
};

TEST(Compose, HandsOnValuesThatWereReplaced) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const ArrayView view(values.data(), {3, 2}, DType::float32);
  std::vector<ShardableTensor> tensors = {tensor("a", {9, 2})};
  tensors[0].slice = Box({3, 0}, {3, 2});
  tensors[0].size_bytes = 24;
  tensors[0].view = &view;
  const auto small = std::make_shared<MaxShardSize>(8);

  const auto doubled_then_cut = (*compose(std::make_shared<Doubling>(), small))(tensors);
  const auto cut_then_doubled = (*compose(small, std::make_shared<Doubling>()))(tensors);

  ASSERT_EQ(doubled_then_cut.size(), 3u);
  ASSERT_EQ(cut_then_doubled.size(), 3u);
  for (const auto& files : {doubled_then_cut, cut_then_doubled}) {
    EXPECT_EQ(files[1].at(0).box, Box({4, 0}, {1, 2}));
    EXPECT_THAT(files[1].at(0).values->clone().data<const float>(), ElementsAre(6, 8));
  }
}

}  // namespace
}  // namespace cairn
