// SPDX-License-Identifier: Apache-2.0
// The input is the data.json of the JSON handler. An Error, or a document that can be written and comes back.
#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"

#include "fuzz/fuzzing.hpp"
#include "json/text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using cairn::Errc;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // A value of one or two bytes ("0,") becomes sixteen, and the list of them grows by doubling.
  const auto value = [&] {
    const cairn::fuzz::MemoryBound bound(65536 + 64 * size);
    return cairn::fuzz::attempt({Errc::malformed_metadata}, [&] { return cairn::parse_json(text, "input"); });
  }();
  if (value) {
    const std::string written = cairn::detail::write_json(*value, "input");
    cairn::fuzz::require(cairn::parse_json(written, "written") == *value, "a document comes back");
  }
  return 0;
}
