// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <fmt/format.h>
#include <snappy-sinksource.h>
#include <snappy.h>

#include "cairn/base/error.hpp"

#include "records/codec.hpp"

namespace cairn::records {
namespace {

/// Bytes in several places, as snappy reads them.
class FragmentSource final : public snappy::Source {
 public:
  FragmentSource(std::span<const Bytes> fragments, std::size_t bytes) : rest_(fragments), left_(bytes) {}

  std::size_t Available() const override { return left_; }
  const char* Peek(std::size_t* bytes) override {
    while (here_.empty() && !rest_.empty()) {
      here_ = rest_.front();
      rest_ = rest_.subspan(1);
    }
    *bytes = here_.size();
    return reinterpret_cast<const char*>(here_.data());
  }
  void Skip(std::size_t bytes) override {
    here_ = here_.subspan(bytes);
    left_ -= bytes;
  }

 private:
  std::span<const Bytes> rest_;
  Bytes here_;
  std::size_t left_;
};

void pack_snappy(const RecordOptions& /*options*/, std::span<const Bytes> fragments, std::uint64_t bytes,
                 std::string& out) {
  if (bytes > UINT32_MAX) {
    throw Error(Errc::invalid_argument,
                fmt::format("snappy cannot pack {} bytes together, 4 GiB at most", bytes));
  }
  FragmentSource source(fragments, static_cast<std::size_t>(bytes));
  const std::size_t begin = out.size();
  out.resize(begin + snappy::MaxCompressedLength(source.Available()));
  snappy::UncheckedByteArraySink sink(out.data() + begin);
  out.resize(begin + snappy::Compress(&source, &sink));
}

bool unpack_snappy(Bytes packed, UnpackedBytes& out) {
  // The most that three bytes stand for is 64. A block says its size once more, which is compared before any of it is
  // unpacked.
  constexpr std::size_t kMostRatio = 22;
  std::size_t bytes = 0;
  const char* const data = reinterpret_cast<const char*>(packed.data());
  if (!snappy::GetUncompressedLength(data, packed.size(), &bytes) || bytes != out.bytes() ||
      bytes / kMostRatio > packed.size()) {
    return false;
  }
  const std::span<char> room = out.room();
  if (room.size() != bytes || !snappy::RawUncompress(data, packed.size(), room.data())) {
    return false;
  }
  out.came(bytes);
  return true;
}

}  // namespace

CodecFunctions snappy_functions() noexcept {
  return {pack_snappy, unpack_snappy};
}

}  // namespace cairn::records
