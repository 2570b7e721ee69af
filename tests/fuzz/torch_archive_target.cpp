// SPDX-License-Identifier: Apache-2.0
// The input is an archive of torch.save. An Error, or members that share no byte, and slices inside them.
#include <algorithm>
#include <vector>

#include "formats/internal/torch_archive.hpp"
#include "fuzz/fuzzing.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using cairn::Errc;
  using cairn::formats::TorchArchive;
  using cairn::formats::ZipMember;
  using cairn::fuzz::require;
  const auto bytes = std::as_bytes(std::span(data, size));
  const cairn::formats::ReadAt read = [&](std::uint64_t begin, std::uint64_t count) {
    require(begin <= size && count <= size - begin, "nothing beyond the file is read");
    const auto part = bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
    return std::vector<std::byte>(part.begin(), part.end());
  };
  const cairn::fuzz::MemoryBound bound((std::size_t{16} << 20) + 600 * size);
  auto archive =
      cairn::fuzz::attempt({Errc::malformed_metadata, Errc::unsupported_version, Errc::checksum_mismatch},
                           [&] { return cairn::formats::open_torch_archive(read, size, "input"); });
  if (!archive) {
    return 0;
  }
  std::vector<ZipMember> members = archive->directory.members;
  std::sort(members.begin(), members.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.header < b.header; });
  std::uint64_t end = 0;
  for (const ZipMember& member : members) {
    require(member.header >= end && member.begin > member.header, "members follow one another");
    end = member.begin + member.size;
    require(end <= size, "members lie inside the file");
  }
  const auto catalogue = cairn::fuzz::attempt({Errc::malformed_metadata, Errc::unsupported_version}, [&] {
    return cairn::formats::describe_torch_archive(*archive, "input");
  });
  if (catalogue) {
    for (const cairn::formats::ForeignArray& array : catalogue->arrays) {
      for (const cairn::formats::ForeignSlice& slice : array.slices) {
        require(slice.range.begin < slice.range.end && slice.range.end <= size, "slices lie inside the file");
      }
    }
  }
  return 0;
}
