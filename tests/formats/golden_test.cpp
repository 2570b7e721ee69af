// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/fixtures.hpp"
#include "formats/internal/index.hpp"
#include "formats/internal/index_builder.hpp"
#include "support/temp_dir.hpp"

namespace cairn::formats {
namespace {

using ::testing::ElementsAre;
using testing::read_text;

using Dims = std::vector<std::uint64_t>;

// The golden files hold what docs/format.md shows as examples. When one of these tests fails, files that exist can no
// longer be read or are no longer written the same: raise the version instead of replacing the file.

std::string golden_index() {
  IndexBuilder builder;
  const std::uint32_t first = builder.add_file("data-r00000-000.safetensors");
  const std::uint32_t second = builder.add_file("data-r00001-000.safetensors");
  builder.add_array("params/w", DType::float32, Dims{4, 1024});
  builder.add_slice(first, 4096, Dims{0, 0}, Dims{2, 1024});
  builder.add_slice(second, 4096, Dims{2, 0}, Dims{2, 1024});
  builder.add_array("params/b", DType::bfloat16, Dims{3});
  builder.add_whole(first, 12288);
  builder.add_integer("step", -7);
  builder.add_unsigned("seed", 18446744073709551615u);
  builder.add_double("rate", 0.5);
  builder.add_bool("done", true);
  builder.add_string("name", "é");
  builder.add_bytes("raw", as_bytes("\xFF"));
  builder.add_null("nothing");
  builder.add_empty_map("empty");
  builder.add_list("list", 2);
  builder.add_integer("list/0", 1);
  builder.add_integer("list/1", 2);
  builder.add_null("a~1b/~2");
  const IndexBytes index = builder.finish();
  return {reinterpret_cast<const char*>(index.bytes.data()), index.bytes.size()};
}

TEST(GoldenIndex, IsStillWrittenByteForByte) {
  EXPECT_EQ(golden_index(), read_text(data_path("formats/index.fb")));
}

TEST(GoldenIndex, IsStillRead) {
  const auto bytes = std::make_shared<std::string>(read_text(data_path("formats/index.fb")));

  const Index index = Index::open(bytes, as_bytes(*bytes), "index.fb");

  index.validate();
  const auto entry = [&index](std::string_view name) { return index.entry(index.find(name).value()); };
  EXPECT_EQ(index.size(), 14u);
  EXPECT_EQ(entry("step").as_integer(), -7);
  EXPECT_EQ(entry("seed").as_unsigned(), 18446744073709551615u);
  EXPECT_EQ(entry("rate").as_double(), 0.5);
  EXPECT_TRUE(entry("done").as_bool());
  EXPECT_EQ(index.string(entry("name")), "é");
  EXPECT_THAT(index.bytes(entry("raw")), ElementsAre(std::byte{0xFF}));
  EXPECT_EQ(entry("list").list_size(), 2u);
  EXPECT_EQ(entry("empty").kind, EntryKind::empty_map);
  const IndexSlice slice = index.slice(index.array(entry("params/w")), 1);
  EXPECT_EQ(slice.file, "data-r00001-000.safetensors");
  EXPECT_THAT(slice.offsets, ElementsAre(2, 0));
}

TEST(GoldenDataFile, IsStillRead) {
  const SafetensorsHeader header = parse(read_text(data_path("formats/data-r00000-000.safetensors")));

  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "params/w");
  EXPECT_EQ(header.tensors[0].begin, 4096u);
  EXPECT_EQ(header.tensors[1].end, 12294u);
}

}  // namespace
}  // namespace cairn::formats
