// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/describe.hpp"

#include <string_view>
#include <utility>

#include <boost/describe/class.hpp>
#include <gmock/gmock.h>

#include "support/fails.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

enum class Phase : std::uint8_t { warm_up, steady };

enum class Switch : bool { off, on };
enum class Letter : char { a = 'a', high = '\xff' };
enum class Wide : wchar_t { last = L'\U0010ffff' };

struct Oddities {
  Switch mode = Switch::off;
  Letter letter = Letter::a;
  Wide wide{};
  float rate = 0;
  friend bool operator==(const Oddities&, const Oddities&) = default;
};
BOOST_DESCRIBE_STRUCT(Oddities, (), (mode, letter, wide, rate))

struct Layer {
  std::vector<float> weights;
  std::array<double, 2> range{};
  friend bool operator==(const Layer&, const Layer&) = default;
};
BOOST_DESCRIBE_STRUCT(Layer, (), (weights, range))

struct Model {
  std::int64_t step = 0;
  double rate = 0;
  bool is_frozen = false;
  std::string name;
  Phase phase = Phase::warm_up;
  std::optional<Layer> head;
  std::vector<Layer> layers;
  std::map<std::string, int> counts;
  std::vector<bool> flags;
  std::array<std::string, 2> labels;
  Bytes blob;
  friend bool operator==(const Model&, const Model&) = default;
};
BOOST_DESCRIBE_STRUCT(Model, (),
                      (step, rate, is_frozen, name, phase, head, layers, counts, flags, labels, blob))

class Optimizer {
 public:
  double lr = 0.1;

  void step() {
    ++steps_;
    moments_.push_back(0.5F);
  }
  friend bool operator==(const Optimizer&, const Optimizer&) = default;

 protected:
  int warm_up_ = 0;

 private:
  int steps_ = 0;
  std::vector<float> moments_;
  BOOST_DESCRIBE_CLASS(Optimizer, (), (lr), (warm_up_), (steps_, moments_))
};

/// One that has a base which only it can see.
class Scheduled : private Optimizer {
 public:
  explicit Scheduled(int warm_up = 0) { warm_up_ = warm_up; }

  void step() {
    Optimizer::step();
    ++epoch_;
  }
  friend bool operator==(const Scheduled&, const Scheduled&) = default;

 private:
  int epoch_ = 0;
  BOOST_DESCRIBE_CLASS(Scheduled, (Optimizer), (), (), (epoch_))
};

Model make_model() {
  Model model;
  model.step = 7;
  model.rate = 0.5;
  model.is_frozen = true;
  model.name = "digits";
  model.phase = Phase::steady;
  model.layers.resize(2);
  model.layers[1].weights = {1, 2, 3};
  model.layers[1].range = {-1, 1};
  model.counts = {{"a", 1}, {"b/c", 2}};
  model.flags = {true, false, true};
  model.labels = {"x", "y"};
  model.blob = Bytes(3, std::byte{9});
  return model;
}

TEST(ToTree, GivesEveryMemberAKey) {
  const Model model = make_model();
  const Tree tree = to_tree(model);

  EXPECT_EQ(tree.get<int>("step"), 7);
  EXPECT_EQ(tree.get<int>("phase"), 1);
  EXPECT_EQ(tree.get<int>("counts/b~1c"), 2);
  EXPECT_TRUE(tree["head"].is_null());
  EXPECT_THAT(tree.get<std::vector<float>>("layers/1/weights"), ElementsAre(1, 2, 3));
}

TEST(ToTree, BorrowsArrays) {
  const Model model = make_model();
  const Tree tree = to_tree(model);

  EXPECT_EQ(tree.get<std::span<const float>>("layers/1/weights").data(), model.layers[1].weights.data());
}

TEST(FromTree, RestoresWhatToTreeMade) {
  Model model = make_model();
  model.head = model.layers[1];
  Model restored;

  from_tree(to_tree(model), restored);

  EXPECT_EQ(restored, model);
}

TEST(FromTree, RestoresEnumsOfBooleansAndCharacters) {
  const Oddities saved{Switch::on, Letter::high, Wide::last, 0.1F};
  Oddities restored;

  from_tree(to_tree(saved), restored);

  EXPECT_EQ(restored, saved);
}

