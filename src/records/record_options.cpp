// SPDX-License-Identifier: Apache-2.0
#include "cairn/records/record_options.hpp"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"
#include "records/codec.hpp"

namespace cairn::records {
namespace {

/// One option of the text: "zstd:3".
struct OptionText {
  std::string_view whole;
  std::string_view key;
  std::optional<std::string_view> value;
};

OptionText option_of(std::string_view whole) {
  const std::size_t colon = std::min(whole.find(':'), whole.size());
  OptionText option{whole, whole.substr(0, colon), std::nullopt};
  if (colon < whole.size()) {
    option.value = whole.substr(colon + 1);
  }
  if (option.key == "default") {
    option.key = name(Codec::brotli);
  }
  return option;
}

[[noreturn]] void refuse(const OptionText& option, std::string_view reason,
                         Errc code = Errc::invalid_argument) {
  throw Error(code, fmt::format("option '{}': {}", option.whole, reason));
}

template <std::integral T>
T number_of(const OptionText& option, std::string_view digits) {
  T value{};
  const char* const all = digits.data() + digits.size();
  const auto [end, failure] = std::from_chars(digits.data(), all, value);
  if (failure != std::errc() || end != all) {
    refuse(option, "its value is not a number of that range");
  }
  return value;
}

template <std::integral T>
T number_of(const OptionText& option) {
  return number_of<T>(option, option.value.value_or(""));
}

/// "300", "64k", "1M", "512B".
std::uint64_t byte_number(const OptionText& option) {
  constexpr std::string_view kUnits = "BKMGTPE";
  constexpr int kBitsOfUnit = 10;
  std::string_view digits = option.value.value_or("");
  std::size_t unit = std::string_view::npos;
  if (!digits.empty()) {
    unit = kUnits.find(digits.back() == 'k' ? 'K' : digits.back());
  }
  if (unit == std::string_view::npos) {
    unit = 0;
  } else {
    digits.remove_suffix(1);
  }
  const auto bytes =
      checked_multiply(number_of<std::uint64_t>(option, digits), std::uint64_t{1} << (unit * kBitsOfUnit));
  if (bytes.value_or(0) == 0) {
    refuse(option, "a chunk has at least one byte, and at most 2^64 - 1");
  }
  return *bytes;
}

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

const CodecTraits* codec_called(std::string_view key) noexcept {
  const auto found = std::find_if(codecs().begin(), codecs().end(),
                                  [&](const CodecTraits& codec) { return codec.name == key; });
  return found == codecs().end() ? nullptr : &*found;
}

void apply(const OptionText& option, RecordOptions& options) {
  const std::string_view key = option.key;
  if (const CodecTraits* codec = codec_called(key)) {
    options.codec = codec->codec;
    if (option.value) {
      options.level = number_of<int>(option);
    }
  } else if (key == "window_log") {
    if (option.value != "auto") {
      options.window_log = number_of<int>(option);
    }
  } else if (key == "chunk_size") {
    options.chunk_bytes = option.value == "auto" ? 0 : byte_number(option);
  } else if (key == "parallelism") {
    static_cast<void>(number_of<std::uint32_t>(option));
  } else if (key == "transpose" && !is_one_of(option.value.value_or("true"), {"true", "false"})) {
    refuse(option, "its value is true or false");
  } else if (!is_one_of(key, {"transpose", "bucket_fraction", "padding", "initial_padding", "final_padding",
                              "brotli_encoder", "pad_to_block_boundary"})) {
    refuse(option, "there is no such option");
  } else if (option.whole != "transpose:false") {
    refuse(option, "this library does not write that", Errc::feature_missing);
  }
}

}  // namespace

RecordOptions RecordOptions::parse(std::string_view text) {
  RecordOptions options;
  std::set<std::string_view> keys;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const OptionText option = option_of(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (!keys.insert(codec_called(option.key) != nullptr ? "a codec" : option.key).second) {
      refuse(option, "the text has another one of its kind");
    }
    apply(option, options);
  }
  static_cast<void>(checked(options));
  return options;
}

}  // namespace cairn::records
