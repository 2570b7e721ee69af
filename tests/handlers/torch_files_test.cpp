// SPDX-License-Identifier: Apache-2.0
// Files of torch and Megatron-Core through the one loader: tests/data/torch, torch_more and megatron; their READMEs say
// by whom. expected.json has what torch reads.
#include "support/torch_files.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/array/array_view.hpp"
#include "cairn/handlers/tree_handler.hpp"
#include "cairn/handlers/tree_values.hpp"

#include "array/internal/cast.hpp"
#include "core/internal/start.hpp"
#include "formats/internal/torch_archive.hpp"
#include "formats/internal/zip.hpp"
#include "formats/internal/zstd.hpp"
#include "handlers/store.hpp"
#include "support/noise.hpp"
#include "support/sha256.hpp"
#include "support/test_data.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;
using testing::read_text;
using testing::write_text;

/// Files of one checkpoint, and where in an expected.json its tensors stand.
struct TorchFiles {
  const char* name;
  const char* path;
  const char* expected;
  const char* tensors;
  bool is_flat = false;    ///< Names are keys, not paths.
  const char* below = "";  ///< Where in the tree they are.
};

void PrintTo(const TorchFiles& files, std::ostream* out) {
  *out << files.name;
}

std::string bytes_of(const Array& array) {
  const Array dense = array.clone();
  const auto bytes = dense.view().bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class TorchTest : public testing::StoreTest {
 protected:
  static std::filesystem::path data(std::string_view path) { return testing::test_data() / path; }

  static TreeLoadOptions leaving_out() {
    TreeLoadOptions options;
    options.leave_out = true;
    return options;
  }

  Tree open(const std::filesystem::path& path, const TreeLoadOptions& options = leaving_out()) {
    return load_from<Tree>(path, "state", options);
  }

  static LoadOptions leaving_out_of_load() {
    LoadOptions options;
    options.handler_options.set(leaving_out());
    return options;
  }

  AbstractTree metadata_of(const std::filesystem::path& path) {
    return core::read_metadata(path, {}, handlers_, LoadOptions(), context_).at("state").as<AbstractTree>();
  }

  Tree open_as(const std::filesystem::path& path, AbstractTree wanted) {
    return load_from<Tree>(path, {"state", std::move(wanted)}, leaving_out());
  }
};

class TorchFixtures : public TorchTest, public ::testing::WithParamInterface<TorchFiles> {
 protected:
  /// The tensors that torch has in these files, by their paths in the tree.
  static std::map<std::string, nlohmann::json> expected() {
    const auto all = nlohmann::json::parse(read_text(data(GetParam().expected)));
    nlohmann::json tensors = all.at(nlohmann::json::json_pointer(GetParam().tensors));
    if (tensors.contains("sha256")) {
      return {{"", tensors}};
    }
    std::map<std::string, nlohmann::json> by_path;
    for (const auto& [name, tensor] : tensors.items()) {
      std::string path;
      formats::append_key(path, name);
      by_path.emplace(GetParam().below + (GetParam().is_flat ? path : name), tensor);
    }
    return by_path;
  }
};

TEST_P(TorchFixtures, GiveTheTensorsThatTorchSaved) {
  const Tree tree = open(data(GetParam().path));

  for (const auto& [path, tensor] : expected()) {
    const Array array = tree.at(path).as<Array>();
    EXPECT_EQ(array.dtype(), formats::torch_dtype(tensor.at("dtype").get<std::string>())) << path;
    EXPECT_EQ(testing::sha256(bytes_of(array)), tensor.at("sha256").get<std::string>()) << path;
  }
}

TEST_P(TorchFixtures, AreDescribedWithoutBeingRead) {
  const AbstractTree stored = metadata_of(data(GetParam().path));

  for (const auto& [path, tensor] : expected()) {
    auto extents = tensor.at("shape").get<std::vector<std::uint64_t>>();
    const AbstractArray array = std::as_const(stored).at(path).as_array();
    if (array.dtype == DType::float4) {
      extents.back() *= 2;
    }
    EXPECT_EQ(array.shape, Shape(std::span<const std::uint64_t>(extents))) << path;
  }
}

TEST_P(TorchFixtures, LoadInBoxesAndCast) {
  const Tree whole = open(data(GetParam().path));
  AbstractTree wanted = metadata_of(data(GetParam().path));
  std::map<std::string, Box> boxes;
  for (const auto& [path, tensor] : expected()) {
    AbstractArray& array = wanted.at(path).as_array();
    if (is_packed(array.dtype)) {
      continue;
    }
    Shape offsets(array.shape.size(), 0);
    Shape extents = array.shape;
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
      offsets[axis] = extents[axis] / 3;
      extents[axis] -= offsets[axis] + (extents[axis] > 2 ? 1 : 0);
    }
    boxes.emplace(path, Box(offsets, extents));
    array.box = boxes.at(path);
    if (array.dtype == DType::float32 || array.dtype == DType::bfloat16) {
      array.dtype = DType::float64;
    }
  }

  const Tree part = open_as(data(GetParam().path), wanted);

  for (const auto& [path, box] : boxes) {
    const Array all = whole.at(path).as<Array>();
    const Array got = part.at(path).as<Array>();
    Array same(box.extents(), got.dtype());
    cast(Array::borrow(all.view().part(box)).clone().view().bytes(), all.dtype(), same.mutable_view().bytes(),
         got.dtype());
    EXPECT_EQ(bytes_of(got), bytes_of(same)) << path << " " << to_string(box);
  }
}

