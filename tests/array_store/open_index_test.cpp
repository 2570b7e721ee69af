// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "cairn/array_store/reader.hpp"

#include "array_store/index_of.hpp"
#include "array_store/memory_files.hpp"
#include "support/fails.hpp"

namespace cairn::array_store {
namespace {

using testing::Fails;
using ::testing::HasSubstr;
using testing::MemoryFiles;

/// A safetensors file with one tensor of four bytes.
std::string tensor_file(std::string_view name) {
  std::string header = R"({")" + std::string(name) + R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  return length + header + "data";
}

formats::Index open(std::map<std::string, std::string, std::less<>> texts) {
  const auto files = std::make_shared<MemoryFiles>();
  files->texts = std::move(texts);
  return testing::run(open_index(files));
}

TEST(OpenIndex, ReadsTheIndexThatIsThere) {
  formats::IndexBuilder builder;
  builder.add_integer("step", 7);
  const formats::IndexBytes built = builder.finish();
  const std::string text(reinterpret_cast<const char*>(built.bytes.data()), built.bytes.size());

  const formats::Index index = open({{"index.fb", text}, {"other.safetensors", tensor_file("x")}});

  ASSERT_EQ(index.size(), 1u);
  EXPECT_EQ(index.entry(0).as_integer(), 7);
  EXPECT_EQ(index.path(), "memory/index.fb");
}

TEST(OpenIndex, MakesOneFromTheHeadersOfForeignFiles) {
  const formats::Index index =
      open({{"1.safetensors", tensor_file("a/b")}, {"2.safetensors", tensor_file("c")}, {"README", "text"}});

  ASSERT_EQ(index.size(), 2u);
  EXPECT_EQ(index.entry(0).name, "a~1b");  // Names are keys, not paths.
  const formats::IndexSlice slice = index.slice(index.array(index.entry(1)), 0);
  EXPECT_EQ(slice.file, "2.safetensors");
  EXPECT_EQ(slice.offset + slice.size, tensor_file("c").size());
}

TEST(OpenIndex, FollowsTheIndexOfAForeignFolder) {
  const formats::Index index =
      open({{"1.safetensors", tensor_file("a")},
            {"2.safetensors", tensor_file("a")},
            {"model.safetensors.index.json", R"({"weight_map":{"a":"2.safetensors"}})"}});

  EXPECT_EQ(index.slice(index.array(index.entry(0)), 0).file, "2.safetensors");
}

TEST(OpenIndex, RefusesAFolderWithoutArrays) {
  EXPECT_THAT(
      [] {
        open({{"README", "text"}, {"below/a.safetensors", tensor_file("a")}});
      },
      Fails(Errc::not_found, HasSubstr("memory: there is neither an index.fb nor a safetensors file")));
}

TEST(OpenIndex, NamesAFileThatIsMissing) {
  EXPECT_THAT(
      [] {
        open({{"model.safetensors.index.json", R"({"weight_map":{"a":"2.safetensors"}})"}});
      },
      Fails(Errc::not_found, HasSubstr("memory/2.safetensors: the file is not there")));
}

TEST(OpenIndex, NamesAFileThatIsDamaged) {
  EXPECT_THAT(
      [] {
        open({{"cut.safetensors", tensor_file("a").substr(0, 30)}});
      },
      Fails(Errc::malformed_metadata, HasSubstr("memory/cut.safetensors")));
  EXPECT_THAT(
      [] {
        open({{"empty.safetensors", ""}});
      },
      Fails(Errc::malformed_metadata, HasSubstr("memory/empty.safetensors")));
  EXPECT_THAT(
      [] {
        open({{"index.fb", "no index"}});
      },
      Fails(Errc::malformed_metadata, HasSubstr("memory/index.fb")));
}

TEST(IsSafetensors, KnowsFilesOfTheFolderItself) {
  EXPECT_TRUE(is_safetensors("a.safetensors"));
  EXPECT_FALSE(is_safetensors("below/a.safetensors"));
  EXPECT_FALSE(is_safetensors("a.safetensors.index.json"));
}

}  // namespace
}  // namespace cairn::array_store
