// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/each_rank.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"
#include "cairn/sharding/sharding.hpp"

#include "handlers/internal/packed_tree.hpp"

namespace cairn {
namespace {

/// What a row of bytes begins with: then come the length of the value and the value.
constexpr std::string_view kMagic("CRNVALUE", 8);
constexpr std::size_t kHeadBytes = kMagic.size() + sizeof(std::uint64_t);

Shape with_rows(std::uint64_t rows, const Shape& row) {
  std::vector<std::uint64_t> extents = {rows};
  extents.insert(extents.end(), row.begin(), row.end());
  return Shape(extents);
}

Box row_box(std::uint64_t number, const Shape& whole) {
  Shape offsets(whole.size(), 0);
  Shape extents = whole;
  offsets[0] = number;
  extents[0] = 1;
  return {std::move(offsets), std::move(extents)};
}

/// A row of bytes that holds a value.
Array bytes_row(const Tree& value, std::uint64_t room) {
  const std::string text = pack_tree(value, formats::kValueOfRank);
  if (room < kHeadBytes || text.size() > room - kHeadBytes) {
    throw Error(Errc::invalid_argument,
                fmt::format("a value of each rank takes {} bytes, and has room for {}; give all ranks more",
                            text.size() + kHeadBytes, room));
  }
  std::vector<std::uint8_t> row(static_cast<std::size_t>(room));
  const std::uint64_t size = text.size();
  std::memcpy(row.data(), kMagic.data(), kMagic.size());
  std::memcpy(row.data() + kMagic.size(), &size, sizeof size);
  std::memcpy(row.data() + kHeadBytes, text.data(), text.size());
  return Array::adopt(std::move(row));
}

/// The value of a row of bytes, or the row itself where it is an array that was saved.
Tree value_of(const Array& row) {
  const auto bytes = row.view().is_contiguous() ? row.view().bytes() : std::span<const std::byte>();
  const bool is_bytes = row.dtype() == DType::uint8 && row.shape().size() == 1 &&
                        bytes.size() >= kHeadBytes &&
                        std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
  if (!is_bytes) {
    return row;
  }
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data() + kMagic.size(), sizeof size);
  if (size > bytes.size() - kHeadBytes) {
    throw Error(Errc::malformed_metadata,
                fmt::format("a value of a rank has {} bytes, in a row of {}", size, bytes.size()));
  }
  return unpack_tree(bytes.subspan(kHeadBytes, static_cast<std::size_t>(size)), "a value of a rank",
                     formats::kValueOfRank);
}

void add_rows(const Array& rows, std::vector<Tree>& values) {
  if (rows.shape().empty()) {
    throw Error(Errc::shape_mismatch, "the leaf is a scalar, and no value of each rank");
  }
  if (rows.shape()[0] >
      kMaxRanks) {  // Rows without elements take no bytes of a file, however many there are.
    throw Error(Errc::shape_mismatch, fmt::format("the leaf has {} rows, and a job has at most {} ranks",
                                                  rows.shape()[0], kMaxRanks));
  }
  const Shape shape(std::span<const std::uint64_t>(rows.shape()).subspan(1));
  for (std::uint64_t i = 0; i < rows.shape()[0]; ++i) {
    values.push_back(value_of(rows.part(row_box(i, rows.shape())).reshaped(shape)));
  }
}

}  // namespace

ShardedArray of_each_rank(const Tree& value, RankOfJob place, std::uint64_t room) {
  if (place.rank >= place.ranks) {
    throw Error(Errc::invalid_argument, fmt::format("there is no rank {} among {}", place.rank, place.ranks));
  }
  const Array* array = value.array_if();
  const Array row = array != nullptr ? *array : bytes_row(value, room);
  const Shape whole = with_rows(place.ranks, row.shape());
  std::vector<Shard> shards;
  shards.push_back({row_box(place.rank, whole), row.reshaped(with_rows(1, row.shape()))});
  return {whole, row.dtype(), std::move(shards), detail::layout_of_each_rank(place.ranks)};
}

std::shared_ptr<const Layout> detail::layout_of_each_rank(std::uint32_t ranks) {
  return std::make_shared<const Sharding>(Sharding::of_spec(Mesh({ranks}, {"rank"}), {{"rank"}}));
}

AbstractTree of_rank(const AbstractTree& stored, std::uint32_t rank) {
  AbstractTree opened = stored;
  AbstractArray& array = opened.as_array();
  if (array.shape.empty() || rank >= array.shape[0]) {
    throw Error(Errc::invalid_argument,
                fmt::format("the value of rank {} is wanted, and {} ranks have saved theirs", rank,
                            array.shape.empty() ? 0 : array.shape[0]));
  }
  array.want(row_box(rank, array.shape));
  return opened;
}

std::vector<Tree> values_of_ranks(const Tree& leaf) {
  std::vector<Tree> values;
  if (const ShardedArray* sharded = leaf.sharded_array_if()) {
    for (const Shard& shard : sharded->shards()) {
      add_rows(shard.data, values);
    }
  } else {
    add_rows(leaf.as<Array>(), values);
  }
  return values;
}

}  // namespace cairn
