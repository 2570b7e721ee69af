// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <nlohmann/json.hpp>

#include "cairn/handlers/builtin.hpp"
#include "cairn/handlers/json.hpp"
#include "cairn/handlers/sharded_array.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/testing/handler_conformance.hpp"

#include "handlers/counter.hpp"
#include "support/memory_store.hpp"

namespace cairn::testing {
namespace {

struct TreeTraits {
  using Handler = TreeHandler;
  using Subject = Tree;

  static Tree make() {
    return {{"w", std::vector<float>(100'000, 1.5F)},
            {"n", {1, 2.5, nullptr}},
            {"s", "text"},
            {"e", Tree::map()}};
  }
  static Tree make(std::size_t /*rank*/, std::size_t /*ranks*/) { return make(); }
  static void change(Tree& tree) {
    tree["w"].as<Array>().data<float>()[99'999] = -1;
    tree["n"][0] = 9;
  }
  static bool equal(const Tree& a, const Tree& b) { return a == b; }
  static Request wrong(std::string name) { return {std::move(name), AbstractTree(TreeKind::map)}; }
};

struct ArrayTraits {
  using Handler = ArrayHandler;
  using Subject = std::vector<double>;

  static Subject make() { return Subject(100'000, 0.5); }
  static void change(Subject& values) { values.back() = 7; }
  static bool equal(const Subject& a, const Subject& b) { return a == b; }
  static Request wrong(std::string name) { return {std::move(name), AbstractArray({3}, DType::float64)}; }
};

struct ShardedArrayTraits {
  using Handler = ShardedArrayHandler;
  using Subject = ShardedArray;

  static Subject make() {
    const Array upper = Array::zeros({100, 500}, DType::float32);
    const Array lower = Array::zeros({50, 500}, DType::float32);
    return {
        {150, 500}, DType::float32, {{Box({0, 0}, {100, 500}), upper}, {Box({100, 0}, {50, 500}), lower}}};
  }
  /// Each shard is another rank's.
  static Subject make(std::size_t rank, std::size_t /*ranks*/) {
    const Subject whole = make();
    std::vector<Shard> mine;
    if (rank < whole.shards().size()) {
      mine.push_back(whole.shards()[rank]);
    }
    return {whole.shape(), whole.dtype(), std::move(mine)};
  }
  static void change(Subject& array) { array.shards()[1].data.data<float>().back() = 7; }
  static bool equal(const Subject& a, const Subject& b) { return a == b; }
  static Request wrong(std::string name) {
    return {std::move(name), AbstractShardedArray({3}, DType::float32)};
  }
};

struct JsonTraits {
  using Handler = JsonHandler;
  using Subject = nlohmann::json;

  static Subject make() { return {{"a", {1, 2}}}; }
  static void change(Subject& value) { value["a"] = 3; }
  static bool equal(const Subject& a, const Subject& b) { return a == b; }
  static Request wrong(std::string name) { return {std::move(name), AbstractJson(JsonKind::array)}; }
};

struct StatefulTraits {
  using Handler = StatefulHandler;
  using Subject = Counter;

  static Counter make() {
    Counter counter;
    counter.value = 5;
    return counter;
  }
  static void change(Counter& counter) { ++counter.value; }
  static bool equal(const Counter& a, const Counter& b) { return a.value == b.value; }
  static Request wrong(std::string name) { return {std::move(name), StatefulReference()}; }
};

struct Point {
  double x = 0;
  double y = 0;
};

struct AbstractPoint {
  AbstractPoint() = default;
  explicit AbstractPoint(bool wants_integers) : is_integer(wants_integers) {}

  bool is_integer = false;
};

/// A handler as a user writes it.
class PointHandler final : public CheckpointableHandler<Point, AbstractPoint> {
 public:
  std::string_view id() const noexcept override { return "example.point/1"; }

  // outlives: used before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Point& point) const override {
    const nlohmann::json snapshot = {{"x", point.x}, {"y", point.y}};
    co_return context.write_file("point.json", snapshot.dump());
  }

  Awaitable<Background<Point>> load(LoadContext context, std::optional<AbstractPoint> wanted) const override {
    co_return read(std::move(context), wanted.value_or(AbstractPoint()));
  }

  Awaitable<AbstractPoint> metadata(LoadContext /*context*/) const override { co_return AbstractPoint(); }

 private:
  static Background<Point> read(LoadContext context, AbstractPoint wanted) {
    const auto stored = nlohmann::json::parse(co_await context.read_file("point.json"));
    if (wanted.is_integer) {
      throw Error(Errc::unsafe_cast, "point.json: the coordinates are no integers");
    }
    Point point;
    point.x = stored.at("x");
    point.y = stored.at("y");
    co_return point;
  }
};

struct PointTraits {
  using Handler = PointHandler;
  using Subject = Point;

  static Point make() { return {1, 2.5}; }
  static void change(Point& point) { point.x = -1; }
  static bool equal(const Point& a, const Point& b) { return a.x == b.x && a.y == b.y; }
  static Request wrong(std::string name) { return {std::move(name), AbstractPoint(true)}; }
};

/// The mistake that the suite exists for: the background phase reads the caller's value.
class PointKeeper final : public CheckpointableHandler<Point, AbstractPoint> {
 public:
  std::string_view id() const noexcept override { return "example.point/1"; }

  // outlives: it does not, which is the mistake.
  Awaitable<Background<>> save(SaveContext context, const Point& point) const override {
    co_return write(std::move(context), &point);
  }

  Awaitable<Background<Point>> load(LoadContext context, std::optional<AbstractPoint> wanted) const override {
    return sound_.load(std::move(context), wanted);
  }

  Awaitable<AbstractPoint> metadata(LoadContext context) const override {
    return sound_.metadata(std::move(context));
  }

 private:
  static Background<> write(SaveContext context, const Point* point) {
    const nlohmann::json late = {{"x", point->x}, {"y", point->y}};
    co_await context.write_file("point.json", late.dump());
  }

  PointHandler sound_;
};

struct PointKeeperTraits : PointTraits {
  using Handler = PointKeeper;
};

/// The same mistake with a part that the test's change of the value leaves as it is.
struct StillPointKeeperTraits : PointKeeperTraits {
  static void change(Point& /*point*/) {}
};

using HandlerConformanceOfAKeeper = HandlerConformance<PointKeeperTraits>;
using HandlerConformanceOfAStillKeeper = HandlerConformance<StillPointKeeperTraits>;

TEST_F(HandlerConformanceOfAKeeper, IsFailedInEveryRun) {
  for (int run = 0; run < 20; ++run) {
    EXPECT_FALSE(keeps_the_value_of_the_blocking_phase());
    std::filesystem::remove_all(path());
  }
}

TEST_F(HandlerConformanceOfAKeeper, IsFoundToUseItsValueInEveryRun) {
  for (int run = 0; run < 20; ++run) {
    EXPECT_FALSE(leaves_the_value_alone());
  }
}

TEST_F(HandlerConformanceOfAStillKeeper, IsFoundWhateverTheChangeLeaves) {
  EXPECT_TRUE(keeps_the_value_of_the_blocking_phase());  // It cannot tell.
  std::filesystem::remove_all(path());

  EXPECT_FALSE(leaves_the_value_alone());
}

/// The same where checkpoints lie in memory.
template <class Traits>
struct InMemory : Traits {
  static ContextOptions context_options() {
    static const auto store = std::make_shared<const MemoryStore>();
    ContextOptions options;
    options.checkpoint_store = store;
    return options;
  }
};

using InMemoryTraits =
    ::testing::Types<InMemory<TreeTraits>, InMemory<ArrayTraits>, InMemory<ShardedArrayTraits>,
                     InMemory<JsonTraits>, InMemory<StatefulTraits>, InMemory<PointTraits>>;

INSTANTIATE_TYPED_TEST_SUITE_P(InMemory, HandlerConformance, InMemoryTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(Tree, HandlerConformance, TreeTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(Array, HandlerConformance, ArrayTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(ShardedArray, HandlerConformance, ShardedArrayTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(Json, HandlerConformance, JsonTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(Stateful, HandlerConformance, StatefulTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(Point, HandlerConformance, PointTraits);

}  // namespace
}  // namespace cairn::testing
