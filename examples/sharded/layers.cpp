// SPDX-License-Identifier: Apache-2.0
#include "sharded/layers.hpp"

#include <cairn/sharding/sharding.hpp>

#include "digits/dataset.hpp"

namespace sharded {

const std::array<Layer, 4>& layers() {
  using digits::Parameters;
  static const std::array<Layer, 4> layers = {{
      {"w1", &Parameters::w1, {digits::kPixels, digits::kHidden}},
      {"b1", &Parameters::b1, {digits::kHidden}},
      {"w2", &Parameters::w2, {digits::kHidden, digits::kClasses}},
      {"b2", &Parameters::b2, {digits::kClasses}},
  }};
  return layers;
}

cairn::Sharding rows_of(std::uint32_t ranks) {
  return cairn::Sharding::of_spec(cairn::Mesh({ranks}, {"data"}), {{"data"}});
}

std::vector<std::size_t> row_begins(const cairn::Sharding& rows, const cairn::Shape& shape) {
  std::vector<std::size_t> begins = {0};
  for (std::uint32_t rank = 0; rank < rows.ranks(); ++rank) {
    std::size_t elements = 0;
    for (const cairn::PlacedBox& placed : rows.boxes(rank, shape)) {
      elements += cairn::element_count(placed.box.extents()).value();
    }
    begins.push_back(begins.back() + elements);
  }
  return begins;
}

}  // namespace sharded
