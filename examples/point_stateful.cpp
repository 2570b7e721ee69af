// SPDX-License-Identifier: Apache-2.0
// A type of one's own that saves itself: found by its members, without a base class and without registration.
#include <exception>
#include <iostream>
#include <string>
#include <utility>

#include <cairn/cairn.hpp>
#include <nlohmann/json.hpp>

#include "own_folder.hpp"

// [point]
class Point {
 public:
  double x = 0;
  double y = 0;

  cairn::Awaitable<cairn::Background<>> save(cairn::SaveContext context) const {
    const nlohmann::json snapshot = {{"x", x},
                                     {"y", y}};  // Made now: the caller may change the point afterwards.
    co_return context.write_file("point.json", snapshot.dump());
  }

  cairn::Awaitable<cairn::Background<>> load(cairn::LoadContext context) {
    co_return read(std::move(context));
  }

 private:
  cairn::Background<> read(cairn::LoadContext context) {
    const std::string text = co_await context.read_file("point.json");
    const auto stored = nlohmann::json::parse(text);
    x = stored.at("x").get<double>();
    y = stored.at("y").get<double>();
  }
};
static_assert(cairn::StatefulCheckpointable<Point>);
// [/point]

int main() try {
  enter_own_folder("point_stateful");
  // [use]
  Point point;
  point.x = 1;
  point.y = 2.4;
  cairn::save_checkpointables("run/1", {{"point", point}});

  Point restored;
  static_cast<void>(cairn::load_checkpointables("run/1", {{"point", cairn::into(restored)}}));
  // [/use]
  std::cout << "point (" << restored.x << ", " << restored.y << ")\n";
  return restored.x == point.x && restored.y == point.y ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
