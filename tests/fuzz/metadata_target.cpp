// SPDX-License-Identifier: Apache-2.0
// The input is the custom metadata of a save. An Error, or a text that stays as it is when it is given again,
// and that a manifest can hold.
#include <string>

#include "fuzz/fuzzing.hpp"
#include "store/internal/manifest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using cairn::Errc;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto normal = [&] {
    const cairn::fuzz::MemoryBound bound(65536 + 128 * size);
    return cairn::fuzz::attempt({Errc::invalid_argument},
                                [&] { return cairn::store::normalise_custom_metadata(text); });
  }();
  if (normal) {
    cairn::fuzz::require(cairn::store::normalise_custom_metadata(*normal) == *normal,
                         "normal text stays as it is");
    cairn::store::Manifest manifest;
    manifest.custom_metadata = *normal;
    const std::string encoded = cairn::store::encode_manifest(manifest);
    cairn::fuzz::require(cairn::store::decode_manifest(encoded, "encoded") == manifest,
                         "a manifest keeps it");
  }
  return 0;
}