TEST(FromTree, RestoresMembersOfEveryAccess) {
  Optimizer saved;
  saved.step();
  Optimizer restored;

  from_tree(to_tree(saved), restored);

  EXPECT_EQ(restored, saved);
}

TEST(FromTree, RestoresMembersOfAPrivateBase) {
  Scheduled saved(3);
  saved.step();
  Scheduled restored;

  from_tree(to_tree(std::as_const(saved)), restored);

  EXPECT_EQ(restored, saved);
}

TEST(FromTree, NamesTheMembersThatOnlyThePublicOnesOfACheckpointLack) {
  Optimizer restored;

  EXPECT_THAT(
      [&] {
        from_tree(Tree{{"lr", 0.5}}, restored);
      },
      Fails(Errc::structure_mismatch, HasSubstr("'warm_up_', 'steps_', 'moments_'")));
}

TEST(FromTree, RefusesNumbersThatAMemberCannotHold) {
  Oddities restored;
  const auto with = [](std::string_view key, Tree value) {
    Tree tree = to_tree(Oddities());
    tree[key] = std::move(value);
    return tree;
  };

  EXPECT_THAT([&] { from_tree(with("mode", 2), restored); },
              Fails(Errc::type_mismatch, HasSubstr("'mode' is 2")));
  EXPECT_THAT([&] { from_tree(with("mode", true), restored); },
              Fails(Errc::type_mismatch, HasSubstr("'mode' is of kind boolean")));
  EXPECT_THAT([&] { from_tree(with("letter", 128), restored); },
              Fails(Errc::unsafe_cast, HasSubstr("'letter' is 128")));
  EXPECT_THAT(
      [&] { from_tree(with("rate", 1e300), restored); },
      Fails(Errc::unsafe_cast,
            HasSubstr("'rate' is 1e+300, which exceeds the range of float; Narrowing::allowed makes it "
                      "infinite")));
}

TEST(FromTree, ListsMissingAndUnknownKeysWithTheirPaths) {
  const Model model = make_model();
  Tree tree = to_tree(model);
  tree["layers"][0].as_map().erase("range");
  tree["layers"][0]["colour"] = 3;
  Model restored;

  EXPECT_THAT([&] { from_tree(tree, restored); },
              Fails(Errc::structure_mismatch,
                    HasSubstr("'layers/0/range'; keys that are not members: 'layers/0/colour'")));
}

TEST(FromTree, ListsTheFirstOfManyUnknownKeys) {
  Tree tree = to_tree(make_model());
  for (int i = 0; i < 10'000; ++i) {
    tree["layers"][0][std::to_string(i)] = i;
  }
  Model restored;

  EXPECT_THAT([&] { from_tree(tree, restored); },
              Fails(Errc::structure_mismatch,
                    ::testing::AllOf(HasSubstr(" and 9980 more"), ::testing::SizeIs(::testing::Lt(2000u)))));
}

TEST(FromTree, NamesTheMemberOfAnotherKind) {
  const Model model = make_model();
  Tree tree = to_tree(model);
  tree["step"] = "seven";
  Model restored;

  EXPECT_THAT([&] { from_tree(tree, restored); }, Fails(Errc::type_mismatch, HasSubstr("'step'")));
}

TEST(FromTree, NamesTheArrayOfAnotherDtype) {
  Layer layer;
  Tree tree = to_tree(layer);
  tree["weights"] = std::vector<double>{1};

  EXPECT_THAT([&] { from_tree(tree, layer); }, Fails(Errc::dtype_mismatch, HasSubstr("'weights'")));
}

TEST(FromTree, NamesTheArrayOfAnotherLength) {
  Layer layer;
  Tree tree = to_tree(layer);
  tree["range"] = std::vector<double>{1, 2, 3};

  EXPECT_THAT([&] { from_tree(tree, layer); }, Fails(Errc::shape_mismatch, HasSubstr("'range'")));
}

TEST(FromTree, RefusesAMatrixForAVector) {
  Layer layer;
  Tree tree = to_tree(layer);
  tree["weights"] = Array::zeros({2, 2}, DType::float32);

  EXPECT_THAT([&] { from_tree(tree, layer); }, Fails(Errc::shape_mismatch, HasSubstr("[2, 2]")));
}

}  // namespace
}  // namespace cairn
