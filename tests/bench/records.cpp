// SPDX-License-Identifier: Apache-2.0
#include "bench/records.hpp"

#include <array>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zstd.h>

#include "cairn/records/record_options.hpp"
#include "cairn/records/record_reader.hpp"
#include "cairn/records/record_writer.hpp"

#include "bench/measure.hpp"
#include "bench/report.hpp"

namespace cairn::bench {
namespace {

namespace fs = std::filesystem;

/// Texts that pack about as well as logs do.
std::string record_text(Noise& noise) {
  static constexpr std::array<std::string_view, 8> kWords = {"step ",   "loss ", "0.125 ", "layer ",
                                                             "weight ", "bias ", "epoch ", "rate "};
  constexpr std::size_t kRecordBytes = 1024;
  std::string text;
  while (text.size() < kRecordBytes) {
    const std::uint64_t number = noise.next();
    text += kWords[number % kWords.size()];
    text += fmt::format("{} ", number % 10'000);
  }
  text.resize(kRecordBytes);
  return text;
}

double read_records_seconds(const fs::path& path) {
  read_once(path);
  const Stopwatch watch;
  records::RecordReader reader(path);
  for (std::string_view record; reader.next(record);) {
  }
  return watch.seconds();
}

/// What zstd takes to unpack a chunk so often.
double zstd_seconds(const std::string& chunk, std::size_t times) {
  std::vector<char> packed(ZSTD_compressBound(chunk.size()));
  const std::size_t bytes =
      ZSTD_compress(packed.data(), packed.size(), chunk.data(), chunk.size(), ZSTD_CLEVEL_DEFAULT);
  std::vector<char> unpacked(chunk.size());
  const Stopwatch watch;
  for (std::size_t i = 0; i < times; ++i) {
    if (ZSTD_isError(bytes) != 0 ||
        ZSTD_decompress(unpacked.data(), unpacked.size(), packed.data(), bytes) != chunk.size()) {
      throw std::runtime_error("zstd does not unpack what it has packed");
    }
  }
  return watch.seconds();
}

}  // namespace

void read_once(const fs::path& path) {
  std::vector<char> buffer(4 * kMiB);
  std::ifstream file(path, std::ios::binary);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
  }
}

void run_records(const fs::path& directory, std::size_t mebibytes) {
  for (const records::Codec codec : {records::Codec::none, records::Codec::zstd}) {
    if (!records::is_built_in(codec)) {
      continue;
    }
    const fs::path path = directory / "some.riegeli";
    records::RecordOptions options;
    options.codec = codec;
    options.chunk_bytes = kMiB;
    Noise noise;
    std::string chunk;  // What one of the file holds.
    records::RecordWriter writer(path, options);
    for (std::size_t i = 0; i < mebibytes * 1024; ++i) {
      const std::string text = record_text(noise);
      chunk += chunk.size() < kMiB ? text : "";
      writer.write(text);
    }
    writer.finish();
    nlohmann::ordered_json line = {{"row", "P7"}, {"codec", records::name(codec)}, {"mib", mebibytes}};
    line["read_s"] = read_records_seconds(path);
    if (codec == records::Codec::zstd) {
      line["zstd_alone_s"] = zstd_seconds(chunk, mebibytes);
    }
    print(line);
    fs::remove(path);
  }
}

}  // namespace cairn::bench
