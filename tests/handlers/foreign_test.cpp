// SPDX-License-Identifier: Apache-2.0
// Files that others wrote: tests/data/safetensors and tests/data/dcp_hf; their READMEs say by whom.
#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cairn/array/array_view.hpp"
#include "cairn/handlers/into.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "core/internal/start.hpp"
#include "handlers/store.hpp"
#include "support/test_data.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_text;

const std::filesystem::path kData = testing::test_data();

class ForeignTest : public testing::StoreTest {
 protected:
  Tree open(const std::filesystem::path& path) { return load_from<Tree>(path, "state"); }
};

using ForeignFile = ForeignTest;
using ForeignFolder = ForeignTest;
using TorchFolder = ForeignTest;

/// The element bytes of every array, by key.
std::map<std::string, std::vector<std::byte>> contents(const Tree& tree) {
  std::map<std::string, std::vector<std::byte>> found;
  for (const auto& [key, leaf] : tree.as_map()) {
    const Array array = leaf.as<Array>().clone();
    const auto bytes = array.view().bytes();
    found.emplace(key, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  return found;
}

TEST_F(ForeignFile, LoadsAsAFlatMap) {
  const Tree tree = open(kData / "safetensors/tiny.safetensors");

  ASSERT_EQ(tree.size(), 1U);
  EXPECT_EQ(tree.as_map().begin()->second.as<Array>().shape(), Shape({3}));
}

TEST_F(ForeignFile, LoadsEveryDtype) {
  EXPECT_EQ(open(kData / "safetensors/mixed_dtypes.safetensors").size(), 20U);
}

TEST_F(ForeignFile, KeepsNamesThatAreNoPaths) {
  const Tree tree = open(kData / "safetensors/unicode_names.safetensors");

  EXPECT_TRUE(tree.as_map().contains("../../etc/passwd"));
  EXPECT_TRUE(tree.as_map().contains(""));
}

TEST_F(ForeignFile, LoadsScalarsAndEmptyTensors) {
  EXPECT_EQ(open(kData / "safetensors/scalars_and_empty.safetensors").size(), 10U);
}

TEST_F(ForeignFile, GivesWhatItsHeaderSaysWhenAsked) {
  std::ofstream file(folder_ / "x.safetensors", std::ios::binary);
  const std::string header =
      R"({"__metadata__":{"a/b":"1","format":"pt"},"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const std::uint64_t size = header.size();
  file.write(reinterpret_cast<const char*>(&size), sizeof(size));
  file << header << "xy";
  file.close();
  TreeLoadOptions options;
  options.file_metadata = true;

  const Tree tree = load_from<Tree>(folder_ / "x.safetensors", "state", options);

  EXPECT_EQ(tree["__metadata__"], Tree({{"x.safetensors", {{"a/b", "1"}, {"format", "pt"}}}}));
  EXPECT_EQ(tree["w"].as<std::vector<std::uint8_t>>(), (std::vector<std::uint8_t>{'x', 'y'}));
  EXPECT_FALSE(open(folder_ / "x.safetensors").contains("__metadata__"));
}

TEST_F(ForeignFolder, GivesWhatItsHeadersSayByFile) {
  LoadOptions options;
  TreeLoadOptions of_tree;
  of_tree.file_metadata = true;
  options.handler_options.set(of_tree);

  const CheckpointMetadata metadata =
      core::read_metadata(kData / "safetensors/hf_sharded", {}, handlers_, options, context_);

  const AbstractTree files = metadata.at("state").as<AbstractTree>().at("__metadata__");
  const Tree tree = load_from<Tree>(kData / "safetensors/hf_sharded", "state", of_tree);
  EXPECT_GT(tree["__metadata__"].size(), 1U);
  EXPECT_EQ(files, AbstractTree(tree["__metadata__"]));
}

TEST_F(ForeignFile, LoadsWithTrailingBytesWhenAskedAndTellsOfThem) {
  const auto file = folder_ / "x.safetensors";
  testing::write_text(file, read_text(kData / "safetensors/tiny.safetensors") + "more");
  TreeLoadOptions of_tree;
  of_tree.allow_trailing_bytes = true;
  LoadOptions options;
  options.handler_options.set(of_tree);

  EXPECT_THAT([&] { open(file); },
              Fails(Errc::malformed_metadata, HasSubstr("TreeLoadOptions::allow_trailing_bytes")));
  Loaded loaded = core::start_load(file, {"state"}, handlers_, options, context_).wait();

  EXPECT_THAT(loaded.result().problems,
              ElementsAre(HasSubstr("x.safetensors: 4 bytes behind its last tensor are not read")));
  EXPECT_EQ(loaded.take<Tree>("state"), open(kData / "safetensors/tiny.safetensors"));
}

TEST_F(ForeignFile, SaysOfANameThatIsKnownWhatToDo) {
  for (const char* name : {"m.gguf", "m.npz", "m.h5", "m.onnx"}) {
    testing::write_text(folder_ / name, "x");
    EXPECT_THAT([&] { open(folder_ / name); },
                Fails(Errc::not_committed, HasSubstr("is not read yet; export it as safetensors")));
  }
  testing::write_text(folder_ / "m.tar", "x");
  EXPECT_THAT([&] { open(folder_ / "m.tar"); }, Fails(Errc::not_committed, HasSubstr("unpack it first")));
}

TEST_F(ForeignFile, LoadsWithoutTensors) {
  EXPECT_EQ(open(kData / "safetensors/no_tensors.safetensors"), Tree::map());
}

TEST_F(ForeignFile, CastsUnalignedTensorsWhileLoading) {
  const auto path = kData / "dcp_hf/consolidated";
  const Tree plain = open(path);
  AbstractTree wanted(plain);
  wanted.set_dtype(DType::float64);

  const Tree tree = load_from<Tree>(path, {"state", wanted});

  for (const auto& [key, leaf] : plain.as_map()) {
    const Array array = leaf.as<Array>();
    std::vector<double> expected(array.element_count());
    if (!expected.empty()) {
      cast_range(array.view(), DType::float64, 0, std::as_writable_bytes(std::span(expected)),
                 Narrowing::allowed);
    }
    EXPECT_EQ(tree[key].as<std::vector<double>>(), expected) << key;
  }
}

TEST_F(ForeignFolder, LoadsWithItsIndex) {
  const Tree tree = open(kData / "safetensors/hf_sharded");
  EXPECT_GT(tree.size(), 3U);
}

TEST_F(ForeignFolder, LoadsWithoutAnIndexToo) {
  const auto folder = folder_ / "folder";
  std::filesystem::copy(kData / "safetensors/hf_sharded", folder);
  std::filesystem::remove(folder / "model.safetensors.index.json");

  EXPECT_EQ(open(folder), open(kData / "safetensors/hf_sharded"));
}

TEST_F(ForeignFolder, DescribesItselfWithoutItsData) {
  const auto metadata =
      core::read_metadata(kData / "safetensors/hf_sharded", {}, handlers_, LoadOptions(), context_);

  EXPECT_EQ(arrays(metadata.at("state")).size(), open(kData / "safetensors/hf_sharded").size());
}

TEST_F(ForeignFolder, RefusesTensorsThatTwoFilesHold) {
  const auto folder = folder_ / "folder";
  std::filesystem::create_directory(folder);
  std::filesystem::copy(kData / "safetensors/tiny.safetensors", folder / "a.safetensors");
  std::filesystem::copy(kData / "safetensors/tiny.safetensors", folder / "b.safetensors");

  EXPECT_THAT([&] { open(folder); }, Fails(Errc::overlapping_shards, HasSubstr("'x'")));
}

TEST_F(ForeignFolder, RefusesATruncatedFile) {
  const auto file = folder_ / "cut.safetensors";
  std::filesystem::copy(kData / "safetensors/reference_order.safetensors", file);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);

  EXPECT_THAT([&] { open(file); }, Fails(Errc::malformed_metadata, HasSubstr("cut.safetensors")));
}

TEST_F(ForeignFolder, NamesTheFileThatTheIndexWants) {
  const auto folder = folder_ / "folder";
  std::filesystem::copy(kData / "safetensors/hf_sharded", folder);
  std::filesystem::remove(folder / "model-00002-of-00003.safetensors");

  EXPECT_THAT([&] { open(folder); }, Fails(Errc::not_found, HasSubstr("model-00002-of-00003.safetensors")));
}

TEST_F(ForeignFolder, IsNamedByItsIndexWhereItHasSeveral) {
  const auto folder = folder_ / "folder";
  std::filesystem::copy(kData / "safetensors/hf_sharded", folder);
  std::filesystem::copy(folder / "model.safetensors.index.json",
                        folder / "model.safetensors.index.fp16.json");

  EXPECT_THAT([&] { open(folder); },
              Fails(Errc::invalid_argument,
                    HasSubstr("'model.safetensors.index.fp16.json', 'model.safetensors.index.json'")));
  EXPECT_EQ(open(folder / "model.safetensors.index.fp16.json"), open(kData / "safetensors/hf_sharded"));
}

TEST_F(ForeignFolder, TellsALoadAndMetadataThatAWholeModelLiesBesideItsList) {
  const auto folder = folder_ / "folder";
  std::filesystem::copy(kData / "safetensors/hf_sharded", folder);
  std::filesystem::copy(kData / "safetensors/tiny.safetensors", folder / "model.safetensors");
  const auto problem = HasSubstr("'model.safetensors' is read");

  Loaded loaded = core::start_load(folder, {"state"}, handlers_, LoadOptions(), context_).wait();
  const auto metadata = core::read_metadata(folder, {}, handlers_, LoadOptions(), context_);

  EXPECT_THAT(loaded.result().problems, ElementsAre(problem));
  EXPECT_EQ(loaded.take<Tree>("state"), open(kData / "safetensors/tiny.safetensors"));
  EXPECT_THAT(metadata.at("state").description().problems, ElementsAre(problem));
}

TEST_F(ForeignFolder, GivesAPartOfWhichShardsAreMissingAndSaysSo) {
  const auto folder = folder_ / "folder";
  std::filesystem::copy(kData / "safetensors/hf_sharded", folder);
  std::filesystem::remove(folder / "model-00002-of-00003.safetensors");
  const Tree whole = open(kData / "safetensors/hf_sharded");
  const Tree first = open(folder / "model-00001-of-00003.safetensors");
  LoadOptions options;
  TreeLoadOptions of_tree;
  of_tree.partial = true;
  options.handler_options.set(of_tree);
  const auto load_part = [&](const Request& request) {
    return core::start_load(folder, {request}, handlers_, options, context_).wait();
  };

  Loaded some = load_part("state");
  EXPECT_THAT(some.result().problems, ElementsAre(HasSubstr("model-00002-of-00003.safetensors")));
  const Tree part = some.take<Tree>("state");
  EXPECT_LT(part.size(), whole.size());
  EXPECT_GT(part.size(), first.size());

  testing::write_text(folder / "model-00003-of-00003.safetensors", "not opened");
  Loaded named = load_part({"state", AbstractTree(first)});
  EXPECT_THAT(named.result().problems, ElementsAre(HasSubstr("model-00002-of-00003.safetensors")));
  EXPECT_EQ(named.take<Tree>("state"), first);

  AbstractTree missing;
  missing["lm_head.steps"] = AbstractTree(whole)["lm_head.steps"];
  std::filesystem::remove(folder / "model-00003-of-00003.safetensors");
  EXPECT_THAT(
      [&] {
        load_part({"state", missing});
      },
      Fails(Errc::not_found, HasSubstr("model-00003-of-00003.safetensors")));
}

TEST_F(ForeignFolder, OpensTheShardsAloneThatATreeNeedsWhichIsLoadedInto) {
  const auto folder = folder_ / "folder";
  std::filesystem::copy(kData / "safetensors/hf_sharded", folder);
  testing::write_text(folder / "model-00002-of-00003.safetensors",
                      "version https://git-lfs.github.com/spec/v1\n");
  const Tree first = open(folder / "model-00001-of-00003.safetensors");
  Tree tree;
  for (const auto& [name, leaf] : first.as_map()) {
    const auto stored = leaf.as<Array>();
    tree[name] = Array::zeros(stored.shape(), stored.dtype());
  }
  const LoadOptions options = partial;

  static_cast<void>(core::start_load(folder, {{"state", into(tree)}}, handlers_, options, context_).wait());

  EXPECT_EQ(tree, first);
}

TEST_F(ForeignFolder, IsNoModelWhereShardsAreMissing) {
  const auto folder = folder_ / "folder";
  std::filesystem::create_directory(folder);
  std::filesystem::copy(kData / "safetensors/hf_sharded/model-00001-of-00003.safetensors", folder);

  EXPECT_THAT([&] { open(folder); }, Fails(Errc::not_found, HasSubstr("2 of 3 shards are not there")));
}

TEST_F(ForeignFolder, SaysThatAPointerOfGitLfsIsNoWeights) {
  const auto file = folder_ / "model.safetensors";
  testing::write_text(file, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n");

  EXPECT_THAT([&] { open(file); }, Fails(Errc::malformed_metadata,
                                         AllOf(HasSubstr("model.safetensors"), HasSubstr("'git lfs pull'"))));
}

TEST_F(ForeignFolder, TellsNothingOfWhatALinkLeadsToButItsKind) {
  const auto folder = folder_ / "folder";
  std::filesystem::create_directory(folder);
  testing::write_text(folder_ / "secret", "password: hunter2\n");
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "model.pt"}) {
    std::filesystem::create_symlink("../secret", folder / name);

    EXPECT_THAT(
        [&] { open(folder / name); },
        Fails(Errc::malformed_metadata, AllOf(HasSubstr(name), HasSubstr("a text lies in its place"),
                                              Not(HasSubstr("hunter2")), Not(HasSubstr("password")))));
  }
}

