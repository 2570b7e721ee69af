// SPDX-License-Identifier: Apache-2.0
// Loads that give other names to what is stored.
#include "cairn/handlers/renames.hpp"

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <boost/describe/class.hpp>
#include <fmt/format.h>

#include "cairn/handlers/describe.hpp"
#include "cairn/handlers/into.hpp"

#include "core/internal/start.hpp"
#include "handlers/store.hpp"
#include "support/test_data.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Projection {
  Array weight;
};
BOOST_DESCRIBE_STRUCT(Projection, (), (weight))

struct SelfAttention {
  Projection q_proj;
};
BOOST_DESCRIBE_STRUCT(SelfAttention, (), (q_proj))

struct DecoderLayer {
  SelfAttention self_attn;
  std::map<std::string, std::vector<float>> input_layernorm;
};
BOOST_DESCRIBE_STRUCT(DecoderLayer, (), (self_attn, input_layernorm))

struct LanguageModel {
  std::vector<DecoderLayer> layers;
  Projection embed_tokens;
};
BOOST_DESCRIBE_STRUCT(LanguageModel, (), (layers, embed_tokens))

using Names = std::vector<std::pair<std::string, std::vector<std::uint64_t>>>;

/// Writes a safetensors file of float32 as Hugging Face's programs do; the elements count from 0 in each tensor.
void write_safetensors(const std::filesystem::path& path, const Names& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string data;
  for (const auto& [name, shape] : tensors) {
    std::uint64_t elements = 1;
    std::string dims;
    for (const std::uint64_t extent : shape) {
      elements *= extent;
      dims += fmt::format("{}{}", dims.empty() ? "" : ",", extent);
    }
    header += fmt::format(R"(,"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", name, dims,
                          data.size(), data.size() + 4 * elements);
    for (std::uint64_t i = 0; i < elements; ++i) {
      const auto value = static_cast<float>(i);
      data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::uint64_t size = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header << data;
}

const Names kLanguageModel = {{"model.embed_tokens.weight", {4, 2}},
                              {"model.layers.0.input_layernorm.weight", {2}},
                              {"model.layers.0.self_attn.q_proj.weight", {2, 2}},
                              {"model.layers.1.input_layernorm.weight", {2}},
                              {"model.layers.1.self_attn.q_proj.weight", {2, 3}}};

class RenamesOfLoads : public testing::StoreTest {
 protected:
  [[nodiscard]] std::filesystem::path file() const { return folder_ / "model.safetensors"; }

  Loaded load_file(const Request& request, const TreeLoadOptions& tree_options) {
    LoadOptions options;
    options.handler_options.set(tree_options);
    return core::start_load(file(), {request}, handlers_, options, context_).wait();
  }

  Tree load_file(const TreeLoadOptions& options) { return load_file("state", options).take<Tree>("state"); }

  static std::vector<std::string> names(const Tree& tree) {
    std::vector<std::string> found;
    visit_leaves(tree, [&found](std::string_view path, const Tree&) { found.emplace_back(path); });
    return found;
  }

  static std::vector<std::string> applied(const Renames& renames, const std::vector<std::string>& paths,
                                          const std::string& separator = {}) {
    return Renames::Use(renames, separator).apply(paths);
  }
};

TEST_F(RenamesOfLoads, LoadAStructFromAFileOfHuggingFace) {
  write_safetensors(file(), kLanguageModel);
  LanguageModel model;

  const Loaded loaded =
      load_file({"state", into(model)}, TreeLoadOptions::renamed({{"model.**", "**"}}, "."));

  ASSERT_EQ(model.layers.size(), 2U);
  EXPECT_EQ(model.layers[1].self_attn.q_proj.weight.shape(), Shape({2, 3}));
  EXPECT_EQ(model.layers[1].self_attn.q_proj.weight.data<float>()[5], 5.0F);
  EXPECT_THAT(model.layers[0].input_layernorm.at("weight"), ElementsAre(0, 1));
  EXPECT_EQ(model.embed_tokens.weight.shape(), Shape({4, 2}));
  EXPECT_THAT(loaded.result().problems, IsEmpty());
}

TEST_F(RenamesOfLoads, LoadNumbersIntoAMapOfNumbersWithAndWithoutGaps) {
  for (const std::string last : {"1", "7"}) {
    write_safetensors(file(), {{"0.weight", {1}}, {last + ".weight", {2}}});
    std::map<int, Projection> model;

    load_file({"state", into(model)}, TreeLoadOptions::renamed({}, "."));

    ASSERT_EQ(model.size(), 2U);
    EXPECT_EQ(model.at(std::stoi(last)).weight.shape(), Shape({2}));
  }
}

TEST_F(RenamesOfLoads, NestAFolderThatHuggingFaceHasWritten) {
  LoadOptions options;
  options.handler_options.set(TreeLoadOptions::renamed({{"model.**", "**"}}, "."));

  const AbstractTree stored =
      core::read_metadata(testing::test_data() / "safetensors/hf_sharded", {}, handlers_, options, context_)
          .at("state")
          .as<AbstractTree>();

  EXPECT_EQ(stored.at("layers").kind(), TreeKind::list);
  EXPECT_EQ(stored.at("layers/3/norm/bias").kind(), TreeKind::array);
  EXPECT_EQ(stored.at("lm_head/steps").kind(), TreeKind::array);
}

TEST_F(RenamesOfLoads, LeaveNumbersWithGapsAMap) {
  write_safetensors(file(), {{"0.weight", {1}}, {"2.weight", {1}}, {"10.0", {1}}});

  const Tree tree = load_file(TreeLoadOptions::renamed({}, "."));

  EXPECT_TRUE(tree.is_map());
  EXPECT_TRUE(tree.at("10").is_list());
  EXPECT_THAT(names(tree), ElementsAre("0/weight", "10", "10/0", "2/weight"));
}

TEST_F(RenamesOfLoads, TakeFlatNamesWithoutASeparator) {
  write_safetensors(file(), {{"module.a.w", {1}}, {"module.b", {1}}, {"c", {1}}});

  EXPECT_THAT(names(load_file(TreeLoadOptions::renamed({{"module.**", "**"}}))),
              ElementsAre("a.w", "b", "c"));
}

TEST_F(RenamesOfLoads, AreThoseThatIsAskedFor) {
  write_safetensors(file(), kLanguageModel);
  TreeLoadOptions options = TreeLoadOptions::renamed({{"model/embed_tokens/*", "embedding/*"}}, ".");
  options.partial = true;
  options.aliases = {{"head/weight", "embedding/weight"}};
  AbstractTree wanted;
  wanted["embedding"]["weight"] = AbstractArray({4, 2}, DType::float64);
  wanted["head"]["weight"] = AbstractArray({4, 2}, DType::float32);

  const Tree tree = load_file({"state", wanted}, options).take<Tree>("state");

  EXPECT_EQ(tree.at("embedding/weight").as<Array>().data<double>()[7], 7.0);
  EXPECT_EQ(tree.at("head/weight").as<Array>().data<float>()[7], 7.0F);
}

TEST_F(RenamesOfLoads, GoForCheckpointsWithTheirListsAndSecondNames) {
  std::vector<float> shared = {1, 2};
  save(Tree{{"model",
             {{"layers", Tree::list({Tree{{"w", Array::borrow(ArrayView(shared))}}, Tree{{"w", 3}}})},
              {"head", Array::borrow(ArrayView(shared))},
              {"none", nullptr}}},
            {"step", 7}});

  const Tree tree = load<Tree>("item", TreeLoadOptions::renamed({{"model/**", "network/model/**"}}));

  EXPECT_TRUE(tree.at("network/model/layers").is_list());
  EXPECT_EQ(tree.at("network/model/layers/1/w").as<int>(), 3);
  EXPECT_THAT(tree.at("network/model/head").as<std::vector<float>>(), ElementsAre(1, 2));
  EXPECT_THAT(tree.at("network/model/layers/0/w").as<std::vector<float>>(), ElementsAre(1, 2));
  EXPECT_EQ(tree.at("step").as<int>(), 7);
}

TEST_F(RenamesOfLoads, MakeAMapOfAListThatLosesElements) {
  save(Tree{{"layers", Tree::list({Tree{{"w", 1}}, Tree{{"w", 2}}})}});

  const Tree tree = load<Tree>("item", TreeLoadOptions::renamed({{"layers/0/*", "first/*"}}));

  EXPECT_EQ(tree.at("first/w").as<int>(), 1);
  EXPECT_TRUE(tree.at("layers").is_map());
  EXPECT_EQ(tree.at("layers/1/w").as<int>(), 2);
}

TEST_F(RenamesOfLoads, MayBeAFunctionOfThePath) {
  save(Tree{{"a", {{"b", 1}}}, {"c", 2}});
  TreeLoadOptions options;
  options.rename = [](std::string_view path) { return path == "c" ? "a/c" : "x/" + std::string(path); };

  EXPECT_THAT(names(load<Tree>("item", options)), ElementsAre("a/c", "x/a/b"));
}

TEST_F(RenamesOfLoads, WithPatternsThatMatchNothingSaySo) {
  save(Tree{{"model", {{"w", 1}}}});
  LoadOptions options;
  options.handler_options.set(TreeLoadOptions::renamed({{"modle/**", "**"}, {"model/**", "m/**"}}));

  const Loaded loaded = core::start_load(path(), {"item"}, handlers_, options, context_).wait();

  EXPECT_THAT(loaded.result().problems,
              ElementsAre(HasSubstr(
                  "the rename 'modle/**=**' matches no path that is stored; the nearest: 'model/w'")));
}

TEST_F(RenamesOfLoads, WithPatternsThatMatchNothingSaySoWhereSomethingLacks) {
  write_safetensors(file(), kLanguageModel);
  LanguageModel model;

  EXPECT_THAT(
      [&] {
        load_file({"state", into(model)}, TreeLoadOptions::renamed({{"modle.**", "**"}}, "."));
      },
      Fails(Errc::structure_mismatch, AllOf(HasSubstr("'layers'"), HasSubstr("the rename 'modle.**=**'"))));
}

TEST_F(RenamesOfLoads, RefuseAPathThatWouldBeALeafAndAMap) {
  write_safetensors(file(), {{"a", {1}}, {"a-b", {1}}, {"a.b", {1}}});

  EXPECT_THAT([&] { load_file(TreeLoadOptions::renamed({}, ".")); },
              Fails(Errc::invalid_argument, AllOf(HasSubstr("'a' was to be called 'a', and 'a.b' 'a/b'"),
                                                  HasSubstr("both a leaf and a map"))));
}

TEST_F(RenamesOfLoads, RefuseTwoOfOneName) {
  write_safetensors(file(), {{"module.w", {1}}, {"w", {1}}});

  EXPECT_THAT(
      [&] {
        load_file(TreeLoadOptions::renamed({{"module.**", "**"}}));
      },
      Fails(Errc::invalid_argument, HasSubstr("'module.w' and 'w' would both become 'w'")));
}

TEST_F(RenamesOfLoads, RefuseCycles) {
  EXPECT_THAT(
      [] {
        applied({{"a/**", "b/**"}, {"b/**", "a/**"}}, {"a/w"});
      },
      Fails(Errc::invalid_argument, HasSubstr("make 'b/w' of 'a/w', and 'a/w' again of that")));
}

TEST_F(RenamesOfLoads, RefuseWhatIsNoPattern) {
  EXPECT_THAT(
      [] {
        applied({{"a/b**", "c"}}, {});
      },
      Fails(Errc::invalid_argument, HasSubstr("of a rename has '**' in a key")));
  EXPECT_THAT(
      [] {
        applied({{"a//b", "c"}}, {});
      },
      Fails(Errc::invalid_argument, HasSubstr("has an empty key")));
  EXPECT_THAT(
      [] {
        applied({{"a.**.", "c"}}, {});
      },
      Fails(Errc::invalid_argument, HasSubstr("has an empty key")));
  EXPECT_THAT([] { applied({{"a/*", "*/*"}}, {}); }, Fails(Errc::invalid_argument, HasSubstr("'a/*=*/*'")));
  EXPECT_THAT([] { applied({}, {}, "*"); }, Fails(Errc::invalid_argument, HasSubstr("the separator '*'")));
  EXPECT_THAT([] { applied([](std::string_view) { return "a//b"; }, {"c"}); },
              Fails(Errc::invalid_argument, HasSubstr("make 'a//b' of 'c', which is not a path")));
}

TEST_F(RenamesOfLoads, FillWildcardsInTheirOrder) {
  EXPECT_THAT(applied({{"**/layer*/**/w*", "net/l*/**/x*/**"}}, {"a/b/layer12/c/weight", "layer1/w"}),
              ElementsAre("net/l12/a/b/xeight/c", "net/l1/x"));
  EXPECT_THAT(applied({{"a*b*c", "*-*"}}, {"axbyc", "abc", "abbcc", "ab"}),
              ElementsAre("x-y", "-", "-bc", "ab"));
  EXPECT_THAT(applied({{"**", "x/**"}}, {"", "a/b"}), ElementsAre("x", "x/a/b"));
}

TEST_F(RenamesOfLoads, KeepPointsApartFromSlashes) {
  EXPECT_THAT(applied({{"module.**", "**"}}, {"module.a/b", "module/a", "module", "module.a.b"}),
              ElementsAre("a/b", "module/a", "", "a.b"));
  EXPECT_THAT(applied({{"state/module.**", "state/**"}}, {"state/module.conv.w", "state/x"}),
              ElementsAre("state/conv.w", "state/x"));
  EXPECT_THAT(applied({{"**.bias", "**.b"}}, {"a.bias", "bias", "a/bias"}),
              ElementsAre("a.b", "b", "a/bias"));
}

TEST_F(RenamesOfLoads, DivideKeysAtTheSeparator) {
  EXPECT_THAT(applied({{"a::**", "**"}}, {"a::b.c::d", "e~1f::g"}, "::"), ElementsAre("b.c/d", "e~1f/g"));
  EXPECT_THAT(applied({}, {"params~1w"}, "/"), ElementsAre("params/w"));
}

}  // namespace
}  // namespace cairn
