// SPDX-License-Identifier: Apache-2.0
// The input is a sharding, or the text of a slice. An Error, or one that is written as it was read and that gives boxes
// within the array.
#include <string_view>

#include "cairn/sharding/policy.hpp"
#include "cairn/sharding/sharding.hpp"

#include "fuzz/fuzzing.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using cairn::Errc;
  using cairn::fuzz::attempt;
  using cairn::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!text.starts_with('{')) {
    const auto slice = attempt({Errc::malformed_metadata}, [&] { return cairn::parse_slice_spec(text); });
    if (slice) {
      const auto again = cairn::parse_slice_spec(cairn::slice_spec(slice->first, slice->second));
      require(again == *slice, "a slice comes back");
    }
    return 0;
  }
  const auto sharding = [&] {
    const cairn::fuzz::MemoryBound bound(131072 + 128 * size);
    return attempt({Errc::malformed_metadata}, [&] { return cairn::Sharding::from_json(text, "input"); });
  }();
  if (!sharding) {
    return 0;
  }
  require(cairn::Sharding::from_json(sharding->to_json(), "written") == *sharding, "a sharding comes back");
  const cairn::Shape shape = {12, 7, 4};
  for (const std::uint32_t rank : {std::uint32_t{0}, sharding->ranks() - 1}) {
    const auto boxes = attempt({Errc::invalid_argument}, [&] { return sharding->boxes(rank, shape); });
    for (const cairn::PlacedBox& placed : boxes.value_or(std::vector<cairn::PlacedBox>{})) {
      require(placed.box.is_within(shape), "boxes are within the array");
    }
  }
  return 0;
}
