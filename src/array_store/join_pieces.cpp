// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "array_store/read_steps.hpp"

namespace cairn::array_store {
namespace {

using Pieces = std::vector<DestinationPiece>;

/// Takes bytes to all that want them: an array is read into two places, or as two types.
class SharedBytes final : public ByteSink {
 public:
  /// Takes the bytes of the file from `begin_bytes` on. Each list is arranged.
  SharedBytes(std::uint64_t begin_bytes, std::vector<Pieces> lists)
      : begin_bytes_(begin_bytes), lists_(std::move(lists)) {}

  void write(std::uint64_t offset_bytes, std::span<const std::byte> in) override {
    for (const Pieces& pieces : lists_) {
      scatter(pieces, begin_bytes_ + offset_bytes, in);
    }
  }

  void add_copiers(std::set<DeviceCopier*>& copiers) const override {
    for (const Pieces& pieces : lists_) {
      for (const DestinationPiece& piece : pieces) {
        if (piece.sink != nullptr) {
          piece.sink->add_copiers(copiers);
        }
      }
    }
  }

 private:
  std::uint64_t begin_bytes_;
  std::vector<Pieces> lists_;
};

/// A piece, and the number of its list.
struct Listed {
  DestinationPiece piece;
  std::size_t list = 0;

  [[nodiscard]] std::uint64_t end() const noexcept { return piece.offset_bytes + piece.size_bytes; }
};

/// One piece for pieces that overlap, which end at `end`.
DestinationPiece shared(std::span<Listed> listed, std::uint64_t end) {
  DestinationPiece piece;
  piece.offset_bytes = listed.front().piece.offset_bytes;
  piece.size_bytes = end - piece.offset_bytes;
  std::map<std::size_t, Pieces> by_list;  // A few of what may be many lists.
  for (Listed& one : listed) {
    by_list[one.list].push_back(std::move(one.piece));
  }
  std::vector<Pieces> pieces;
  for (auto& [list, of_list] : by_list) {
    pieces.push_back(std::move(of_list));
  }
  piece.sink = std::make_shared<SharedBytes>(piece.offset_bytes, std::move(pieces));
  return piece;
}

}  // namespace

std::vector<DestinationPiece> join_pieces(std::vector<std::vector<DestinationPiece>> lists) {
  std::vector<Listed> listed;
  for (std::size_t list = 0; list < lists.size(); ++list) {
    for (DestinationPiece& piece : lists[list]) {
      listed.push_back({std::move(piece), list});
    }
  }
  std::sort(listed.begin(), listed.end(),
            [](const Listed& a, const Listed& b) { return a.piece.offset_bytes < b.piece.offset_bytes; });
  std::vector<DestinationPiece> joined;
  for (std::size_t begin = 0; begin < listed.size();) {
    std::uint64_t reach = listed[begin].end();
    std::size_t end = begin + 1;
    for (; end < listed.size() && listed[end].piece.offset_bytes < reach; ++end) {
      reach = std::max(reach, listed[end].end());
    }
    joined.push_back(end - begin == 1 ? std::move(listed[begin].piece)
                                      : shared(std::span(listed).subspan(begin, end - begin), reach));
    begin = end;
  }
  return joined;
}

}  // namespace cairn::array_store
