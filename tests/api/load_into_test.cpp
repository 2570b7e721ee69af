// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/describe/class.hpp>

#include "cairn/api/load.hpp"
#include "cairn/handlers/describe.hpp"

#include "api/fixture.hpp"

namespace cairn::loaded_into {

using testing::Fails;
using ::testing::HasSubstr;

struct Model {
  std::int64_t step = 0;
  std::vector<float> weights;
  friend bool operator==(const Model&, const Model&) = default;
};
BOOST_DESCRIBE_STRUCT(Model, (), (step, weights))

class Counter {
 public:
  std::int64_t value = 0;

  Awaitable<Background<>> save(SaveContext context) const {
    co_return context.write_file("counter.txt", std::to_string(value));
  }
  Awaitable<Background<>> load(LoadContext context) { co_return read(std::move(context)); }

 private:
  Background<> read(LoadContext context) {
    const std::string text = co_await context.read_file("counter.txt");
    value = std::stoll(text);
  }
};

/// It cannot be copied.
class Pinned : public Counter {
 public:
  std::unique_ptr<int> own;
};

class LoadInto : public testing::ApiTest {
 protected:
  template <class T>
  LoadResult into_object(T& object) {
    return load_into(target(), object, LoadOptions(), *context_);
  }

  const Model saved_{7, {1, 2, 3}};
  std::vector<double> saved_copy_ = std::vector<double>(3);
};

TEST_F(LoadInto, FillsStructsTreesArraysAndObjects) {
  save(target(), to_tree(saved_), SaveOptions(), *context_);
  Model model;
  std::vector<float> mine(3);
  Tree tree = {{"step", 0}, {"weights", mine}};

  EXPECT_GT(into_object(model).bytes, 0U);
  into_object(tree);

  EXPECT_EQ(model, saved_);
  EXPECT_EQ(mine, saved_.weights);
  EXPECT_EQ(tree.get<int>("step"), 7);
}

TEST_F(LoadInto, FillsAnArrayThatWasSavedAlone) {
  save_items({{"state", saved_.weights}});
  std::vector<float> elements;
  MutableArrayView view(saved_copy_);

  into_object(elements);
  into_object(view);

  EXPECT_EQ(elements, saved_.weights);
  EXPECT_EQ(saved_copy_, (std::vector<double>{1, 2, 3}));
}

TEST_F(LoadInto, FillsAnObjectThatLoadsItself) {
  Counter counter;
  counter.value = 5;
  save_items({{"state", counter}});
  Counter again;

  into_object(again);

  EXPECT_EQ(again.value, 5);
}

TEST_F(LoadInto, FillsThemInTheBackground) {
  save(target(), to_tree(saved_), SaveOptions(), *context_);
  Model waited;
  Model awaited;
  Tree tree = {{"step", 0}, {"weights", std::vector<float>(3)}};

  const LoadIntoResponse response = load_into_async(target(), waited, LoadOptions(), *context_);
  EXPECT_GT(response.wait().bytes, 0U);
  const LoadIntoResponse other = load_into_async(target(), awaited, LoadOptions(), *context_);
  EXPECT_GT(testing::run(other.loaded()).bytes, 0U);
  load_into_async(target(), tree, LoadOptions(), *context_).wait(std::chrono::minutes(10));

  EXPECT_EQ(waited, saved_);
  EXPECT_EQ(awaited, saved_);
  EXPECT_EQ(tree.get<int>("step"), 7);
}

TEST_F(LoadInto, FillsArraysAndObjectsInTheBackground) {
  Counter counter;
  counter.value = 5;
  save_items({{"state", counter}});
  save_checkpointables(directory_ / "array", {{"state", saved_.weights}}, SaveOptions(), *context_);
  Counter again;
  std::vector<float> elements;

  load_into_async(target(), again, LoadOptions(), *context_).wait();
  load_into_async(directory_ / "array", elements, LoadOptions(), *context_).wait();

  EXPECT_EQ(again.value, 5);
  EXPECT_EQ(elements, saved_.weights);
}

TEST_F(LoadInto, TellsOfWhatDoesNotFitAlsoInTheBackground) {
  save(target(), {{"step", 7}}, SaveOptions(), *context_);
  Model model;

  EXPECT_THAT([&] { load_into_async(target(), model, LoadOptions(), *context_).wait(); },
              Fails(Errc::structure_mismatch, HasSubstr("'weights'")));
  EXPECT_THAT([&] { testing::run(load_into_async(target(), model, LoadOptions(), *context_).loaded()); },
              Fails(Errc::structure_mismatch, HasSubstr("'weights'")));
  EXPECT_THAT([&] { load_into_async(directory_ / "none", model, LoadOptions(), *context_).wait(); },
              Fails(Errc::not_found, HasSubstr("none")));
}

TEST_F(LoadInto, OfNothingIsDone) {
  const LoadIntoResponse none;

  EXPECT_TRUE(none.is_done());
  EXPECT_EQ(none.wait().bytes, 0U);
  EXPECT_THAT([&] { static_cast<void>(none.loaded()); }, Fails(Errc::invalid_argument));
}

TEST_F(LoadInto, ADroppedResponseLeavesTheObjectAlone) {
  const std::vector<float> saved(1 << 22, 1.0F);
  save_items({{"state", saved}});
  std::vector<float> mine(1 << 22);

  { const LoadIntoResponse dropped = load_into_async(target(), mine, LoadOptions(), *context_); }
  std::fill(mine.begin(), mine.end(), 2.0F);
  context_.reset();  // Waits for all that still runs.

  EXPECT_EQ(mine, std::vector<float>(1 << 22, 2.0F));
}

TEST_F(LoadInto, RefusesTwoLoadsIntoOneObject) {
  save_items({{"a", to_tree(saved_)}, {"b", to_tree(saved_)}});
  Model model;

  EXPECT_THAT(
      [&] {
        static_cast<void>(load_items({{"a", into(model)}, {"b", into(model)}}));
      },
      Fails(Errc::invalid_argument, HasSubstr("'a' and 'b' are to be loaded into one object")));
}

TEST_F(LoadInto, NamesTheCheckpointableOfOneThatDoesNotFit) {
  save(target(), {{"step", 7}}, SaveOptions(), *context_);
  Model model;

  EXPECT_THAT([&] { into_object(model); },
              Fails(Errc::structure_mismatch,
                    HasSubstr("'state' (handler cairn.tree/1): members that the tree lacks: 'weights'")));
}

TEST_F(LoadInto, TakeReturnsTheObject) {
  Counter counter;
  counter.value = 5;
  save_items({{"counter", counter}, {"model", to_tree(saved_)}});
  Counter again;
  Model model;

  Loaded loaded = load_items({{"counter", into(again)}, {"model", into(model)}});

  Loaded copy = loaded;
  EXPECT_EQ(&copy.take<Counter&>("counter"), &again);
  EXPECT_EQ(loaded.take<Counter>("counter").value, 5);
  EXPECT_EQ(loaded.take<Model>("model"), saved_);
}

TEST_F(LoadInto, TakeRefusesAnObjectOfAnotherType) {
  Pinned pinned;
  save_items({{"counter", pinned}, {"model", to_tree(saved_)}});

  Loaded loaded = load_items({{"counter", into(pinned)}, "model"});

  Loaded copy = loaded;
  EXPECT_THAT([&] { static_cast<void>(copy.take<Counter>("counter")); },
              Fails(Errc::type_mismatch, HasSubstr("'counter' was loaded into an object of type")));
  EXPECT_EQ(&loaded.take<Pinned&>("counter"), &pinned);
  EXPECT_THAT([&] { static_cast<void>(loaded.take<Counter&>("model")); },
              Fails(Errc::type_mismatch, HasSubstr("'model'")));
}

}  // namespace cairn::loaded_into
