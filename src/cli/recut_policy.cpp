// SPDX-License-Identifier: Apache-2.0
#include "cli/recut_policy.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/sharding/policy.hpp"

#include "cli/usage_error.hpp"

namespace cairn::cli {
namespace {

/// Part `number` of the box along the axis; nothing when it would be empty.
std::optional<Box> part_of(const Box& whole, std::size_t axis, std::uint64_t parts, std::uint64_t number) {
  const std::uint64_t extent = whole.extents()[axis];
  const std::uint64_t block = extent / parts + (extent % parts != 0 ? 1 : 0);
  const std::uint64_t begin = std::min(extent, block * number);
  const std::uint64_t end = std::min(extent, begin + block);
  if (begin == end) {
    return std::nullopt;
  }
  Shape offsets = whole.offsets();
  Shape extents = whole.extents();
  offsets[axis] += begin;
  extents[axis] = end - begin;
  return Box(std::move(offsets), std::move(extents));
}

}  // namespace

std::string EqualParts::description() const {
  return fmt::format("Cuts arrays into {} equal parts along axis {}, each in a file.", parts_, axis_);
}

std::vector<FilePlan> EqualParts::operator()(std::span<const ShardableTensor> tensors) const {
  std::uint64_t longest = 0;
  for (const ShardableTensor& tensor : tensors) {
    longest = std::max(longest, tensor.full.size() > axis_ ? tensor.full[axis_] : 0);
  }
  if (longest == 0) {
    throw Error(Errc::invalid_argument, fmt::format("no array can be cut along axis {}", axis_));
  }
  std::vector<FilePlan> files(std::min(parts_, longest));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ShardableTensor& tensor = tensors[i];
    const Box region = tensor.region();
    if (tensor.full.size() <= axis_ || tensor.is_packed() || region.is_empty()) {
      files[0].push_back({i, std::nullopt, nullptr});
      continue;
    }
    for (std::size_t number = 0; number < files.size(); ++number) {
      if (std::optional<Box> part = part_of(region, axis_, parts_, number)) {
        files[number].push_back({i, std::move(part), nullptr});
      }
    }
  }
  std::erase_if(files, [](const FilePlan& file) { return file.empty(); });
  return files;
}

std::shared_ptr<const ShardingPolicy> policy_of(const RecutArguments& arguments) {
  const int kinds = int{arguments.parts > 0} + int{arguments.max_file_bytes > 0} + int{arguments.is_one_file};
  if (kinds > 1) {
    throw UsageError("--parts, --max-file and --one-file exclude each other");
  }
  if (kinds == 0 && arguments.tile_bytes == 0) {
    throw UsageError("choose one of --parts, --max-file, --one-file, --tiles");
  }
  if (arguments.axis && arguments.parts == 0) {
    throw UsageError("--axis goes with --parts");
  }
  std::shared_ptr<const ShardingPolicy> files;
  if (arguments.parts > 0) {
    files = std::make_shared<EqualParts>(arguments.parts, arguments.axis.value_or(0));
  } else if (arguments.max_file_bytes > 0) {
    files = std::make_shared<MaxFileSize>(arguments.max_file_bytes);
  } else if (arguments.is_one_file) {
    files = std::make_shared<AllInOne>();
  }
  if (arguments.tile_bytes == 0) {
    return files;
  }
  auto tiles = std::make_shared<Tiles>(arguments.tile_bytes);
  return files ? compose(std::move(files), std::move(tiles)) : tiles;
}

}  // namespace cairn::cli
