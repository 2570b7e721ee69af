// SPDX-License-Identifier: Apache-2.0
// A checkpoint that was written once and is never replaced. When one of these tests fails, checkpoints that exist can
// no longer be read or are no longer written the same: raise the format's version instead.
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/stubs/common.h>
#include <google/protobuf/util/message_differencer.h>
#include <google/protobuf/wrappers.pb.h>
#include <nlohmann/json.hpp>

#include "cairn/handlers/json.hpp"
#include "cairn/handlers/proto.hpp"
#include "cairn/sharding/policy.hpp"

#include "api/fixture.hpp"
#include "array/internal/cast.hpp"
#include "base/internal/clock.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/verify.hpp"
#include "support/sanitizer.hpp"
#include "support/test_data.hpp"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::list_tree;
using testing::read_text;

const std::filesystem::path kGolden = testing::test_data() / "golden/checkpoint-v1";
const std::filesystem::path kGoldenComplex = testing::test_data() / "golden/complex-v1";
const std::filesystem::path kGoldenAliases = testing::test_data() / "golden/aliases-v1";
const std::filesystem::path kGoldenChunked = testing::test_data() / "golden/chunked-v1";

/// 2026-01-31T12:00:00Z, for ever.
class StoppedClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::system_clock::time_point now() const override {
    return std::chrono::system_clock::from_time_t(1769860800);
  }
  [[nodiscard]] std::chrono::steady_clock::time_point steady_now() const override { return {}; }
};

void count_up(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i);
  }
}

template <class T>
Array array_of(std::vector<T> values) {
  return Array::adopt(std::move(values));
}

/// Small numbers that every float type has.
Array floats_of(DType dtype) {
  const std::vector<float> values = {0.5F, -1.0F, 2.0F};
  Array array = Array::zeros({3}, dtype);
  cast(std::as_bytes(std::span(values)), DType::float32, array.mutable_view().bytes(), dtype,
       Narrowing::allowed);
  return array;
}

Tree golden_tree() {
  Tree floats;
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2}) {
    floats[name(dtype)] = floats_of(dtype);
  }
  return {{"params", {{"w", array_of<float>({1, 2, 3, 4, 5, 6}).reshaped({2, 3})}, {"floats", floats}}},
          {"integers",
           Tree::list({array_of<std::int8_t>({-128, 127}), array_of<std::uint64_t>({~std::uint64_t{0}}),
                       Array::zeros({2}, DType::boolean)})},
          {"scalar", array_of<double>({0.1}).reshaped({})},
          {"no elements", Array::zeros({0, 4}, DType::int32)},
          {"empty", {{"map", Tree::map()}, {"list", Tree::list()}}},
          {"step", -7},
          {"seed", ~std::uint64_t{0}},
          {"rate", 0.5},
          {"is_done", true},
          {"note", "größer/重み"},
          {"nothing", nullptr},
          {"a/b", {{"", 1}, {"~", 2}}}};
}

/// Complex numbers of both widths; `field` is stored in tiles of two.
Tree complex_tree() {
  std::vector<std::complex<double>> field;
  for (int i = 0; i < 12; ++i) {
    field.emplace_back(i, -0.1 * i);
  }
  return {{"field", array_of(std::move(field)).reshaped({3, 4})},
          {"one", array_of<std::complex<double>>({{0.1, 1e300}}).reshaped({})},
          {"narrow", array_of<std::complex<float>>({{1, 2}, {0, -0.5F}})},
          {"real", array_of<double>({0.25})}};
}

/// Arrays with several names; `embed` is stored in tiles.
Tree tree_with_aliases() {
  const Array embed = array_of<float>({1, 2, 3, 4, 5, 6}).reshaped({3, 2});
  const Array shared = array_of<std::int32_t>({7});
  return {{"body", {{"embed", embed}, {"norm", array_of<double>({0.5})}}},
          {"head", embed},
          {"layers", Tree::list({shared, {{"w", shared}}, shared})}};
}

class GoldenCheckpoint : public testing::ApiTest {
 protected:
  GoldenCheckpoint() : ApiTest(reproducible()) { message_.set_value("fast"); }

  static ContextOptions reproducible() {
    ContextOptions options = small();
    options.clock = std::make_shared<StoppedClock>();
    options.random = count_up;
    options.registry.add<ProtoHandler>();
    return options;
  }

