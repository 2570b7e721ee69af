// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

#include "cli/elements.hpp"
#include "cli/selection.hpp"

namespace cairn::cli {

/// Where an array is.
struct ArrayPlace {
  std::filesystem::path source;  ///< The checkpoint, checkpointable or foreign file.
  std::string item;
  std::string layout;  ///< Of a foreign file.
  std::string path;    ///< In the checkpointable.
  DType dtype{};
  Shape shape;
};

/// Along one dimension: the elements that are shown, all that is selected or both of its ends, and those that are read.
struct WindowSide {
  std::vector<std::uint64_t> shown;
  std::size_t gap = 0;  ///< Before this one some are left out; 0: none are.
  std::vector<SelectedRange> read;
  bool is_index = false;
};

/// Holds what is shown of a selection. Only that is read, and where elements share bytes a few beside it.
///
/// Invariant: one side for each dimension of the array.
struct Window {
  std::vector<WindowSide> sides;
};

/// Shows all of a selection of at most `limit` elements, and the corners of a larger one, as numpy does.
///
/// Errors: Errc::invalid_argument, which names `title`, when even its corners are more than `limit`.
[[nodiscard]] Window plan_window(std::string_view title, const ArrayPlace& array, const Selection& selection,
                                 std::uint64_t limit);

/// Reads and verifies what a window shows, and gives each element of it to `take`, row-major.
///
/// Errors: as ArrayReader's constructor and `start`, and ArrayReading::wait.
void read_window(const ArrayPlace& array, const Window& window,
                 const std::function<void(const Elements& elements, std::size_t i)>& take);

}  // namespace cairn::cli
