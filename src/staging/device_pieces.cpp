// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/device_pieces.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/checked.hpp"
#include "base/internal/probe.hpp"
#include "staging/device_batch.hpp"

namespace cairn {
namespace {

std::string whose(const BytePlace& first, std::size_t count) {
  std::string text = first.describe();
  if (count > 1) {
    text += fmt::format(" and {} more", count - 1);
  }
  return text;
}

void copy_and_wait(const BytePlace& place, const DeviceCopy& copy, CopyDirection direction) {
  staging::DeviceBatch batch;
  batch.add(*place.on_device().copier, copy, place);
  DeviceTransfers started;
  batch.start(direction, started);
  started.wait();
}

template <class Piece>
const BytePlace* place_of(const Piece& piece) {
  if constexpr (requires { piece.source; }) {
    return piece.source.get();
  } else {
    return piece.sink.get();
  }
}

template <class Piece>
DeviceRegion region_of(const Piece& piece) {
  const BytePlace* place = piece.data == nullptr ? place_of(piece) : nullptr;
  return place == nullptr ? DeviceRegion() : place->on_device();
}

template <class Piece>
void follow_all(std::span<const Piece> pieces) {
  std::set<DeviceCopier*> copiers;
  for (const Piece& piece : pieces) {
    const BytePlace* place = piece.data == nullptr ? place_of(piece) : nullptr;
    if (place != nullptr) {
      place->add_copiers(copiers);
    }
  }
  for (DeviceCopier* copier : copiers) {
    copier->follow();
  }
}

/// Copies are placed as far from a multiple of this as they are in the file, so that both ends of what is
/// copied from them later are aligned alike.
constexpr std::uint64_t kAlignment = 4096;

/// Pieces of one device that lie side by side in the file.
struct Segment {
  std::size_t first = 0;  // Of the pieces.
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t place = 0;  // In the copy.
};

struct DevicePart {
  DeviceCopier* copier = nullptr;
  std::vector<Segment> segments;
  std::uint64_t bytes = 0;  // That the copy needs.
};

class SnapshotSource final : public DeviceSource {
 public:
  SnapshotSource(DeviceRegion region, std::shared_ptr<std::byte> memory, std::string what)
      : DeviceSource(region), memory_(std::move(memory)), what_(std::move(what)) {}

