// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "array_store/index_of.hpp"
#include "array_store/internal/reader.hpp"
#include "array_store/memory_files.hpp"
#include "formats/internal/foreign_index.hpp"
#include "support/fails.hpp"

namespace cairn::array_store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryFiles;

/// A safetensors file with one tensor of four bytes.
std::string tensor_file(std::string_view name) {
  std::string header = R"({")" + std::string(name) + R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  return length + header + "data";
}

using Texts = std::map<std::string, std::string, std::less<>>;

formats::Index open(Texts texts, OpenOptions options = {}, std::string named = {}) {
  const auto files = std::make_shared<MemoryFiles>();
  files->texts = std::move(texts);
  files->named = std::move(named);
  return testing::run(open_index(files, std::move(options)));
}

std::string index_of(std::string_view tensor, std::string_view file) {
  return fmt::format(R"({{"weight_map":{{"{}":"{}"}}}})", tensor, file);
}

/// For a part of a model, with a place for what is told.
OpenOptions partial(std::vector<std::string>& problems) {
  OpenOptions options;
  options.is_partial = true;
  options.on_problem = [&problems](const std::string& problem) { problems.push_back(problem); };
  return options;
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

TEST(OpenIndex, FollowsAnIndexWhateverTheModelIsCalled) {
  const formats::Index index =
      open({{"1.safetensors", tensor_file("a")},
            {"2.safetensors", tensor_file("a")},
            {"diffusion_pytorch_model.safetensors.index.json", index_of("a", "2.safetensors")}});

  EXPECT_EQ(index.slice(index.array(index.entry(0)), 0).file, "2.safetensors");
}

TEST(OpenIndex, ListsSeveralIndexesUntilOneIsNamed) {
  const Texts texts = {{"1.safetensors", tensor_file("a")},
                       {"2.safetensors", tensor_file("a")},
                       {"model.safetensors.index.json", index_of("a", "1.safetensors")},
                       {"model.safetensors.index.fp16.json", index_of("a", "2.safetensors")}};

  EXPECT_THAT([&] { open(texts); },
              Fails(Errc::invalid_argument,
                    HasSubstr("'model.safetensors.index.fp16.json', 'model.safetensors.index.json'")));
  const formats::Index index = open(texts, {}, "model.safetensors.index.fp16.json");
  EXPECT_EQ(index.slice(index.array(index.entry(0)), 0).file, "2.safetensors");
}

TEST(OpenIndex, ReadsTheWholeModelBesideAListAsTransformersDoesAndTellsSo) {
  for (const char* list : {"model.safetensors.index.json", "model.safetensors.index.fp16.json"}) {
    const Texts texts = {{"1.safetensors", tensor_file("a")},
                         {"model.safetensors", tensor_file("b")},
                         {list, index_of("a", "1.safetensors")}};

    const formats::Index index = open(texts);

    ASSERT_EQ(index.size(), 1u) << list;
    EXPECT_EQ(index.entry(0).name, "b");
    EXPECT_THAT(index.foreign()->problems,
                ElementsAre(AllOf(HasSubstr("memory: 'model.safetensors' is read"), HasSubstr(list))));
    const formats::Index listed = open(texts, {}, list);
    EXPECT_EQ(listed.entry(0).name, "a") << "it was asked for by its own name";
    EXPECT_THAT(listed.foreign()->problems, IsEmpty());
  }
}

TEST(OpenIndex, RefusesShardsWithoutTheOthersOfTheirModel) {
  const Texts lone = {{"m-00001-of-00002.safetensors", tensor_file("a")}};

  EXPECT_THAT(
      [&] { open(lone); },
      Fails(Errc::not_found, HasSubstr("1 of 2 shards are not there: 'm-00002-of-00002.safetensors'")));
  EXPECT_EQ(open(lone, {}, "m-00001-of-00002.safetensors").size(), 1u) << "it was asked for by its own name";
}

TEST(OpenIndex, TellsWhatIsMissingOfAPart) {
  std::vector<std::string> problems;

  EXPECT_EQ(open({{"m-00001-of-00002.safetensors", tensor_file("a")}}, partial(problems)).size(), 1u);
  EXPECT_EQ(
      open({{"1.safetensors", tensor_file("a")},
            {"model.safetensors.index.json", R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"}},
           partial(problems))
          .size(),
      1u);

  EXPECT_THAT(problems, ElementsAre(HasSubstr("'m-00002-of-00002.safetensors'"),
                                    HasSubstr("memory/2.safetensors: the file is not there, which "
                                              "memory/model.safetensors.index.json names")));
}

TEST(OpenIndex, OpensOnlyTheShardsOfWhatIsWantedOfAPart) {
  const Texts texts = {{"1.safetensors", tensor_file("a")},
                       {"2.safetensors", "no header"},
                       {"model.safetensors.index.json",
                        R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"3.safetensors"}})"}};
  std::vector<std::string> problems;
  OpenOptions options = partial(problems);
  options.wanted = std::set<std::string, std::less<>>{"a"};

  EXPECT_EQ(open(texts, options).size(), 1u);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("memory/3.safetensors")));
  options.wanted = std::set<std::string, std::less<>>{"c"};
  EXPECT_THAT([&] { open(texts, options); },
              Fails(Errc::not_found, HasSubstr("memory/3.safetensors: the file is not there")));
}

TEST(OpenIndex, SaysWhatAFileIsThatIsNoneOfWeights) {
  EXPECT_THAT(
      [] {
        open({{"model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"}});
      },
      Fails(Errc::malformed_metadata,
            HasSubstr("memory/model.safetensors: a pointer of Git LFS lies in its place")));
}

TEST(OpenIndex, ReadsAFileOfSafetensorsThatHasTheNameOfAnArchive) {
  const formats::Index index = open({{"model.pt", tensor_file("a")}});

  ASSERT_EQ(index.size(), 1u);
  EXPECT_EQ(index.entry(0).name, "a");
  EXPECT_EQ(index.slice(index.array(index.entry(0)), 0).file, "model.pt");
  EXPECT_THAT(index.foreign()->problems,
              ElementsAre(HasSubstr("memory/model.pt: it is a file of safetensors")));
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
