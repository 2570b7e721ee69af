// SPDX-License-Identifier: Apache-2.0
#include "cairn/staging/pieces.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/stream_copy.hpp"
#include "staging/device_batch.hpp"
#include "staging/internal/device_pieces.hpp"

namespace cairn {
namespace {

/// Calls `visit(piece, offset within the piece, offset within the range, bytes)` for every piece of an
/// arranged list that has bytes in `[begin, begin + size)`, in order.
template <class Piece, class Visit>
void visit_range(std::span<Piece> pieces, std::uint64_t begin, std::uint64_t size, Visit visit) {
  const std::uint64_t end = begin + size;
  auto piece = std::upper_bound(pieces.begin(), pieces.end(), begin, [](auto offset, const auto& p) {
    return offset < p.offset_bytes + p.size_bytes;
  });
  for (; piece != pieces.end() && piece->offset_bytes < end; ++piece) {
    const std::uint64_t from = std::max(begin, piece->offset_bytes);
    CAIRN_ASSERT(from - piece->offset_bytes <= piece->size_bytes,
                 "a range meets the pieces that it is given to");
    const std::uint64_t to = std::min(end, piece->offset_bytes + piece->size_bytes);
    if (from < to) {
      visit(*piece, from - piece->offset_bytes, from - begin, static_cast<std::size_t>(to - from));
    }
  }
}

template <class Piece>
void arrange_pieces(std::vector<Piece>& pieces, std::uint64_t file_bytes) {
  std::erase_if(pieces, [](const Piece& piece) { return piece.size_bytes == 0; });
  const auto by_offset = [](const Piece& a, const Piece& b) { return a.offset_bytes < b.offset_bytes; };
  if (!std::is_sorted(pieces.begin(), pieces.end(), by_offset)) {
    std::sort(pieces.begin(), pieces.end(), by_offset);
  }
  std::uint64_t end = 0;
  for (const Piece& piece : pieces) {
    if (piece.offset_bytes < end) {
      throw Error(Errc::invalid_argument,
                  fmt::format("two pieces of a file overlap at byte {}", piece.offset_bytes));
    }
    if (piece.offset_bytes > file_bytes || piece.size_bytes > file_bytes - piece.offset_bytes) {
      throw Error(Errc::invalid_argument,
                  fmt::format("a piece of {} bytes at {} reaches beyond a file of {} bytes", piece.size_bytes,
                              piece.offset_bytes, file_bytes));
    }
    end = piece.offset_bytes + piece.size_bytes;
  }
}

template <class Piece>
decltype(Piece::data) contiguous_run(std::span<const Piece> pieces, std::uint64_t begin, std::uint64_t size) {
  decltype(Piece::data) run = nullptr;
  visit_range(pieces, begin, size, [&](const Piece& piece, std::uint64_t within, auto, std::size_t bytes) {
    if (bytes == size && piece.data != nullptr) {
      run = piece.data + within;
    }
  });
  return run;
}

/// Reads the bytes of the range that pieces have; calls `skip(begin, end)` for those of `out` that none has.
template <class Skip>
void read_pieces(std::span<const SourcePiece> pieces, std::uint64_t begin_bytes, std::span<std::byte> out,
                 DeviceTransfers& started, Skip skip) {
  staging::DeviceBatch batch;
  std::size_t filled = 0;
  visit_range(pieces, begin_bytes, out.size(),
              [&](const SourcePiece& piece, std::uint64_t within, std::uint64_t at, std::size_t bytes) {
                CAIRN_ASSERT(at >= filled && at + bytes <= out.size(),
                             "pieces fill a range from its begin to its end");
                skip(filled, static_cast<std::size_t>(at));
                filled = static_cast<std::size_t>(at) + bytes;
                if (piece.data != nullptr) {
                  stream_copy(out.data() + at, piece.data + within, bytes);
                } else if (const DeviceRegion region = piece.source->on_device(); region.copier != nullptr) {
                  batch.add(*region.copier, {region.data + within, out.data() + at, bytes}, *piece.source);
                } else {
                  piece.source->read(within, out.subspan(at, bytes));
                }
              });
  skip(filled, out.size());
  batch.start(CopyDirection::to_host, started);
}

}  // namespace

void arrange(std::vector<SourcePiece>& pieces, std::uint64_t file_bytes) {
  arrange_pieces(pieces, file_bytes);
}

void arrange(std::vector<DestinationPiece>& pieces, std::uint64_t file_bytes) {
  arrange_pieces(pieces, file_bytes);
}

void gather(std::span<const SourcePiece> pieces, std::uint64_t begin_bytes, std::span<std::byte> out) {
  DeviceTransfers started;
  gather(pieces, begin_bytes, out, started);
  started.wait();
}

void gather(std::span<const SourcePiece> pieces, std::uint64_t begin_bytes, std::span<std::byte> out,
            DeviceTransfers& started) {
  read_pieces(pieces, begin_bytes, out, started, [out](std::size_t begin, std::size_t end) {
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(begin),
              out.begin() + static_cast<std::ptrdiff_t>(end), std::byte{});
  });
}

void gather_onto(std::span<const SourcePiece> pieces, std::uint64_t begin_bytes, std::span<std::byte> out) {
  DeviceTransfers started;
  read_pieces(pieces, begin_bytes, out, started, [](std::size_t, std::size_t) {});
  started.wait();
}

void scatter(std::span<const DestinationPiece> pieces, std::uint64_t begin_bytes,
             std::span<const std::byte> in) {
  staging::DeviceBatch batch;
  visit_range(pieces, begin_bytes, in.size(),
              [&](const DestinationPiece& piece, std::uint64_t within, std::uint64_t at, std::size_t bytes) {
                CAIRN_ASSERT(within + bytes <= piece.size_bytes && at + bytes <= in.size(),
                             "a piece takes no more than it has room for");
                if (piece.data != nullptr) {
                  if (piece.data + within != in.data() + at) {
                    std::memcpy(piece.data + within, in.data() + at, bytes);
                  }
                } else if (piece.sink == nullptr) {
                  // They are looked at only.
                } else if (const DeviceRegion region = piece.sink->on_device(); region.copier != nullptr) {
                  batch.add(*region.copier, {in.data() + at, region.data + within, bytes}, *piece.sink);
                } else {
                  piece.sink->write(within, in.subspan(at, bytes));
                }
                if (piece.check != nullptr) {
                  piece.check->take(begin_bytes + at, in.subspan(at, bytes));
                }
              });
  DeviceTransfers started;
  batch.start(CopyDirection::to_device, started);
  started.wait();
}

const std::byte* contiguous(std::span<const SourcePiece> pieces, std::uint64_t begin_bytes,
                            std::uint64_t size_bytes) {
  return contiguous_run(pieces, begin_bytes, size_bytes);
}

std::byte* contiguous(std::span<const DestinationPiece> pieces, std::uint64_t begin_bytes,
                      std::uint64_t size_bytes) {
  return contiguous_run(pieces, begin_bytes, size_bytes);
}

}  // namespace cairn
