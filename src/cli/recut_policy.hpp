// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/sharding/policy.hpp"

namespace cairn::cli {

/// How arrays are divided among files.
struct RecutArguments {
  RecutArguments() = default;

  std::uint64_t parts = 0;           ///< Equal parts of each array, and as many files; 0: not asked for.
  std::optional<std::size_t> axis;   ///< Along which; nothing: the first.
  std::uint64_t max_file_bytes = 0;  ///< Files of at most so many bytes; 0: not asked for.
  std::uint64_t tile_bytes = 0;      ///< Tiles in the files; 0: none.
  bool is_one_file = false;
};

/// As many files as parts: each has its part of every array, cut as ranks cut it that divide it equally: blocks of
/// ceil(n / parts), the last ones shorter or missing. What has no such axis, and packed types, are in the first file.
class EqualParts final : public ShardingPolicy {
 public:
  EqualParts(std::uint64_t parts, std::size_t axis) : parts_(parts), axis_(axis) {}

  [[nodiscard]] std::string description() const override;
  /// Errors: Errc::invalid_argument when no array has the axis.
  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override;

 private:
  std::uint64_t parts_;
  std::size_t axis_;
};

/// Errors: UsageError when nothing is asked for, or two things that exclude each other.
[[nodiscard]] std::shared_ptr<const ShardingPolicy> policy_of(const RecutArguments& arguments);

}  // namespace cairn::cli
