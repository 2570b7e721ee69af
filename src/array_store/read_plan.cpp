// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "array_store/array_bytes.hpp"
#include "array_store/internal/reader.hpp"
#include "array_store/read_steps.hpp"
#include "array_store/sum_check.hpp"
#include "formats/internal/index.hpp"
#include "formats/internal/zip.hpp"

namespace cairn::array_store {
namespace {

/// Makes one piece of what lies side by side in the file and in memory, so that it is read to where it belongs.
bool extend(std::vector<DestinationPiece>& pieces, const Region& region, const Array& array) {
  if (pieces.empty()) {
    return false;
  }
  DestinationPiece& last = pieces.back();
  const bool continues = last.data != nullptr && last.owner == array.owner() &&
                         last.offset_bytes + last.size_bytes == region.begin &&
                         last.data + last.size_bytes == array.view().data();
  last.size_bytes += continues ? region.end - region.begin : 0;
  return continues;
}

/// Shows the bytes of a region to a check where all of them are read, and their sum is known.
void add_check(const formats::Index& index, const ReadArray& array, const Region& region,
               std::span<DestinationPiece> pieces) {
  const formats::IndexSlice slice = index.slice(array.stored, region.slice);
  std::uint64_t bytes = 0;
  for (const DestinationPiece& piece : pieces) {
    bytes += piece.size_bytes;
  }
  if (!slice.crc32 || bytes != region.end - region.begin) {
    return;
  }
  const auto check = std::make_shared<SumCheck>(
      region.begin, region.end, *slice.crc32,
      [what = fmt::format("{}/{}: {}", index.path(), slice.file, formats::shown(array.stored.name))] {
        throw Error(Errc::checksum_mismatch, fmt::format("{}: its bytes are not what was written", what));
      });
  for (DestinationPiece& piece : pieces) {
    piece.check = check;
  }
}

/// By which policies the files were made that are read.
NotesByFile notes_of(const formats::Index& index, const PiecesByFile& pieces) {
  NotesByFile notes;
  for (std::size_t i = 0; index.policy_count() > 0 && i < index.file_count(); ++i) {
    const std::string_view file = index.file(i);
    if (pieces.contains(file)) {
      notes.emplace(file, shown_policy(index.policy_of_file(i)));
    }
  }
  return notes;
}

}  // namespace

std::vector<DestinationPiece> make_pieces(const formats::Index& index, std::span<const ReadArray> arrays,
                                          const Regions& regions, std::span<const Array> memory) {
  std::vector<DestinationPiece> pieces;
  pieces.reserve(regions.size());
  const bool has_sums =
      index.foreign() != nullptr && !index.foreign()->slices.empty() && formats::can_compute_crc32();
  for (const Region& region : regions) {
    const ReadArray& array = arrays[region.array];
    const std::size_t first = pieces.size();
    if (array.boxes != nullptr || array.stored.slice_count > 1 || array.has_form) {
      add_box_pieces(index, array, region, memory, pieces);
    } else if (has_sums || !array.is_small || !extend(pieces, region, memory[array.first])) {
      const Array& to = memory[array.first];
      pieces.push_back(make_piece(region.begin, region.end,
                                  {array.stored.dtype, to.mutable_view(), to.owner(), array.copier},
                                  array.narrowing, array.stored.name));
    }
    if (has_sums) {
      add_check(index, array, region, std::span(pieces).subspan(first));
    }
  }
  return pieces;
}

namespace {

/// The pieces of one file. Those that share bytes, as of an array that is read several times, are of several lists.
std::vector<DestinationPiece> pieces_of_file(const formats::Index& index, std::span<const ReadArray> arrays,
                                             const Regions& regions, std::span<const Array> memory) {
  const auto overlap = [](const Region& a, const Region& b) { return b.begin < a.end; };
  if (std::adjacent_find(regions.begin(), regions.end(), overlap) == regions.end()) {
    return make_pieces(index, arrays, regions, memory);
  }
  // Each region goes to the list that ends first, if that is before it.
  std::vector<Regions> apart;
  std::priority_queue<std::pair<std::uint64_t, std::size_t>,
                      std::vector<std::pair<std::uint64_t, std::size_t>>, std::greater<>>
      ends;
  for (const Region& region : regions) {
    std::size_t list = apart.size();
    if (!ends.empty() && ends.top().first <= region.begin) {
      list = ends.top().second;
      ends.pop();
    } else {
      apart.emplace_back();
    }
    apart[list].push_back(region);
    ends.emplace(region.end, list);
  }
  std::vector<std::vector<DestinationPiece>> lists;
  for (const Regions& at_once : apart) {
    lists.push_back(make_pieces(index, arrays, at_once, memory));
  }
  return join_pieces(std::move(lists));
}

}  // namespace

ReadPlan plan_read(const formats::Index& index, std::span<const WantedArray> wanted,
                   const ReadOptions& options, const StoredFiles& files) {
  LocatedArrays located = locate(index, wanted, options);
  check_foreign(index, located, files);
  RegionsByFile regions = check_regions(index, located.arrays, std::move(located.regions), files);
  ReadPlan plan;
  plan.arrays.resize(located.count);
  if (options.map) {
    map_arrays(located.arrays, regions, files, plan.arrays);
  }
  allocate(located.arrays, regions, plan.arrays);
  for (const auto& [file, in_file] : regions) {
    if (!in_file.empty()) {
      plan.pieces.emplace(file, pieces_of_file(index, located.arrays, in_file, plan.arrays));
    }
  }
  plan.notes = notes_of(index, plan.pieces);
  return plan;
}

Awaitable<> StoredFiles::read_files(PiecesByFile pieces, NotesByFile /*notes*/) const {
  std::vector<Awaitable<>> reads;
  for (auto& [file, in_file] : pieces) {
    reads.push_back(read_pieces(file, std::move(in_file)));
    async::require_coroutine(reads.back(), "'read_pieces'");
  }
  return async::when_all(std::move(reads));
}

Awaitable<> read(std::shared_ptr<const StoredFiles> files, PiecesByFile pieces, NotesByFile notes) {
  Awaitable<> reading = files->read_files(std::move(pieces), std::move(notes));
  async::require_coroutine(reading, "'read_files'");
  co_await std::move(reading);  // Keeps the files.
}

Awaitable<> read(std::shared_ptr<const StoredFiles> files, PiecesByFile pieces) {
  return read(std::move(files), std::move(pieces), NotesByFile());
}

}  // namespace cairn::array_store
