// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/safetensors_layout.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"
#include "base/internal/json_string.hpp"
#include "base/internal/utf8.hpp"
#include "formats/internal/safetensors.hpp"

namespace cairn::formats {
namespace {

constexpr std::size_t kDecimalBytes = 20;  // Digits of 2^64 - 1.
constexpr std::string_view kJsonBegin = R"({"__metadata__":{"format":"pt"})";
constexpr std::string_view kJsonEnd = "}";

// The same for files that have slices. What is between the two is JSON in a string.
constexpr std::string_view kSlicesBegin =
    R"({"__metadata__":{"format":"pt","DCP_VERSION":"1.0","DCP_SHARDING_INFO":"{)";
constexpr std::string_view kSlicesEnd = R"(}"})";

std::uint64_t begin_bytes(bool has_slices) {
  return has_slices ? kSlicesBegin.size() + kSlicesEnd.size() : kJsonBegin.size();
}

[[noreturn]] void refuse_layout(std::string_view tensor, std::string_view why) {
  throw Error(Errc::invalid_argument, fmt::format("tensor '{}': {}", tensor, why));
}

/// safetensors has no name for complex128, whose elements are pairs of F64 in the file: along one more axis, the last.
bool lies_as_pairs(DType dtype) {
  return dtype == DType::complex128;
}

std::uint64_t checked_size(const TensorSpec& spec) {
  if (!is_valid_utf8(spec.name)) {
    refuse_layout(spec.name, "the name is not valid UTF-8");
  }
  if (spec.name == "__metadata__") {
    refuse_layout(spec.name, "the format keeps this name for itself");
  }
  if (lies_as_pairs(spec.dtype) && spec.shape.size() == kMaxRank) {
    refuse_layout(spec.name, fmt::format("{} of {} dimensions has one more in the file, and {} are the most",
                                         name(spec.dtype), spec.shape.size(), kMaxRank));
  }
  const std::optional<std::uint64_t> bytes = byte_count(spec.dtype, spec.shape);
  if (!bytes) {
    refuse_layout(spec.name, fmt::format("{} of shape {} is not a whole number of bytes below 2^63",
                                         name(spec.dtype), Shape(spec.shape)));
  }
  return *bytes;
}

/// Page-sized tensors first, then by falling element size; equal ones keep their order.
std::vector<std::uint32_t> order_of(std::span<const TensorMeasure> tensors) {
  constexpr std::size_t kPagesRank = 0;
  constexpr unsigned kWidestBits = 8 * kMaxElementBytes;
  const auto rank_of = [](const TensorMeasure& tensor) -> std::size_t {
    const bool is_pages = tensor.size_bytes != 0 && tensor.size_bytes % kSafetensorsAlignmentBytes == 0;
    return is_pages ? kPagesRank : 1 + kWidestBits - bits(tensor.dtype);
  };
  std::array<std::uint32_t, kWidestBits + 2> next{};
  for (const TensorMeasure& tensor : tensors) {
    ++next[rank_of(tensor) + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::uint32_t> order(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    order[next[rank_of(tensors[i])]++] = static_cast<std::uint32_t>(i);
  }
  return order;
}

constexpr std::array<std::uint64_t, kDecimalBytes> kPowersOfTen = [] {
  std::array<std::uint64_t, kDecimalBytes> powers{1};
  for (std::size_t i = 1; i < powers.size(); ++i) {
    powers[i] = 10 * powers[i - 1];
  }
  return powers;
}();

/// 1233/4096 is about log10(2): the guess is right or one too low.
std::uint64_t digits_of(std::uint64_t value) {
  value |= 1;  // Zero has a digit, too.
  const unsigned guess = (static_cast<unsigned>(std::bit_width(value)) * 1233) >> 12;
  return guess + (value >= kPowersOfTen[guess] ? 1 : 0);
}

/// Takes what a string takes, and only counts it.
class CharCounter {
 public:
  void append(std::string_view text) { count_ += text.size(); }

  void push_back(char) { ++count_; }

  void append_string(std::string_view text) { count_ += json_string_bytes(text); }

  void append_number(std::uint64_t value) { count_ += digits_of(value); }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  std::uint64_t count_ = 0;
};

void append_string(std::pmr::string& out, std::string_view text) {
  if (plain_json_bytes(text) == text.size()) {
    out.push_back('"');
    out.append(text);
    out.push_back('"');
    return;
  }
  std::string escaped;
  append_json_string(escaped, text);
  out.append(escaped);
}

void append_string(CharCounter& out, std::string_view text) {
  out.append_string(text);
}

void append_number(std::pmr::string& out, std::uint64_t value) {
  const fmt::format_int text(value);
  out.append(std::string_view(text.data(), text.size()));
}

void append_number(CharCounter& out, std::uint64_t value) {
  out.append_number(value);
}

template <class Out>
void append_shape(Out& out, const TensorSpec& spec) {
  out.push_back('[');
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    if (i != 0) {
      out.push_back(',');
    }
    append_number(out, spec.shape[i]);
  }
  if (lies_as_pairs(spec.dtype)) {
    out.append(spec.shape.empty() ? "2" : ",2");
  }
  out.push_back(']');
}

template <class Out>
void append_tensor(Out& json, const TensorSpec& spec, std::uint64_t begin, std::uint64_t end) {
  json.push_back(',');
  append_string(json, spec.name);
  json.append(":{\"dtype\":\"");
  json.append(name(lies_as_pairs(spec.dtype) ? DType::float64 : spec.dtype));
  json.append("\",\"shape\":");
  append_shape(json, spec);
  json.append(",\"data_offsets\":[");
  append_number(json, begin);
  json.push_back(',');
  append_number(json, end);
  json.append("]}");
}

/// JSON in a string: `"name": {"saved_offsets": [0, 0]}` with every quote and backslash escaped.
template <class Out>
void append_offsets(Out& json, const TensorSpec& spec) {
  std::string name;
  append_json_string(name, spec.name);
  std::string quoted;
  append_json_string(quoted, name);
  json.append(std::string_view(quoted).substr(1, quoted.size() - 2));
  json.append(R"(: {\"saved_offsets\": [)");
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    if (i != 0) {
      json.append(", ");
    }
    append_number(json, spec.offsets.empty() ? 0 : spec.offsets[i]);
  }
  if (lies_as_pairs(spec.dtype)) {
    json.append(spec.shape.empty() ? "0" : ", 0");
  }
  json.append("]}");
}

