// SPDX-License-Identifier: Apache-2.0
// The input is a COMMIT. An Error, or a record that encoded gives the same bytes, but for those that are
// reserved.
#include <algorithm>
#include <string>

#include "fuzz/fuzzing.hpp"
#include "io/internal/chunk_hash.hpp"
#include "store/internal/manifest.hpp"

namespace {

using cairn::Errc;
using cairn::fuzz::require;

constexpr std::size_t kHashBytes = 8;

void read(std::string_view bytes) {
  const cairn::fuzz::MemoryBound bound(4096);
  const auto record =
      cairn::fuzz::attempt({Errc::malformed_metadata, Errc::unsupported_version, Errc::checksum_mismatch},
                           [&] { return cairn::store::decode_commit(bytes, "input"); });
  if (record) {
    const std::string encoded = cairn::store::encode_commit(*record);
    require(cairn::store::decode_commit(encoded, "encoded") == *record, "an encoded record says the same");
    require(encoded.size() == bytes.size() && encoded.substr(16, 40) == bytes.substr(16, 40),
            "the fields lie where the format says");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  // No mutation guesses a checksum: with the right one it reaches what lies behind.
  if (size >= kHashBytes) {
    std::string mended(bytes);
    const std::size_t hashed = size - kHashBytes;
    const std::uint64_t hash = cairn::io::hash_chunk(cairn::fuzz::as_bytes(bytes.substr(0, hashed)));
    for (std::size_t i = 0; i < kHashBytes; ++i) {
      mended[hashed + i] = static_cast<char>(hash >> (8 * i));
    }
    read(mended);
  }
  return 0;
}
