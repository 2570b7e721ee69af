// SPDX-License-Identifier: Apache-2.0
#include "cairn/records/record_options.hpp"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <set>
#include <string>

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
  const std::size_t colon = whole.find(':');
  if (colon == std::string_view::npos) {
    return {whole, whole, std::nullopt};
  }
  return {whole, whole.substr(0, colon), whole.substr(colon + 1)};
}

[[noreturn]] void refuse(const OptionText& option, std::string_view reason) {
  throw Error(Errc::invalid_argument, fmt::format("option '{}': {}", option.whole, reason));
}

/// Takes digits, with a sign perhaps, from the front.
template <std::integral T>
T take_number(const OptionText& option, std::string_view& text) {
  T number{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) {
    refuse(option, "its value is not a number of that range");
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

template <std::integral T>
T whole_number(const OptionText& option) {
  std::string_view text = option.value.value_or("");
  const T number = take_number<T>(option, text);
  if (!text.empty()) {
    refuse(option, "its value is not a number");
  }
  return number;
}

/// "300", "64k", "1M", "512B".
std::uint64_t byte_number(const OptionText& option) {
  constexpr std::string_view kUnits = "BKMGTPE";
  constexpr int kBitsOfUnit = 10;
  std::string_view text = option.value.value_or("");
  const auto number = take_number<std::uint64_t>(option, text);
  if (text.empty()) {
    return number;
  }
  const std::size_t unit = kUnits.find(text == "k" ? 'K' : text.front());
  if (text.size() != 1 || unit == std::string_view::npos) {
    refuse(option, "behind the number stands B, k, M, G, T, P or E");
  }
  const auto bytes = checked_multiply(number, std::uint64_t{1} << (unit * kBitsOfUnit));
  if (!bytes) {
    refuse(option, "it does not fit in 64 bits");
  }
  return *bytes;
}

[[noreturn]] void refuse_feature(const OptionText& option) {
  throw Error(Errc::feature_missing,
              fmt::format("option '{}': this library does not write that", option.whole));
}

bool is_off(const OptionText& option) {
  if (option.value && *option.value != "true" && *option.value != "false") {
    refuse(option, "its value is true or false");
  }
  return option.value == "false";
}

void apply_codec(const OptionText& option, const CodecTraits& codec, RecordOptions& options) {
  options.codec = codec.codec;
  if (option.value) {
    if (codec.codec == Codec::none) {
      refuse(option, "it has no value");
    }
    options.level = whole_number<int>(option);
  }
}

void apply(const OptionText& option, RecordOptions& options) {
  for (const CodecTraits& codec : codecs()) {
    if (option.key == codec.name) {
      return apply_codec(option, codec, options);
    }
  }
  if (option.key == "default") {
    return apply_codec(option, traits(Codec::brotli), options);
  }
  if (option.key == "window_log") {
    if (option.value != "auto") {
      options.window_log = whole_number<int>(option);
    }
  } else if (option.key == "chunk_size") {
    if (option.value != "auto") {
      options.chunk_bytes = byte_number(option);
      if (options.chunk_bytes == 0) {
        refuse(option, "a chunk has at least one byte");
      }
    }
  } else if (option.key == "parallelism") {
    static_cast<void>(whole_number<std::uint32_t>(option));
  } else if (option.key == "transpose") {
    if (!is_off(option)) {
      refuse_feature(option);
    }
  } else if (option.key == "bucket_fraction" || option.key == "padding" || option.key == "initial_padding" ||
             option.key == "final_padding" || option.key == "brotli_encoder" ||
             option.key == "pad_to_block_boundary") {
    refuse_feature(option);
  } else {
    refuse(option, "there is no such option");
  }
}

}  // namespace

RecordOptions RecordOptions::parse(std::string_view text) {
  RecordOptions options;
  std::set<std::string_view> keys;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const OptionText option = option_of(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const bool is_codec = option.key == "default" ||
                          std::any_of(codecs().begin(), codecs().end(),
                                      [&](const CodecTraits& known) { return known.name == option.key; });
    if (!keys.insert(is_codec ? "codec" : option.key).second) {
      refuse(option, is_codec ? "the text names a codec already" : "the text has it already");
    }
    apply(option, options);
  }
  check(options);
  return options;
}

}  // namespace cairn::records
