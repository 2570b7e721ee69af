// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace cairn::formats {

/// Bounds what a description becomes by the size of the file that it was read from: nodes of a pickle are shared, and
/// followed into a tree they can be more than the world has memory for.
class DescriptionBudget {
 public:
  DescriptionBudget(std::uint64_t input_bytes, std::string_view path)
      : path_(path), leaves_(4 * input_bytes + 1024), bytes_((std::uint64_t{8} << 20) + 8 * input_bytes) {}

  /// Takes a leaf, and so many bytes for its path and value.
  ///
  /// Errors: Errc::malformed_metadata when it is too many.
  void take(std::uint64_t bytes);

 private:
  std::string_view path_;
  std::uint64_t leaves_;
  std::uint64_t bytes_;
};

}  // namespace cairn::formats