/// Lays out a folder as the cache of Hugging Face does: the revision is made of links to blobs.
std::filesystem::path make_cache(const std::filesystem::path& cache) {
  std::filesystem::create_directories(cache / "blobs");
  std::filesystem::create_directories(cache / "snapshots/main");
  int number = 0;
  for (const auto& file : std::filesystem::directory_iterator(kData / "safetensors/hf_sharded")) {
    const std::string blob = "blobs/" + std::to_string(number++);
    std::filesystem::copy(file, cache / blob);
    std::filesystem::create_symlink(std::filesystem::path("../..") / blob,
                                    cache / "snapshots/main" / file.path().filename());
  }
  return cache / "snapshots/main";
}

/// A file whose float32 tensor does not lie where a float may.
std::filesystem::path write_misaligned(const std::filesystem::path& path) {
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("w":{"dtype":"F32","shape":[50000],"data_offsets":[1,200001]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = header.size();
  std::string text(reinterpret_cast<const char*>(&size), sizeof size);
  text += header;
  text += '\x07';
  const std::vector<float> values(50'000, 1.5F);
  text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  testing::write_text(path, text);
  return path;
}

TEST_F(ForeignFile, GivesElementsAlignedMemoryWhereverTheyLieInTheFile) {
  const auto path = write_misaligned(folder_ / "odd.safetensors");
  for (const bool maps : {false, true}) {
    TreeLoadOptions options;
    options.map = maps;

    const Tree tree = load_from<Tree>(path, "state", options);

    EXPECT_THAT(tree["w"].as<std::span<const float>>(), ::testing::Each(1.5F)) << maps;
  }
}

TEST_F(ForeignFolder, LoadsWhatLiesBehindLinks) {
  const auto folder = make_cache(folder_ / "cache");
  std::filesystem::create_symlink("nowhere", folder / "README.md");

  EXPECT_EQ(contents(open(folder)), contents(open(kData / "safetensors/hf_sharded")));
  EXPECT_EQ(contents(open(folder / "model-00001-of-00003.safetensors")),
            contents(open(kData / "safetensors/hf_sharded/model-00001-of-00003.safetensors")));
}

TEST_F(ForeignFolder, SaysThatALinkLeadsToNoFile) {
  const auto folder = make_cache(folder_ / "cache");
  const auto shard = folder / "model-00002-of-00003.safetensors";
  const auto becomes = [&](const std::filesystem::path& target) {
    std::filesystem::remove(shard);
    std::filesystem::create_symlink(target, shard);
  };
  for (const char* target : {"nowhere", "model-00002-of-00003.safetensors", "..", "/dev/null"}) {
    becomes(target);

    EXPECT_THAT([&] { open(folder); },
                Fails(Errc::not_found, HasSubstr("model-00002-of-00003.safetensors is a symbolic link")))
        << target;
  }
  becomes("/dev/null");
  EXPECT_THAT([&] { open(shard); }, Fails(Errc::not_found, HasSubstr("is a symbolic link")));
}

TEST_F(TorchFolder, PutsSlicesOfRanksTogether) {
  EXPECT_EQ(contents(open(kData / "dcp_hf/sharded")), contents(open(kData / "dcp_hf/whole")));
}

TEST_F(TorchFolder, PlacesSlicesIntoMemoryOfTheCaller) {
  const auto path = kData / "dcp_hf/sharded";
  const Tree plain = open(path);
  const Array stored = plain["layers.0.block.weight"].as<Array>();
  std::vector<float> memory(stored.element_count());
  AbstractTree wanted(plain);
  wanted["layers.0.block.weight"].place_into(MutableArrayView(memory.data(), stored.shape(), DType::float32));

  load_from<Tree>(path, {"state", wanted});

  std::vector<float> expected(memory.size());
  cast_range(stored.view(), DType::float32, 0, std::as_writable_bytes(std::span(expected)));
  EXPECT_EQ(memory, expected);
}

TEST_F(TorchFolder, MissesTheSliceOfARankThatIsNotTheLast) {
  const auto folder = folder_ / "folder";
  std::filesystem::copy(kData / "dcp_hf/sharded", folder);
  std::filesystem::remove(folder / "shard-00001-model-00001-of-00001.safetensors");

  EXPECT_THAT([&] { open(folder); }, Fails(Errc::incomplete_shards));
}

}  // namespace
}  // namespace cairn