TEST_P(TorchFixtures, LoadIntoMemory) {
  const Tree whole = open(data(GetParam().path));
  AbstractTree wanted = metadata_of(data(GetParam().path));
  std::map<std::string, Array> places;
  for (const auto& [path, tensor] : expected()) {
    AbstractArray& array = wanted.at(path).as_array();
    places.emplace(path, Array(array.shape, array.dtype));
    array.place_into(places.at(path));
  }

  const Tree loaded = open_as(data(GetParam().path), wanted);

  for (const auto& [path, place] : places) {
    EXPECT_EQ(bytes_of(place), bytes_of(whole.at(path).as<Array>())) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TorchFixtures,
    ::testing::Values(
        TorchFiles{"StateDict", "torch/state_dict.pt", "torch/expected.json", "/state_dict.pt/model", false,
                   "model/"},
        TorchFiles{"Dtypes", "torch_more/dtypes.pt", "torch_more/expected.json", "/pt/dtypes.pt"},
        TorchFiles{"Views", "torch_more/views.pt", "torch_more/expected.json", "/pt/views.pt"},
        TorchFiles{"Training", "torch_more/training.pt", "torch_more/expected.json", "/pt/training.pt"},
        TorchFiles{"Protocol5", "torch_more/protocol5.pt", "torch_more/expected.json", "/pt/training.pt"},
        TorchFiles{"RootTensor", "torch_more/root_tensor.pt", "torch_more/expected.json",
                   "/pt/root_tensor.pt"},
        TorchFiles{"RootList", "torch_more/root_list.pt", "torch_more/expected.json", "/pt/root_list.pt"},
        TorchFiles{"BigEndian", "torch_more/big_endian.pt", "torch_more/expected.json", "/pt/big_endian.pt"},
        TorchFiles{"NoCrc", "torch_more/no_crc.pt", "torch_more/expected.json", "/pt/no_crc.pt"},
        TorchFiles{"Classic", "torch/dcp", "torch/expected.json", "/dcp/tensors", true},
        TorchFiles{"Fsdp2", "torch_more/fsdp2", "torch_more/expected.json", "/dcp/fsdp2", true},
        TorchFiles{"Plain", "torch_more/plain", "torch_more/expected.json", "/dcp/plain", true},
        TorchFiles{"PerRank", "torch_more/per_rank", "torch_more/expected.json", "/dcp/per_rank", true},
        TorchFiles{"Megatron", "megatron/tp2_pp2", "megatron/expected.json", "/sets/tp2_pp2/tensors", true},
        TorchFiles{"FlattenedMegatron", "megatron/flat_tp2_dp3", "megatron/expected.json",
                   "/sets/flat_tp2_dp3/tensors", true}),
    [](const auto& test) { return std::string(test.param.name); });

using TorchArchiveFile = TorchTest;
using TorchFolderOfArchives = TorchTest;
using DistributedCheckpoint = TorchTest;

TEST_F(TorchArchiveFile, IsTheTreeThatWasPickled) {
  const Tree tree = open(data("torch/state_dict.pt"), {});

  EXPECT_EQ(tree.at("step").as<int>(), 17);
  EXPECT_EQ(tree.at("tags").as<std::vector<std::string>>(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(TorchArchiveFile, LoadsTiedParametersIntoOneMemory) {
  const Tree tree = open(data("torch_more/views.pt"));
  std::map<const std::byte*, std::size_t> names;
  for (const auto& [key, leaf] : tree.as_map()) {
    if (leaf.is_array() && leaf.as<Array>().byte_count() > 0) {
      ++names[leaf.as<Array>().view().data()];
    }
  }

  EXPECT_TRUE(std::any_of(names.begin(), names.end(), [](const auto& one) { return one.second > 1; }));
}

TEST_F(TorchArchiveFile, NamesWhatHasNoPlaceUnlessItIsLeftOut) {
  EXPECT_THAT([&] { open(data("torch_more/odd.pt"), {}); },
              Fails(Errc::structure_mismatch, AllOf(HasSubstr("has no place in a tree, and so has"),
                                                    HasSubstr("TreeLoadOptions::leave_out"))));

  EXPECT_TRUE(open(data("torch_more/odd.pt")).at("fine").is_array());
  EXPECT_FALSE(metadata_of(data("torch_more/odd.pt")).left_out().empty());
  AbstractTree wanted;
  wanted["complex128"] = as_saved;
  TreeLoadOptions options;
  options.partial = true;
  EXPECT_TRUE(
      (load_from<Tree>(data("torch_more/odd.pt"), {"state", wanted}, options).at("complex128").is_array()));
}

TEST_F(TorchArchiveFile, ThatIsNotReadSaysWhatItIs) {
  const std::map<std::string, std::string> reasons = {
      {"legacy.pt", "the form of torch.save before version 1.6"},
      {"deflated.pt", "it is compressed"},
      {"no_pickle.pt", "no 'data.pkl'"},
      {"no_storage.pt", "is missing in the archive"},
      {"member_twice.pt", "two members have this name"},
      {"script.pt", "TorchScript"}};
  for (const auto& [file, reason] : reasons) {
    const std::filesystem::path path = data("torch_more/" + file);
    EXPECT_THAT([&] { open(path); },
                Fails(Errc::malformed_metadata, AllOf(HasSubstr(file), HasSubstr(reason))));
  }
}

TEST_F(TorchArchiveFile, IsNotTakenForOneByItsName) {
  write_text(folder_ / "model.pt", "<html>not found</html>");

  EXPECT_THAT(
      [&] { open(folder_ / "model.pt"); },
      Fails(Errc::malformed_metadata, HasSubstr("not an archive of torch.save: the answer of a server")));
}

TEST_F(TorchFolderOfArchives, WantsToKnowWhichOne) {
  const auto folder = folder_ / "several";
  std::filesystem::create_directory(folder);
  write_text(folder / "a.pt", read_text(data("torch/state_dict.pt")));
  EXPECT_EQ(open(folder).at("step").as<int>(), 17);

  write_text(folder / "b.pt", read_text(data("torch/state_dict.pt")));
  EXPECT_THAT([&] { open(folder); }, Fails(Errc::invalid_argument, HasSubstr("'a.pt', 'b.pt'")));
}

TEST_F(TorchFolderOfArchives, AreReadByTheListThatNamesTheirTensors) {
  const auto folder = folder_ / "shards";
  std::filesystem::create_directory(folder);
  write_text(folder / "pytorch_model-1.bin", read_text(data("torch_more/no_crc.pt")));
  write_text(folder / "pytorch_model-2.bin", read_text(data("torch_more/big_endian.pt")));
  const std::string list = R"({"weight_map":{"f":"pytorch_model-1.bin","i":"pytorch_model-2.bin"}})";
  write_text(folder / "pytorch_model.bin.index.json", list);

  const Tree tree = open(folder);

  EXPECT_EQ(tree.size(), 2U);
  EXPECT_EQ(bytes_of(tree.at("i").as<Array>()),
            bytes_of(open(data("torch_more/no_crc.pt")).at("i").as<Array>()));
}

TEST_F(DistributedCheckpoint, HasObjectsAsTrees) {
  const Tree tree = open(data("megatron/tp2_pp2"));

  EXPECT_EQ(open(data("torch_more/plain")).as_map().at("text").as<std::string>(), "\u00e9");
  EXPECT_TRUE(tree.as_map().at("common_state/shard_0_1").is_map());
  AbstractTree stored = metadata_of(data("torch_more/plain"));
  EXPECT_TRUE(stored["text"].is_as_saved());
}

TEST_F(DistributedCheckpoint, NamesObjectsThatHaveNoPlace) {
  const auto path = data("torch_more/odd_objects");
  EXPECT_THAT([&] { open(path, {}); }, Fails(Errc::structure_mismatch, HasSubstr("has no place in a tree")));

  Loaded loaded = core::start_load(path, {"state"}, handlers_, leaving_out_of_load(), context_).wait();
  const Tree tree = loaded.take<Tree>("state");
  EXPECT_EQ(tree.find("huge"), nullptr);
  EXPECT_EQ(tree.find("when"), nullptr);
  EXPECT_TRUE(tree.at("w").is_array());
  EXPECT_THAT(
      loaded.result().problems,
      ::testing::UnorderedElementsAre(
          AllOf(HasSubstr("huge"), HasSubstr("an integer of more than 64 bits"), HasSubstr("is left out")),
          AllOf(HasSubstr("when"), HasSubstr("is left out"))));

  AbstractTree wanted;
  wanted["huge"] = as_saved;
  TreeLoadOptions options = leaving_out();
  options.partial = true;
  EXPECT_THAT(
      [&] {
        load_from<Tree>(path, {"state", wanted}, options);
      },
      Fails(Errc::structure_mismatch, HasSubstr("huge")))
      << "asked for by its name";
}

TEST_F(DistributedCheckpoint, LeavesOutObjectsThatAreNotRead) {
  const auto folder = folder_ / "unread";
  std::filesystem::copy(data("torch_more/odd_objects"), folder);
  std::string chunks = read_text(folder / "__0_0.distcp");
  const std::size_t last =
      chunks.rfind("PK\5\6");  // Ends the archive of `w`; the one before that of an object.
  const std::size_t end = chunks.rfind("PK\5\6", last - 1);
  ASSERT_NE(end, std::string::npos);
  write_text(folder / "__0_0.distcp", chunks.replace(end, 2, "??"));

  Loaded loaded = core::start_load(folder, {"state"}, handlers_, leaving_out_of_load(), context_).wait();

  const Tree tree = loaded.take<Tree>("state");
  EXPECT_TRUE(tree.at("w").is_array());
  EXPECT_FALSE(tree.as_map().contains("x/shard_0"));
  EXPECT_THAT(loaded.result().problems,
              ::testing::Contains(AllOf(HasSubstr("shard_0"), HasSubstr("an object that is not read"))));
  AbstractTree wanted;
  wanted["x/shard_0"] = as_saved;
  TreeLoadOptions options = leaving_out();
  options.partial = true;
  EXPECT_THAT(
      [&] {
        load_from<Tree>(folder, {"state", wanted}, options);
      },
      Fails(Errc::malformed_metadata, HasSubstr("shard_0")))
      << "asked for by its name";
}

TEST_F(DistributedCheckpoint, SaysWhatToDoAboutWhatHasNoPlace) {
  const auto error_of = [&](const std::filesystem::path& path, std::string_view name, bool may_leave_out) {
    AbstractTree wanted;
    wanted[std::string(name)] = as_saved;
    TreeLoadOptions options;
    options.partial = true;
    options.leave_out = may_leave_out;
    std::string text;
    try {
      load_from<Tree>(path, {"state", wanted}, options);
    } catch (const Error& error) {
      text = error.what();
    }
    return text;
  };
  for (const bool may_leave_out : {false, true}) {
    for (const std::string& text : {error_of(data("torch_more/odd_objects"), "huge", may_leave_out),
                                    error_of(data("torch_more/odd.pt"), "huge", may_leave_out)}) {
      EXPECT_THAT(text, AllOf(HasSubstr("'huge'"), HasSubstr("not for it by its name"),
                              ::testing::Not(HasSubstr("leave_out"))));
    }
  }
}

TEST_F(DistributedCheckpoint, HasListsOfOneUnderNamesLikeThoseOfShards) {
  const Tree tree = open(data("torch_more/odd_objects"));
  EXPECT_EQ(tree.as_map().at("x/shard_0").at("0").as<std::int64_t>(), 42);

  // Nobody says that this one is of Megatron-Core.
  const auto folder = folder_ / "others";
  std::filesystem::copy(data("megatron/tp2_pp2"), folder);
  std::filesystem::remove(folder / "metadata.json");
  EXPECT_TRUE(open(folder).as_map().at("common_state/shard_0_1").is_list());
  write_text(folder / "metadata.json", "[7]");
  EXPECT_TRUE(open(folder).as_map().at("common_state/shard_0_1").is_list());
}

TEST_F(DistributedCheckpoint, HasTensorsOfFloat4) {
  const Tree tree = open(data("torch_more/odd_dtypes"));

  const Array array = tree.at("float4_e2m1fn_x2").as<Array>();
  EXPECT_EQ(array.dtype(), DType::float4);
  EXPECT_EQ(array.shape(), Shape({16}));
  EXPECT_EQ(tree.find("complex32"), nullptr);
}

TEST_F(TorchArchiveFile, HasMapsThatAreMadeOfPairs) {
  const Tree tree = open(data("torch_more/pairs.pt"), {});
  EXPECT_TRUE(tree.at("od/a").is_array());
  EXPECT_EQ(tree.at("od/b").as<std::int64_t>(), 5);
}

TEST_F(TorchArchiveFile, HasArraysOfNumpyWhoseAxesLieInAnyOrder) {
  const Tree tree = open(data("torch_more/numpy5.pt"), {});

  EXPECT_TRUE(tree.at("ok").is_array());
  const Array array = tree.at("t").as<Array>();  // np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)
  EXPECT_EQ(array.shape(), Shape({4, 2, 3}));
  std::vector<double> wanted;
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 6; ++b) {
      wanted.push_back(a + 4.0 * b);
    }
  }
  EXPECT_EQ(bytes_of(array), std::string(reinterpret_cast<const char*>(wanted.data()), 8 * wanted.size()));
}

TEST_F(DistributedCheckpoint, HasTensorsThatAreConjugated) {
  const Tree tree = open(data("torch_more/conj"), {});

  EXPECT_TRUE(tree.at("ok").is_array());
  const float wanted[] = {1.0F, -2.0F};
  EXPECT_EQ(bytes_of(tree.at("c").as<Array>()),
            std::string(reinterpret_cast<const char*>(wanted), sizeof wanted));
}

TEST_F(DistributedCheckpoint, ReadsOnlyWhatItsBoxesNeed) {
  // Chunks of other boxes are gone, with the files that they lie in.
  const auto folder = folder_ / "dcp";
  std::filesystem::create_directory(folder);
  for (const char* file : {".metadata", "__1_0.distcp"}) {
    write_text(folder / file, read_text(data("torch/dcp") / file));
  }
  AbstractTree wanted;
  wanted["model.rows"] = AbstractArray({7, 3}, DType::float32);
  wanted["model.rows"].as_array().box = Box({4, 0}, {3, 3});
  TreeLoadOptions options;
  options.partial = true;

  const Tree tree = load_from<Tree>(folder, {"state", wanted}, options);

  const Array whole = open(data("torch/dcp")).as_map().at("model.rows").as<Array>();
  EXPECT_EQ(bytes_of(tree.at("model.rows").as<Array>()),
            bytes_of(Array::borrow(whole.view().part(Box({4, 0}, {3, 3})))));
  EXPECT_THAT([&] { open(folder); }, Fails(Errc::not_found, HasSubstr("__0_0.distcp")));
}

/// Flips a bit of an element.
void damage(const std::filesystem::path& file, std::span<const std::byte> elements) {
  std::string bytes = read_text(file);
  const std::size_t at =
      bytes.find(std::string_view(reinterpret_cast<const char*>(elements.data()), elements.size()));
  ASSERT_NE(at, std::string::npos);
  bytes[at + elements.size() / 2] = static_cast<char>(bytes[at + elements.size() / 2] ^ 4);
  write_text(file, bytes);
}

TEST_F(TorchArchiveFile, IsComparedWithItsSumsWhereItIsReadWhole) {
  if (!formats::can_compute_crc32()) {
    GTEST_SKIP() << "without CRC-32";
  }
  // Of more than one window: its sum is made of those of several reads.
  const std::vector<std::byte> elements = testing::noise(9 << 20);
  const std::filesystem::path path = folder_ / "model.pt";
  {
    std::ofstream out(path, std::ios::binary);
    testing::TorchArchiveWriter archive(out);
    archive.add("data.pkl", testing::torch_pickle({{"w", DType::float32, {9, 1024, 256}}}));
    archive.add("data/0", {reinterpret_cast<const char*>(elements.data()), elements.size()});
    archive.finish();
  }
  EXPECT_EQ(bytes_of(open(path).at("w").as<Array>()),
            std::string(reinterpret_cast<const char*>(elements.data()), elements.size()));

  damage(path, elements);

  EXPECT_THAT([&] { open(path); },
              Fails(Errc::checksum_mismatch, AllOf(HasSubstr("model.pt"), HasSubstr("'w'"))));
  AbstractTree wanted = metadata_of(path);
  wanted["w"].as_array().dtype = DType::float64;  // Through a cast, too.
  EXPECT_THAT([&] { open_as(path, wanted); }, Fails(Errc::checksum_mismatch, HasSubstr("'w'")));
  wanted = metadata_of(path);
  wanted["w"].as_array().box = Box({0, 0, 0}, {2, 1024, 256});
  EXPECT_NO_THROW(open_as(path, wanted));  // Nobody has a sum of a part.
}

TEST_F(DistributedCheckpoint, IsComparedWithItsSumsWhereChunksAreReadWhole) {
  if (!formats::can_compute_crc32()) {
    GTEST_SKIP() << "without CRC-32";
  }
  for (const std::uint64_t rows :
       {std::uint64_t{8}, std::uint64_t{800}}) {  // A small chunk, and a large one.
    const auto folder = folder_ / fmt::format("dcp{}", rows);
    const std::vector<std::byte> elements = testing::noise(rows * 1024);
    testing::DcpWriter writer(folder);
    writer.add("__0_0.distcp", {"w", DType::float32, {rows, 256}}, Box({0, 0}, {rows, 256}),
               {reinterpret_cast<const char*>(elements.data()), elements.size()});
    writer.finish();
    EXPECT_EQ(open(folder).at("w").as<Array>().byte_count(), elements.size());

    damage(folder / "__0_0.distcp", elements);

    EXPECT_THAT([&] { open(folder); },
                Fails(Errc::checksum_mismatch, AllOf(HasSubstr("__0_0.distcp"), HasSubstr("'w'"))));
  }
}

TEST_F(DistributedCheckpoint, IsReadWhereItsChunksAreFramesOfZstd) {
  if (!formats::can_read_zstd()) {
    EXPECT_THAT([&] { open(data("torch_more/zstd")); },
                Fails(Errc::feature_missing, AllOf(HasSubstr("'stream.zstd/1'"), HasSubstr("libzstd-dev"))));
    GTEST_SKIP() << "without zstd";
  }
  const auto all = nlohmann::json::parse(read_text(data("torch_more/expected.json")));
  const nlohmann::json expected = all.at("dcp").at("zstd").at("rows");

  const Array rows = open(data("torch_more/zstd")).at("rows").as<Array>();

  EXPECT_EQ(testing::sha256(bytes_of(rows)), expected.at("sha256").get<std::string>());
  AbstractTree wanted = metadata_of(data("torch_more/zstd"));
  wanted["rows"].as_array().box = Box({3, 1}, {3, 2});
  EXPECT_EQ(bytes_of(open_as(data("torch_more/zstd"), wanted).at("rows").as<Array>()),
            bytes_of(Array::borrow(rows.view().part(Box({3, 1}, {3, 2})))));
}

TEST_F(DistributedCheckpoint, IsRefusedWhereItsChunksAreEncodedOtherwise) {
  const auto folder = folder_ / "other";
  std::filesystem::copy(data("torch_more/zstd"), folder);
  std::string metadata = read_text(folder / ".metadata");
  for (std::size_t at = metadata.find("zstd/1"); at != std::string::npos; at = metadata.find("zstd/1")) {
    metadata.replace(at, 6, "zstd/9");
  }
  write_text(folder / ".metadata", metadata);

  EXPECT_THAT([&] { open(folder); },
              Fails(Errc::feature_missing, AllOf(HasSubstr("'rows'"), HasSubstr("'stream.zstd/9'"))));
}

TEST_F(DistributedCheckpoint, IsNotOneOfItsFiles) {
  EXPECT_THAT([&] { open(data("torch/dcp/__0_0.distcp")); },
              Fails(Errc::not_found, HasSubstr("give the path of the folder")));
}

}  // namespace
}  // namespace cairn