  void save_golden(const std::filesystem::path& path) const {
    SaveOptions options;
    options.custom_metadata = R"({"made by": "golden_checkpoint_test"})";
    save_checkpointables(path,
                         {{"state", golden_tree()},
                          {"config", config_},
                          {"settings", message_},
                          {"Mask/1", array_of<std::int32_t>({1, 0, -1})}},
                         options, *context_);
  }

  void save_complex(const std::filesystem::path& path) const {
    SaveOptions options;
    options.handler_options.set(ShardingOptions(std::make_shared<Tiles>(32)));
    save(path, complex_tree(), options, *context_);
  }

  void save_aliases(const std::filesystem::path& path) const {
    SaveOptions options;
    options.handler_options.set(ShardingOptions(std::make_shared<Tiles>(8)));
    save(path, tree_with_aliases(), options, *context_);
  }

  void save_chunked(const std::filesystem::path& path) const {
    ProtoOptions of_messages;
    of_messages.chunked_from_bytes = 0;
    SaveOptions options;
    options.handler_options.set(of_messages);
    save_checkpointables(path, {{"settings", chunked_message()}}, options, *context_);
  }

  static google::protobuf::Struct chunked_message() {
    google::protobuf::Struct message;
    (*message.mutable_fields())["speed"].set_string_value("fast");
    (*message.mutable_fields())["text"].set_string_value(std::string(350'000, 'x'));
    return message;
  }

  static void expect_same(const std::filesystem::path& path, const std::filesystem::path& golden) {
    ASSERT_EQ(list_tree(path), list_tree(golden));
    for (const std::string& name : list_tree(golden)) {
      if (std::filesystem::is_regular_file(golden / name)) {
        EXPECT_TRUE(read_text(path / name) == read_text(golden / name)) << name;
      }
    }
  }

  const nlohmann::json config_ = {{"width", 512}, {"layers", {64, 128}}, {"name", nullptr}};
  google::protobuf::StringValue message_;
};

TEST_F(GoldenCheckpoint, IsSound) {
  const store::VerifyReport report = store::verify(io::posix_syscalls(), kGolden);

  EXPECT_TRUE(report.is_sound());
  EXPECT_GT(report.bytes, 0u);
}

TEST_F(GoldenCheckpoint, HasTheValuesThatWereSaved) {
  Loaded loaded = load_checkpointables(kGolden, {}, LoadOptions(), *context_);

  EXPECT_EQ(loaded.take<Tree>("state"), golden_tree());
  EXPECT_EQ(loaded.take<nlohmann::json>("config"), config_);
  EXPECT_EQ(loaded.take<google::protobuf::StringValue>("settings").value(), "fast");
  EXPECT_THAT(loaded.take<Array>("Mask/1").data<const std::int32_t>(), ElementsAre(1, 0, -1));
}

TEST_F(GoldenCheckpoint, SaysOfItselfWhatWasSaved) {
  const CheckpointMetadata metadata = checkpointables_metadata(kGolden, *context_);

  EXPECT_EQ(metadata.uuid, "00010203-0405-4607-8809-0a0b0c0d0e0f");
  EXPECT_EQ(metadata.committed, "2026-01-31T12:00:00Z");
  EXPECT_EQ(metadata.at("state").handler_id, "cairn.tree/1");
  EXPECT_EQ(metadata.at("settings").handler_id, "cairn.proto/1");
}

/// With CAIRN_WRITE_GOLDEN=<path> in the environment, writes a golden checkpoint there: for a new version of the
/// format.
TEST_F(GoldenCheckpoint, IsWrittenTheSameToTheByte) {
  if (GOOGLE_PROTOBUF_VERSION / 1'000'000 != 3) {
    GTEST_SKIP() << "this protobuf writes texts in its own way";
  }
  const char* wanted = std::getenv("CAIRN_WRITE_GOLDEN");
  const std::filesystem::path path = wanted != nullptr ? std::filesystem::path(wanted) : target();

  save_golden(path);

  expect_same(path, kGolden);
}

TEST_F(GoldenCheckpoint, OfComplexNumbersHasTheValuesThatWereSaved) {
  EXPECT_TRUE(store::verify(io::posix_syscalls(), kGoldenComplex).is_sound());
  EXPECT_EQ(load(kGoldenComplex, LoadOptions(), *context_), complex_tree());
}

TEST_F(GoldenCheckpoint, OfComplexNumbersGivesBoxesOfAnyColumnsAlsoCast) {
  AbstractTree wanted = metadata(kGoldenComplex, {}, *context_);
  const Box columns({0, 1}, {3, 2});
  const Tree field = complex_tree();

  wanted["field"].as_array().want(columns);
  const Tree as_stored = load(kGoldenComplex, wanted, LoadOptions(), *context_);
  wanted["field"].set_dtype(DType::complex64);
  const Tree narrowed = load(kGoldenComplex, wanted, LoadOptions(), *context_);

  const auto expected = field.get<Array>("field").part(columns).clone();
  EXPECT_EQ(as_stored.get<Array>("field"), expected);
  EXPECT_EQ(narrowed.get<std::vector<std::complex<float>>>("field")[3], (std::complex<float>(6, -0.6F)));
}

TEST_F(GoldenCheckpoint, OfComplexNumbersHasPairsOfF64InItsDataFile) {
  const std::string data = read_text(kGoldenComplex / "state/data-r00000-000.safetensors");

  EXPECT_THAT(data, HasSubstr(R"("field":{"dtype":"F64","shape":[2,1,2])"));
  EXPECT_THAT(data, HasSubstr(R"("field~s1":{"dtype":"F64","shape":[2,1,2])"));
  EXPECT_THAT(data, HasSubstr(R"("one":{"dtype":"F64","shape":[2])"));
}

TEST_F(GoldenCheckpoint, OfAliasesHasTheValuesThatWereSaved) {
  const Tree loaded = load(kGoldenAliases, LoadOptions(), *context_);

  EXPECT_TRUE(store::verify(io::posix_syscalls(), kGoldenAliases).is_sound());
  EXPECT_EQ(loaded, tree_with_aliases());
  EXPECT_EQ(loaded.at("head").as<Array>().view().data(), loaded.at("body/embed").as<Array>().view().data());
}

/// CAIRN_WRITE_GOLDEN_ALIASES=<path> does what CAIRN_WRITE_GOLDEN does.
TEST_F(GoldenCheckpoint, OfAliasesIsWrittenTheSameToTheByte) {
  const char* wanted = std::getenv("CAIRN_WRITE_GOLDEN_ALIASES");
  const std::filesystem::path path = wanted != nullptr ? std::filesystem::path(wanted) : target();

  save_aliases(path);

  expect_same(path, kGoldenAliases);
}

TEST_F(GoldenCheckpoint, OfAMessageInChunksHasTheValueThatWasSaved) {
  if (testing::kHasThreadSanitizer) {
    GTEST_SKIP() << "protobuf's library was not built for ThreadSanitizer: maps lie otherwise there";
  }
  Loaded loaded = load_checkpointables(kGoldenChunked, {}, LoadOptions(), *context_);

  EXPECT_TRUE(store::verify(io::posix_syscalls(), kGoldenChunked).is_sound());
  EXPECT_EQ(checkpointables_metadata(kGoldenChunked, *context_).at("settings").handler_id, "cairn.proto/2");
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
      loaded.take<google::protobuf::Struct>("settings"), chunked_message()));
}

/// CAIRN_WRITE_GOLDEN_CHUNKED=<path> does what CAIRN_WRITE_GOLDEN does.
TEST_F(GoldenCheckpoint, OfAMessageInChunksIsWrittenTheSameToTheByte) {
  if (testing::kHasThreadSanitizer) {
    GTEST_SKIP() << "protobuf's library was not built for ThreadSanitizer: maps lie otherwise there";
  }
  const char* wanted = std::getenv("CAIRN_WRITE_GOLDEN_CHUNKED");
  const std::filesystem::path path = wanted != nullptr ? std::filesystem::path(wanted) : target();

  save_chunked(path);

  expect_same(path, kGoldenChunked);
}

/// CAIRN_WRITE_GOLDEN_COMPLEX=<path> does what CAIRN_WRITE_GOLDEN does.
TEST_F(GoldenCheckpoint, OfComplexNumbersIsWrittenTheSameToTheByte) {
  const char* wanted = std::getenv("CAIRN_WRITE_GOLDEN_COMPLEX");
  const std::filesystem::path path = wanted != nullptr ? std::filesystem::path(wanted) : target();

  save_complex(path);

  expect_same(path, kGoldenComplex);
}

}  // namespace
}  // namespace cairn
