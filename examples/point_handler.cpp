// SPDX-License-Identifier: Apache-2.0
// A handler for a type that cannot be changed: it casts while it loads, and describes without loading.
#include <cmath>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <cairn/cairn.hpp>
#include <nlohmann/json.hpp>

#include "own_folder.hpp"

// [types]
using Number = std::variant<std::int64_t, double>;
enum class NumberType { integer, real };

struct Point {
  Number x, y;
  bool operator==(const Point&) const = default;
};

struct AbstractPoint {  // What a load asks for, and what metadata answers.
  NumberType x, y;
};
// [/types]

NumberType type_of(const nlohmann::json& stored) {
  return stored.is_number_integer() ? NumberType::integer : NumberType::real;
}

Number cast(const nlohmann::json& stored, NumberType wanted) {
  if (wanted == NumberType::real) {
    return stored.get<double>();
  }
  return stored.is_number_integer() ? stored.get<std::int64_t>() : std::llround(stored.get<double>());
}

// [handler]
class PointHandler final : public cairn::CheckpointableHandler<Point, AbstractPoint> {
 public:
  std::string_view id() const noexcept override { return "example.point/1"; }

  // outlives: the caller keeps the point during the blocking phase, which is this coroutine
  cairn::Awaitable<cairn::Background<>> save(cairn::SaveContext context, const Point& point) const override {
    const auto number = [](auto value) { return nlohmann::json(value); };
    const nlohmann::json snapshot = {{"x", std::visit(number, point.x)}, {"y", std::visit(number, point.y)}};
    co_return context.write_file("point.json", snapshot.dump());
  }

  cairn::Awaitable<cairn::Background<Point>> load(cairn::LoadContext context,
                                                  std::optional<AbstractPoint> wanted) const override {
    co_return read(std::move(context), wanted);
  }

  cairn::Awaitable<AbstractPoint> metadata(cairn::LoadContext context) const override {
    const std::string text = co_await context.read_file("point.json");
    const auto stored = nlohmann::json::parse(text);
    co_return AbstractPoint{type_of(stored.at("x")), type_of(stored.at("y"))};
  }

  cairn::Description describe(const AbstractPoint& stored) const override {
    const auto kind = [](NumberType type) { return type == NumberType::integer ? "integer" : "real"; };
    cairn::Description description;
    description.kind = "point";
    description.values = {{"x", kind(stored.x), {}}, {"y", kind(stored.y), {}}};
    description.texts = {"point.json"};
    return description;
  }

 private:
  static cairn::Background<Point> read(cairn::LoadContext context, std::optional<AbstractPoint> wanted) {
    const std::string text = co_await context.read_file("point.json");
    const auto stored = nlohmann::json::parse(text);
    const auto types = wanted.value_or(AbstractPoint{type_of(stored.at("x")), type_of(stored.at("y"))});
    co_return Point{cast(stored.at("x"), types.x), cast(stored.at("y"), types.y)};
  }
};
// [/handler]

int main() try {
  enter_own_folder("point_handler");
  // [use]
  cairn::register_handler<PointHandler>();
  const Point point = {std::int64_t{1}, 2.4};
  cairn::save_checkpointables("run/7", {{"point", point}});

  const AbstractPoint wanted = {NumberType::real, NumberType::integer};
  cairn::Loaded loaded = cairn::load_checkpointables("run/7", {{"point", wanted}});
  const auto converted = loaded.take<Point>("point");  // {1.0, 2}

  const auto metadata = cairn::checkpointables_metadata("run/7");
  const bool is_integer = metadata.at("point").as<AbstractPoint>().x == NumberType::integer;
  const std::string kind = metadata.at("point").description().values.front().kind;  // "integer"
  // [/use]
  // [check]
  cairn::ContextOptions options;
  options.check_handlers = true;  // In tests, and when values in a checkpoint are not what they should be.
  const cairn::Context checking(options);
  const auto checked = cairn::save_checkpointables("run/checked", {{"point", point}}, checking);
  const bool is_all_checked = checked.problems.empty();  // Otherwise they say what was not checked, and why.
  // [/check]
  const bool is_right =
      converted == Point{1.0, std::int64_t{2}} && is_integer && kind == "integer" && is_all_checked;
  std::cout << "point "
            << (is_right ? "saved, described, and cast while loading" : "is not what it should be") << '\n';
  return is_right ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
