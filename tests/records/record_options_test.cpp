// SPDX-License-Identifier: Apache-2.0
#include "cairn/records/record_options.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "support/fails.hpp"

namespace cairn::records {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

TEST(RecordOptionsParse, TakesRiegelisWords) {
  if (!is_built_in(Codec::brotli) || !is_built_in(Codec::zstd)) {
    GTEST_SKIP() << "this build has no brotli, or no zstd";
  }
  const RecordOptions options =
      RecordOptions::parse("brotli:9,window_log:12,chunk_size:300,transpose:false,parallelism:4");

  EXPECT_EQ(options.codec, Codec::brotli);
  EXPECT_EQ(options.level, 9);
  EXPECT_EQ(options.window_log, 12);
  EXPECT_EQ(options.chunk_bytes, 300U);
  EXPECT_EQ(RecordOptions::parse("").codec, Codec::none);
  EXPECT_EQ(RecordOptions::parse("default").codec, Codec::brotli);
  EXPECT_EQ(RecordOptions::parse("zstd:-5,chunk_size:auto,window_log:auto").level, -5);
}

TEST(RecordOptionsParse, SizesHaveUnits) {
  EXPECT_EQ(RecordOptions::parse("chunk_size:7B").chunk_bytes, 7U);
  EXPECT_EQ(RecordOptions::parse("chunk_size:2k").chunk_bytes, 2048U);
  EXPECT_EQ(RecordOptions::parse("chunk_size:1M").chunk_bytes, 1048576U);
  EXPECT_EQ(RecordOptions::parse("chunk_size:1E").chunk_bytes, std::uint64_t{1} << 60);
}

TEST(RecordOptionsParse, RefusesWhatIsNoOptionByItsName) {
  for (const std::string text : {"gzip",
                                 "brotli:12",
                                 "brotli:-1",
                                 "brotli:x",
                                 "brotli:",
                                 "zstd:23",
                                 "zstd:1x",
                                 "snappy:3",
                                 "uncompressed:1",
                                 "brotli,zstd",
                                 "default,snappy",
                                 "chunk_size:1,chunk_size:2",
                                 "chunk_size",
                                 "chunk_size:0",
                                 "chunk_size:-1",
                                 "chunk_size:17E",
                                 "chunk_size:1kk",
                                 "chunk_size:99999999999999999999",
                                 "window_log:12",
                                 "snappy,window_log:12",
                                 "zstd,window_log:9",
                                 "zstd,window_log:32",
                                 "brotli,window_log:31",
                                 "transpose:maybe",
                                 "parallelism:-1",
                                 "brotli,,zstd",
                                 "brotli,window_log:"}) {
    EXPECT_THAT([&] { static_cast<void>(RecordOptions::parse(text)); }, Fails(Errc::invalid_argument))
        << text;
  }
}

TEST(RecordOptionsParse, SaysWhatIsNotWritten) {
  for (const std::string text : {"transpose", "transpose:true", "bucket_fraction:0.5", "padding:64k",
                                 "initial_padding", "final_padding", "brotli_encoder:x", "snappy:2"}) {
    EXPECT_THAT([&] { static_cast<void>(RecordOptions::parse(text)); },
                Fails(Errc::feature_missing, HasSubstr(text.substr(0, text.find(':')))))
        << text;
  }
}

TEST(RecordOptionsParse, NamesThePackageOfACodecThatIsNotBuiltIn) {
  const std::vector<std::pair<Codec, std::string>> codecs = {
      {Codec::brotli, "libbrotli-dev"}, {Codec::zstd, "libzstd-dev"}, {Codec::snappy, "libsnappy-dev"}};
  for (const auto& [codec, package] : codecs) {
    if (!is_built_in(codec)) {
      EXPECT_THAT([text = std::string(name(codec))] { static_cast<void>(RecordOptions::parse(text)); },
                  Fails(Errc::feature_missing, HasSubstr(package)));
    }
  }
}

}  // namespace
}  // namespace cairn::records
