// SPDX-License-Identifier: Apache-2.0
// Numbers, strings and containers as checkpointables of their own.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <boost/describe/class.hpp>

#include "cairn/handlers/describe.hpp"

#include "api/fixture.hpp"

namespace cairn::values {

using testing::Fails;
using ::testing::HasSubstr;

struct Settings {
  double rate = 0;
  std::vector<float> weights;
  friend bool operator==(const Settings&, const Settings&) = default;
};
BOOST_DESCRIBE_STRUCT(Settings, (), (rate, weights))

/// Its `save` is not const: an object that was meant to save itself.
struct NearlyStateful {
  int value = 0;
  Awaitable<Background<>> save(SaveContext context) { co_return context.write_file("v", "1"); }
};
BOOST_DESCRIBE_STRUCT(NearlyStateful, (), (value))

/// A handler of one's own for strings.
class TextHandler final : public CheckpointableHandler<std::string> {
 public:
  std::string_view id() const noexcept override { return "test.text/1"; }
  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const std::string& text) const override {
    return write(std::move(context), text);
  }
  Awaitable<Background<std::string>> load(LoadContext context, std::optional<std::string>) const override {
    co_return context.read_file("text");
  }
  Awaitable<std::string> metadata(LoadContext) const override { co_return std::string(); }

 private:
  static Awaitable<Background<>> write(SaveContext context, std::string text) {
    co_return context.write_file("text", std::move(text));
  }
};

class Values : public testing::ApiTest {
 protected:
  Values() : ApiTest(small()) {}
};

TEST_F(Values, NumbersAndStringsAreTreesOfOneLeaf) {
  save_checkpointables(target(), {{"step", 42}, {"note", "text"}, {"rate", 0.5}, {"done", true}}, *context_);

  Loaded loaded = load_checkpointables(target(), {}, {}, *context_);
  EXPECT_EQ(loaded.take<Tree>("step"), Tree(42));
  EXPECT_EQ(loaded.take<std::string>("note"), "text");
  EXPECT_EQ(loaded.take<float>("rate"), 0.5F);
  EXPECT_TRUE(loaded.take<bool>("done"));
}

TEST_F(Values, AreCastAsTheLeavesOfTreesAre) {
  save_checkpointables(target(), {{"step", 42}, {"rate", 0.5}}, *context_);

  Loaded loaded =
      load_checkpointables(target(), {{"step", AbstractTree(TreeKind::floating)}, "rate"}, {}, *context_);
  EXPECT_EQ(loaded.take<Tree>("step"), Tree(42.0));
  EXPECT_THAT([&] { static_cast<void>(loaded.take<int>("rate")); }, Fails(Errc::unsafe_cast));
}

TEST_F(Values, ContainersAndDescribedStructsAreTreesToo) {
  const Settings settings{0.5, {1, 2, 3}};
  const std::map<std::string, std::vector<std::string>> names = {{"a", {"x", "y"}}};
  save_checkpointables(target(), {{"settings", settings}, {"names", names}}, *context_);

  Loaded loaded = load_checkpointables(target(), {}, {}, *context_);
  EXPECT_EQ(loaded.take<Settings>("settings"), settings);
  EXPECT_EQ((loaded.take<std::map<std::string, std::vector<std::string>>>("names")), names);
}

TEST_F(Values, AreReadWhenTheSaveBeginsNotWhenTheyAreNamed) {
  int step = 1;
  const Checkpointables items = {{"step", step}};
  step = 2;
  save_checkpointables(target(), items, *context_);

  EXPECT_EQ(load_checkpointables(target(), {}, {}, *context_).take<int>("step"), 2);
}

TEST_F(Values, AHandlerOfOnesOwnComesFirst) {
  ContextOptions options = small();
  options.registry.add<TextHandler>();
  const Context context(options);
  save_checkpointables(target(), {{"note", std::string("mine")}}, context);

  EXPECT_EQ(checkpointables_metadata(target(), context).at("note").handler_id, "test.text/1");
  EXPECT_EQ(load_checkpointables(target(), {}, {}, context).take<std::string>("note"), "mine");
}

TEST_F(Values, WhatNearlySavesItselfIsNotTakenForATree) {
  const NearlyStateful object;

  EXPECT_THAT(
      [&] {
        save_checkpointables(target(), {{"object", object}}, *context_);
      },
      Fails(Errc::no_handler, HasSubstr("is not const")));
}

TEST_F(Values, ThatAreNoTreesAreRefusedByCheckpointAndName) {
  save_checkpointables(target(), {{"state", Array::zeros({2}, DType::float32)}}, *context_);
  const std::string culprit = "'state' of " + target().string();

  EXPECT_THAT([&] { static_cast<void>(load(target(), {}, *context_)); },
              Fails(Errc::type_mismatch, HasSubstr(culprit + " was loaded as cairn::Array")));
  EXPECT_THAT(
      [&] { static_cast<void>(metadata(target(), *context_)); },
      Fails(Errc::type_mismatch, HasSubstr(culprit + ": handler 'cairn.array/1' describes its values by")));
}

TEST_F(Values, OfAnotherTypeAreRefusedByName) {
  save_checkpointables(target(), {{"step", 42}}, *context_);

  Loaded loaded = load_checkpointables(target(), {}, {}, *context_);
  EXPECT_THAT([&] { static_cast<void>(loaded.take<std::string>("step")); },
              Fails(Errc::type_mismatch, HasSubstr("integer, not string")));
}

}  // namespace cairn::values