void check_header_size(std::uint64_t bytes, std::uint64_t limit) {
  if (bytes > limit) {
    throw Error(Errc::invalid_argument,
                fmt::format("a safetensors header of {} bytes exceeds the limit of {}", bytes, limit));
  }
}

/// Plans one file.
SafetensorsLayout plan_file(std::span<const TensorMeasure> tensors, std::uint64_t max_header_bytes,
                            bool has_slices) {
  SafetensorsLayout layout;
  layout.has_slices = has_slices;
  layout.order = order_of(tensors);
  layout.offsets.resize(tensors.size());
  std::uint64_t json_bytes = begin_bytes(has_slices) + kJsonEnd.size();
  std::uint64_t end = 0;
  for (const std::uint32_t i : layout.order) {
    const std::uint64_t begin = end;
    if (__builtin_add_overflow(begin, tensors[i].size_bytes, &end)) {
      throw Error(Errc::invalid_argument, "a safetensors file would exceed 2^64 bytes");
    }
    layout.offsets[i] = begin;
    json_bytes += tensors[i].header_bytes + digits_of(begin) + digits_of(end);
  }
  layout.header_bytes =
      round_up<std::uint64_t>(kSafetensorsLengthBytes + json_bytes, kSafetensorsAlignmentBytes);
  check_header_size(layout.header_bytes - kSafetensorsLengthBytes, max_header_bytes);
  if (__builtin_add_overflow(layout.header_bytes, end, &layout.file_size)) {
    throw Error(Errc::invalid_argument, "a safetensors file would exceed 2^64 bytes");
  }
  for (std::uint64_t& offset : layout.offsets) {
    offset += layout.header_bytes;
  }
  return layout;
}

}  // namespace

TensorMeasure measure_tensor(const TensorSpec& spec) {
  TensorMeasure measure;
  measure.size_bytes = checked_size(spec);
  measure.dtype = spec.dtype;
  CharCounter text;
  append_tensor(text, spec, 0, 0);
  const std::uint64_t bytes = text.count() - 2 * digits_of(0);
  check_header_size(bytes, kMaxSafetensorsHeaderBytes);
  measure.header_bytes = static_cast<std::uint32_t>(bytes);
  return measure;
}

std::uint64_t offset_entry_bytes(const TensorSpec& spec) {
  if (spec.is_further) {
    return 0;
  }
  constexpr std::uint64_t kSeparatorBytes = 2;
  CharCounter text;
  append_offsets(text, spec);
  return text.count() + kSeparatorBytes;
}

std::vector<SafetensorsLayout> plan_safetensors(std::span<const TensorMeasure> tensors,
                                                std::uint64_t max_header_bytes, bool has_slices) {
  std::vector<SafetensorsLayout> layouts;
  std::size_t first = 0;
  do {
    std::size_t count = 0;
    std::uint64_t bytes = begin_bytes(has_slices) + kSafetensorsAlignmentBytes;
    while (first + count < tensors.size() && count < std::numeric_limits<std::uint32_t>::max()) {
      bytes += tensors[first + count].header_bytes + 2 * kDecimalBytes;  // No less than it adds.
      // The first tensor is taken in any case: whether it alone fits, plan_file() finds out exactly.
      if (count != 0 && bytes > max_header_bytes) {
        break;
      }
      ++count;
    }
    layouts.push_back(plan_file(tensors.subspan(first, count), max_header_bytes, has_slices));
    layouts.back().first_spec = first;
    first += count;
  } while (first < tensors.size());
  return layouts;
}

std::pmr::string safetensors_header(std::span<const TensorSpec> specs, const SafetensorsLayout& layout,
                                    std::pmr::memory_resource* memory) {
  std::pmr::string json(memory);
  json.reserve(layout.header_bytes);
  json.resize(kSafetensorsLengthBytes);
  if (layout.has_slices) {
    json.append(kSlicesBegin);
    std::string_view separator;
    for (const std::uint32_t i : layout.order) {
      if (!specs[i].is_further) {
        json.append(separator);
        separator = ", ";
        append_offsets(json, specs[i]);
      }
    }
    json.append(kSlicesEnd);
  } else {
    json.append(kJsonBegin);
  }
  for (const std::uint32_t i : layout.order) {
    const std::uint64_t begin = layout.offsets[i] - layout.header_bytes;
    append_tensor(json, specs[i], begin, begin + byte_count(specs[i].dtype, specs[i].shape).value_or(0));
  }
  json.append(kJsonEnd);
  json.resize(layout.header_bytes, ' ');  // So that the data starts aligned.
  const std::uint64_t length = layout.header_bytes - kSafetensorsLengthBytes;
  std::memcpy(json.data(), &length, sizeof length);
  return json;
}

}  // namespace cairn::formats
