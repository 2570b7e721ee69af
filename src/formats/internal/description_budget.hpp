// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace cairn::formats {

/// Bounds what a description takes in memory by the size of the file that it was read from: nodes of a pickle are
/// shared, and followed into a tree they can be more than the world has memory for.
///
/// A byte of a description is in memory three times at most: a catalogue while it grows, the columns of an index, and
/// the index. So a third of the bound is what callers may take.
class DescriptionBudget {
 public:
  /// A reader takes at most so many bytes for each byte of its input, and kSpareBytes more.
  static constexpr std::uint64_t kTimesInput = 128;
  static constexpr std::uint64_t kSpareBytes = std::uint64_t{16} << 20;

  DescriptionBudget(std::uint64_t input_bytes, std::string_view path)
      : path_(path), most_bytes_(kTimesInput * input_bytes + kSpareBytes), left_(most_bytes_ / kCopies) {}

  /// Takes a leaf, and so many bytes for its path and value.
  ///
  /// Errors: Errc::malformed_metadata, naming the bound, when it is too much; all of these.
  void take(std::uint64_t bytes) { spend(kLeafBytes + bytes); }

  /// Takes so many elements of a ScalarList, and so many bytes for the path of each of them.
  void take_elements(std::uint64_t count, std::uint64_t path_bytes);

 private:
  static constexpr std::uint64_t kCopies = 3;
  // A ForeignValue, which is there twice while its vector grows.
  static constexpr std::uint64_t kLeafBytes = 72;
  // Three times: an entry of the index, and what a load selects of it. Making the index takes less.
  static constexpr std::uint64_t kElementBytes = 24;

  void spend(std::uint64_t bytes);

  std::string_view path_;
  std::uint64_t most_bytes_;
  std::uint64_t left_;
};

}  // namespace cairn::formats
