// SPDX-License-Identifier: Apache-2.0
// The input is the `.metadata` of a distributed checkpoint of torch. An Error, or slices that lie inside their arrays,
// and that stay as they are when the checkpoint is joined with itself.
#include <array>

#include "formats/file_name.hpp"
#include "formats/internal/dcp_metadata.hpp"
#include "fuzz/fuzzing.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using cairn::Errc;
  using cairn::formats::ForeignCatalogue;
  using cairn::fuzz::require;
  const auto catalogue = [&] {
    const cairn::fuzz::MemoryBound bound((std::size_t{16} << 20) + 600 * size);
    return cairn::fuzz::attempt(
        {Errc::malformed_metadata, Errc::unsupported_version, Errc::incomplete_shards},
        [&] { return cairn::formats::describe_dcp_metadata(std::as_bytes(std::span(data, size)), "input"); });
  }();
  if (!catalogue) {
    return 0;
  }
  for (const std::string& file : catalogue->files) {
    require(cairn::formats::is_plain_file_name(file), "files are in the folder");
  }
  for (const cairn::formats::ForeignArray& array : catalogue->arrays) {
    require(byte_count(array.dtype, array.shape).has_value(), "an array has a size");
    for (const cairn::formats::ForeignSlice& slice : array.slices) {
      require(slice.range.file < catalogue->files.size() && slice.range.begin <= slice.range.end,
              "a range is in a file");
      require(slice.form < catalogue->forms.size(), "a form is one of those that there are");
      require(slice.box.is_within(array.shape) && !slice.box.is_empty(), "a box lies inside its array");
    }
  }
  const std::array twice{*catalogue, *catalogue};
  const auto joined =
      cairn::fuzz::attempt({Errc::malformed_metadata}, [&] { return join_dcp_metadata(twice); });
  require(!joined || joined->arrays.size() <= catalogue->arrays.size(),
          "what is joined with itself does not grow");
  return 0;
}
