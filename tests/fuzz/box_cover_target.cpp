// SPDX-License-Identifier: Apache-2.0
// The input is the shape of a small array and boxes, in it and beyond. The verdict is that of counting every element.
#include <system_error>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "array/internal/cover.hpp"
#include "fuzz/fuzzing.hpp"

namespace {

using cairn::Box;
using cairn::Errc;
using cairn::Shape;
using cairn::fuzz::require;

constexpr std::size_t kMostBoxes = 32;

Shape take_shape(cairn::fuzz::Input& input, std::size_t rank, std::uint8_t most) {
  Shape shape(rank, 0);
  for (std::uint64_t& extent : shape) {
    extent = input.take<std::uint8_t>() % (most + 1U);
  }
  return shape;
}

/// How often the boxes hold each element, the fewest and the most.
std::pair<std::size_t, std::size_t> count(const Shape& shape, const std::vector<Box>& boxes) {
  std::size_t fewest = kMostBoxes;
  std::size_t most = 0;
  const std::uint64_t elements = *cairn::element_count(shape);
  for (std::uint64_t element = 0; element < elements; ++element) {
    Shape place(shape.size(), 0);
    std::uint64_t rest = element;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      place[d] = rest % shape[d];
    }
    const Box one(place, Shape(shape.size(), 1));
    const auto holders = static_cast<std::size_t>(
        std::count_if(boxes.begin(), boxes.end(), [&](const Box& box) { return box.contains(one); }));
    fewest = std::min(fewest, holders);
    most = std::max(most, holders);
  }
  return {elements == 0 ? 1 : fewest, elements == 0 ? 1 : most};
}

std::error_code verdict(const Shape& shape, const std::vector<Box>& boxes) {
  try {
    cairn::check_cover("input", Box::whole(shape), boxes);
    return {};
  } catch (const cairn::Error& error) {
    return error.code();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cairn::fuzz::Input input(data, size);
  const std::size_t rank = input.take<std::uint8_t>() % 4;
  const Shape shape = take_shape(input, rank, 5);
  std::vector<Box> boxes;
  while (!input.rest().empty() && boxes.size() < kMostBoxes) {
    Shape offsets = take_shape(input, rank, 5);
    boxes.emplace_back(std::move(offsets), take_shape(input, rank, 5));
    if (rank == 0 && !input.rest().empty()) {
      static_cast<void>(input.take<std::uint8_t>());  // A box of no dimensions takes a byte, too.
    }
  }
  const std::error_code found = verdict(shape, boxes);
  ++(found ? cairn::fuzz::verdicts().refused : cairn::fuzz::verdicts().accepted);
  const auto [fewest, most] = count(shape, boxes);
  if (most > 1) {
    require(found == Errc::overlapping_shards, "an element that two boxes hold is found");
  } else if (fewest < 1) {
    require(found == Errc::incomplete_shards, "an element that no box holds is found");
  } else {
    require(!found, "boxes that tile the array are taken");
  }
  return 0;
}
