// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cairn/array/shape.hpp>
#include <cairn/sharding/sharding.hpp>

#include "digits/training_state.hpp"

namespace sharded {

/// One array of digits::Parameters.
struct Layer {
  const char* name;  ///< In checkpoints.
  std::vector<float> digits::Parameters::*values;
  cairn::Shape shape;
};

const std::array<Layer, 4>& layers();

/// The moments, divided by rows among the ranks. What does not divide evenly leaves some of them less, or
/// nothing.
cairn::Sharding rows_of(std::uint32_t ranks);

/// Where the elements of each rank begin in an array that is divided by rows, and at last where the array
/// ends.
std::vector<std::size_t> row_begins(const cairn::Sharding& rows, const cairn::Shape& shape);

/// The elements of `values` that belong to `rank`.
template <class T>
std::span<T> own_part(std::span<T> values, std::span<const std::size_t> begins, std::uint32_t rank) {
  return values.subspan(begins[rank], begins[rank + 1] - begins[rank]);
}

}  // namespace sharded
