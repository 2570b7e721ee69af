// SPDX-License-Identifier: Apache-2.0
// The input is the .owner of a temporary directory. Nothing, or an owner whose encoding is the input.
#include <optional>

#include "fuzz/fuzzing.hpp"
#include "store/owner.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto owner = [&] {
    const cairn::fuzz::MemoryBound bound(4096 + 4 * size);
    return cairn::store::parse_owner(text);
  }();
  ++(owner ? cairn::fuzz::verdicts().accepted : cairn::fuzz::verdicts().refused);
  if (owner) {
    cairn::fuzz::require(cairn::store::encode_owner(*owner) == text,
                         "only what encode_owner writes is an owner");
  }
  return 0;
}
