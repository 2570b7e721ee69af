// SPDX-License-Identifier: Apache-2.0
// The input is the .cairn-memory of a directory. What is accepted is read again as it is written.
#include <optional>
#include <string_view>

#include "cairn/base/error.hpp"

#include "fuzz/fuzzing.hpp"
#include "store/internal/memory_mark.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::optional<cairn::store::MemoryMark> mark;
  try {
    const cairn::fuzz::MemoryBound bound(16384 + 8 * size);
    mark = cairn::store::parse_mark(text, "mark");
  } catch (const cairn::Error&) {
    ++cairn::fuzz::verdicts().refused;
    return 0;
  }
  ++cairn::fuzz::verdicts().accepted;
  cairn::fuzz::require(cairn::store::parse_mark(cairn::store::encode_mark(*mark), "mark") == *mark,
                       "a mark is read as it is written");
  return 0;
}