  [[nodiscard]] bool is_lasting() const override { return true; }
  [[nodiscard]] std::string describe() const override { return what_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::string what_;
};

std::vector<DevicePart> parts_of(std::span<const SourcePiece> pieces) {
  std::vector<DevicePart> parts;
  DevicePart* last = nullptr;  // The part of the piece before, when the next one may continue its segment.
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const SourcePiece& piece = pieces[i];
    DeviceCopier* copier = region_of(piece).copier;
    if (copier == nullptr || piece.source->is_lasting()) {
      last = nullptr;
      continue;
    }
    const bool continues = last != nullptr && last->copier == copier &&
                           pieces[i - 1].offset_bytes + pieces[i - 1].size_bytes == piece.offset_bytes;
    if (!continues) {
      const auto found = std::find_if(parts.begin(), parts.end(),
                                      [copier](const DevicePart& part) { return part.copier == copier; });
      last = found != parts.end() ? &*found : &parts.emplace_back(DevicePart{copier, {}, 0});
      last->segments.push_back(
          {i, 0, 0, round_up(last->bytes, kAlignment) + piece.offset_bytes % kAlignment});
    }
    Segment& segment = last->segments.back();
    ++segment.count;
    segment.bytes += piece.size_bytes;
    last->bytes = segment.place + segment.bytes;
  }
  return parts;
}

std::vector<DeviceCopy> copies_of(std::span<const SourcePiece> pieces, const DevicePart& part,
                                  std::byte* memory) {
  std::vector<DeviceCopy> copies;
  for (const Segment& segment : part.segments) {
    CAIRN_ASSERT(segment.first + segment.count <= pieces.size(), "a segment has pieces that there are");
    std::byte* to = memory + segment.place;
    for (const SourcePiece& piece : pieces.subspan(segment.first, segment.count)) {
      copies.push_back({region_of(piece).data, to, static_cast<std::size_t>(piece.size_bytes)});
      to += piece.size_bytes;
    }
  }
  return copies;
}

SourcePiece snapshot_of(std::span<const SourcePiece> pieces, const Segment& segment, const DevicePart& part,
                        const std::shared_ptr<std::byte>& memory) {
  const SourcePiece& first = pieces[segment.first];
  SourcePiece piece;
  piece.offset_bytes = first.offset_bytes;
  piece.size_bytes = segment.bytes;
  piece.source = std::make_shared<SnapshotSource>(
      DeviceRegion{part.copier, memory.get() + segment.place}, memory,
      fmt::format("the snapshot of {}", whose(*first.source, segment.count)));
  return piece;
}

void start_snapshot(const DevicePart& part, std::span<const DeviceCopy> copies, const BytePlace& first,
                    DeviceTransfers& started) {
  try {
    started.add(part.copier->start(copies, CopyDirection::within_device), first, part.segments.size());
    part.copier->hold();
  } catch (...) {
    std::rethrow_exception(with_context(std::current_exception(), whose(first, part.segments.size())));
  }
}

}  // namespace

void DeviceTransfers::add(std::unique_ptr<DeviceTransfer> transfer, const BytePlace& first,
                          std::size_t count) {
  entries_.push_back({std::move(transfer), &first, count});
}

void DeviceTransfers::wait() {
  std::exception_ptr failure;
  for (Entry& entry : entries_) {
    try {
      entry.transfer->wait();
    } catch (...) {
      if (!failure) {
        failure = with_context(std::current_exception(), whose(*entry.first, entry.count));
      }
    }
  }
  entries_.clear();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

void DeviceSource::read(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  copy_and_wait(*this, {region_.data + offset_bytes, out.data(), out.size()}, CopyDirection::to_host);
}

void DeviceSink::write(std::uint64_t offset_bytes, std::span<const std::byte> in) {
  copy_and_wait(*this, {in.data(), region_.data + offset_bytes, in.size()}, CopyDirection::to_device);
}

void follow_programs(std::span<const SourcePiece> pieces) {
  follow_all(pieces);
}

void follow_programs(std::span<const DestinationPiece> pieces) {
  follow_all(pieces);
}

namespace staging {

void DeviceBatch::add(DeviceCopier& copier, const DeviceCopy& copy, const BytePlace& place) {
  auto part = std::find_if(parts_.begin(), parts_.end(),
                           [&copier](const Part& each) { return each.copier == &copier; });
  if (part == parts_.end()) {
    part = parts_.insert(parts_.end(), Part{&copier, &place, {}});
  }
  part->copies.push_back(copy);
}

void DeviceBatch::start(CopyDirection direction, DeviceTransfers& started) const {
  for (const Part& part : parts_) {
    try {
      started.add(part.copier->start(part.copies, direction), *part.first, part.copies.size());
    } catch (...) {
      std::rethrow_exception(with_context(std::current_exception(), whose(*part.first, part.copies.size())));
    }
  }
}

}  // namespace staging

void DeviceSnapshots::wait() {
  started.wait();
  originals.clear();
}

DeviceSnapshots snapshot_on_devices(std::vector<SourcePiece>& pieces) {
  DeviceSnapshots result;
  std::vector<SourcePiece> copied;
  std::vector<bool> is_replaced(pieces.size());
  for (const DevicePart& part : parts_of(pieces)) {
    const std::shared_ptr<std::byte> memory = part.copier->allocate(static_cast<std::size_t>(part.bytes));
    if (memory == nullptr) {
      CAIRN_PROBE("staging.no_room_for_a_snapshot");
      result.refused.push_back(part.copier->device());
      continue;
    }
    const std::size_t first = copied.size();
    for (const Segment& segment : part.segments) {
      copied.push_back(snapshot_of(pieces, segment, part, memory));
      std::fill_n(is_replaced.begin() + static_cast<std::ptrdiff_t>(segment.first), segment.count, true);
    }
    start_snapshot(part, copies_of(pieces, part, memory.get()), *copied[first].source, result.started);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    (is_replaced[i] ? result.originals : copied).push_back(std::move(pieces[i]));
  }
  std::sort(copied.begin(), copied.end(),
            [](const SourcePiece& a, const SourcePiece& b) { return a.offset_bytes < b.offset_bytes; });
  pieces = std::move(copied);
  return result;
}

}  // namespace cairn
