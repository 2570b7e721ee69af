// SPDX-License-Identifier: Apache-2.0
#include "array_store/layouts/fetched_parts.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "array_store/layouts/layouts.hpp"

namespace cairn::array_store {

std::uint64_t FetchedParts::end_of(const Bytes::value_type& part) {
  return part.first + part.second->size();
}

void FetchedParts::want(const std::string& file, std::uint64_t begin, std::uint64_t end) {
  const std::optional<std::uint64_t> size = files_->size_bytes(file);
  if (!size) {
    throw Error(Errc::not_found, fmt::format("{}: the file is not there", full_path(*files_, file)));
  }
  end = std::min(end, *size);
  if (begin >= end || find(file, begin, end - begin) != nullptr) {
    return;
  }
  // Parts never overlap: what is there in part is fetched again with the rest, and one read takes all that it touches.
  Bytes& bytes = fetched_[file];
  auto part = bytes.upper_bound(begin);
  if (part != bytes.begin() && end_of(*std::prev(part)) > begin) {
    --part;
  }
  while (part != bytes.end() && part->first < end) {
    begin = std::min(begin, part->first);
    end = std::max(end, end_of(*part));
    part = bytes.erase(part);
  }
  Ends& ends = wanted_[file];
  auto next = ends.upper_bound(begin);
  if (next != ends.begin() && std::prev(next)->second >= begin) {
    --next;
    begin = next->first;
  }
  while (next != ends.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ends.erase(next);
  }
  ends.emplace(begin, end);
}

Awaitable<> FetchedParts::fetch() {
  PiecesByFile pieces;
  for (const auto& [file, ends] : wanted_) {
    for (const auto& [begin, end] : ends) {
      const auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(end - begin));
      fetched_[file][begin] = bytes;
      DestinationPiece piece;
      piece.offset_bytes = begin;
      piece.size_bytes = end - begin;
      piece.data = bytes->data();
      piece.owner = bytes;
      pieces[file].push_back(std::move(piece));
    }
  }
  wanted_.clear();
  NotesByFile none;
  Awaitable<> reading = files_->read_files(std::move(pieces), std::move(none));
  async::require_coroutine(reading, "'read_files'");
  co_await std::move(reading);
}

std::span<const std::byte> FetchedParts::start_of(const std::string& file) const {
  const auto of_file = fetched_.find(file);
  if (of_file == fetched_.end() || !of_file->second.contains(0)) {
    return {};
  }
  return *of_file->second.at(0);
}

const std::byte* FetchedParts::find(const std::string& file, std::uint64_t begin, std::uint64_t size) const {
  const auto of_file = fetched_.find(file);
  if (of_file == fetched_.end()) {
    return nullptr;
  }
  const auto behind = of_file->second.upper_bound(begin);
  if (behind == of_file->second.begin() || end_of(*std::prev(behind)) < begin + size) {
    return nullptr;
  }
  return std::prev(behind)->second->data() + (begin - std::prev(behind)->first);
}

formats::ReadAt FetchedParts::reader(const std::string& file, std::uint64_t base) const {
  return [this, file, base](std::uint64_t begin, std::uint64_t size) {
    const std::byte* const bytes = find(file, base + begin, size);
    if (bytes == nullptr && size > 0) {
      Missing missing;
      missing.parts.push_back({begin, size});
      throw missing;
    }
    return std::vector<std::byte>(bytes, bytes + (bytes == nullptr ? 0 : size));
  };
}

formats::ExpectParts FetchedParts::expecter(const std::string& file, std::uint64_t base) const {
  return [this, file, base](const std::vector<formats::PartOfFile>& parts) {
    Missing missing;
    for (const formats::PartOfFile& part : parts) {
      if (part.size > 0 && find(file, base + part.begin, part.size) == nullptr) {
        missing.parts.push_back(part);
      }
    }
    if (!missing.parts.empty()) {
      throw missing;
    }
  };
}

}  // namespace cairn::array_store
