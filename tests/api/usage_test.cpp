// SPDX-License-Identifier: Apache-2.0
// The programs that the public interface exists for.
#include <cmath>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "api/fixture.hpp"

// A named namespace: g++ 12 warns where a coroutine template is instantiated with types of an unnamed one.
namespace cairn::usage {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;

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

using Number = std::variant<std::int64_t, double>;

enum class NumberType { integer, real };

struct Point {
  Number x, y;
  bool operator==(const Point&) const = default;
};

struct AbstractPoint {
  NumberType x, y;
};

NumberType type_of(const nlohmann::json& stored) {
  return stored.is_number_integer() ? NumberType::integer : NumberType::real;
}

nlohmann::json to_json(const Number& number) {
  return std::visit([](auto value) { return nlohmann::json(value); }, number);
}

Number cast(const nlohmann::json& stored, NumberType wanted) {
  if (wanted == NumberType::real) {
    return stored.get<double>();
  }
  return stored.is_number_integer() ? stored.get<std::int64_t>() : std::llround(stored.get<double>());
}

class PointHandler final : public CheckpointableHandler<Point, AbstractPoint> {
 public:
  std::string_view id() const noexcept override { return "example.point/1"; }

  // outlives: the caller keeps the point during the blocking phase, which is this coroutine.
  Awaitable<Background<>> save(SaveContext context, const Point& point) const override {
    const nlohmann::json snapshot = {{"x", to_json(point.x)}, {"y", to_json(point.y)}};
    co_return context.write_file("point.json", snapshot.dump());
  }

  Awaitable<Background<Point>> load(LoadContext context, std::optional<AbstractPoint> wanted) const override {
    co_return read(std::move(context), wanted);
  }

  Awaitable<AbstractPoint> metadata(LoadContext context) const override {
    const std::string text = co_await context.read_file("point.json");
    const auto stored = nlohmann::json::parse(text);
    co_return AbstractPoint{type_of(stored.at("x")), type_of(stored.at("y"))};
  }

 private:
  static Background<Point> read(LoadContext context, std::optional<AbstractPoint> wanted) {
    const std::string text = co_await context.read_file("point.json");
    const auto stored = nlohmann::json::parse(text);
    const auto types = wanted.value_or(AbstractPoint{type_of(stored.at("x")), type_of(stored.at("y"))});
    co_return Point{cast(stored.at("x"), types.x), cast(stored.at("y"), types.y)};
  }
};

class Usage : public testing::ApiTest {
 protected:
  static ContextOptions with_points() {
    ContextOptions options = small();
    options.registry.add<PointHandler>();
    return options;
  }

  Usage() : ApiTest(with_points()) {}

  const std::vector<float> w_{1, 2, 3, 4};
  const std::vector<float> b_{5, 6};
  const Tree state_ = {{"params", {{"w", w_}, {"b", b_}}}, {"optimizer", {{"m", w_}}}, {"step", 100}};
};

TEST_F(Usage, AFirstCheckpoint) {
  save(target(), state_);

  EXPECT_EQ(load(target()), state_);
}

TEST_F(Usage, TypesOfOnesOwn) {
  Counter counter;
  counter.value = 41;
  save_checkpointables(
      target(), {{"point", Point{std::int64_t{1}, 2.4}}, {"counter", counter}, {"model", state_}}, *context_);
  counter.value = 0;

  Counter restored;
  const AbstractPoint wanted{NumberType::real, NumberType::integer};
  Loaded loaded = load_checkpointables(target(), {{"point", wanted}, {"counter", into(restored)}, "model"},
                                       {}, *context_);

  EXPECT_EQ(loaded.take<Point>("point"), (Point{1.0, std::int64_t{2}}));
  EXPECT_EQ(restored.value, 41);
  EXPECT_EQ(loaded.take<Tree>("model"), state_);
}

TEST_F(Usage, MetadataOfATypeOfOnesOwn) {
  save_checkpointables(target(), {{"point", Point{std::int64_t{1}, 2.4}}}, *context_);

  const CheckpointMetadata metadata = checkpointables_metadata(target(), *context_);

  EXPECT_EQ(metadata.at("point").as<AbstractPoint>().y, NumberType::real);
}

Awaitable<> checkpoint(const Context* context, std::filesystem::path path, const Tree* state,
                       SaveResult* result) {
  const AsyncResponse saving = save_async(path, *state, return_when_accepted, *context);
  co_await saving.staged();
  *result = co_await saving.committed();
}

TEST_F(Usage, InsideAnAsioProgram) {
  boost::asio::io_context io;
  SaveResult result;
  std::exception_ptr failure;
  boost::asio::co_spawn(io, checkpoint(&*context_, target(), &state_, &result),
                        [&failure](std::exception_ptr thrown) { failure = thrown; });

  io.run();

  EXPECT_EQ(failure, nullptr);
  EXPECT_EQ(result.path, target());
  EXPECT_GT(result.rate(), 0);
}

TEST_F(Usage, ALoadThatAsksForSomething) {
  save(target(), state_, {}, *context_);
  std::vector<float> weights(4);

  AbstractTree wanted = metadata(target(), *context_);
  wanted["params"]["b"].set_dtype(DType::bfloat16);
  wanted["params"]["w"].place_into(weights);
  wanted["optimizer"] = placeholder;
  const Tree state = load(target(), wanted, {}, *context_);

  EXPECT_EQ(weights, w_);
  EXPECT_EQ(state.at("params/b").as<Array>().dtype(), DType::bfloat16);
  EXPECT_FALSE(state.contains("optimizer/m"));
  EXPECT_EQ(state.get<int>("step"), 100);
}

/// Loads itself from nothing.
struct Empty {
  static Background<> nothing() { co_return; }
  Awaitable<Background<>> save(SaveContext) const { co_return nothing(); }
  Awaitable<Background<>> load(LoadContext) { co_return nothing(); }
};

TEST_F(Usage, CheckpointablesThatWouldBeLoadedOverEachOtherAreRefused) {
  std::vector<float> memory(7);
  AbstractTree tree;
  tree["w"] = AbstractArray({4}, DType::float32);
  tree["w"].place_into(MutableArrayView(memory.data(), {4}, DType::float32));
  AbstractArray array({4}, DType::float32);
  array.place_into(MutableArrayView(memory.data() + 3, {4}, DType::float32));
  Empty object;

  const auto load_all = [&](const Requests& requests) {
    static_cast<void>(load_checkpointables("nowhere", requests, {}, *context_));
  };
  EXPECT_THAT(
      [&] {
        load_all({{"model", tree}, {"ema", array}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'model/w' and 'ema'")));
  EXPECT_THAT(
      [&] {
        load_all({{"one", into(object)}, {"two", into(object)}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'one' and 'two' are to be loaded into one object")));
}

TEST_F(Usage, ATool) {
  save(target(), state_, {}, *context_);
  std::vector<std::string> lines;

  const CheckpointMetadata metadata = checkpointables_metadata(target(), *context_);
  for (const auto& [name, item] : metadata) {
    const ArrayEntries entries = arrays(item);
    for (const ArrayEntry& array : entries) {
      lines.push_back(name + "/" + std::string(array.name) + " " + std::string(cairn::name(array.dtype)) +
                      " " + to_string(array.shape));
    }
  }

  EXPECT_THAT(lines,
              ElementsAre("state/optimizer/m F32 [4]", "state/params/b F32 [2]", "state/params/w F32 [4]"));
}

}  // namespace cairn::usage
