// SPDX-License-Identifier: Apache-2.0
// The input is the .cairn-program of a root in memory, with the hash that it should have, or no mutation would get past
// that. Nothing, or a record whose encoding is the input.
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "fuzz/fuzzing.hpp"
#include "io/internal/chunk_hash.hpp"
#include "store/internal/program_claim.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHashed = 64;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size >= kHashed + sizeof(std::uint64_t)) {
    const std::uint64_t hash = cairn::io::hash_chunk(std::as_bytes(std::span(bytes)).first(kHashed));
    std::memcpy(bytes.data() + kHashed, &hash, sizeof(hash));
  }
  const std::optional<cairn::store::ClaimRecord> record = [&] {
    const cairn::fuzz::MemoryBound bound(4096 + 4 * size);
    return cairn::store::parse_claim(bytes);
  }();
  ++(record ? cairn::fuzz::verdicts().accepted : cairn::fuzz::verdicts().refused);
  if (record) {
    cairn::fuzz::require(cairn::store::encode_claim(*record) == bytes,
                         "only what encode_claim writes is a claim");
  }
  return 0;
}
