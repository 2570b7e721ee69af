// SPDX-License-Identifier: Apache-2.0
#include "cairn/formats/safetensors_layout.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/array/shape.hpp"
#include "cairn/base/checked.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/json_string.hpp"
#include "cairn/base/utf8.hpp"
#include "cairn/formats/safetensors.hpp"

#include "formats/unique_names.hpp"

namespace cairn::formats {
namespace {

constexpr std::size_t kDecimalBytes = 20;  // Digits of 2^64 - 1.

[[noreturn]] void refuse_layout(std::string_view tensor, std::string_view why) {
  throw Error(Errc::invalid_argument, fmt::format("tensor '{}': {}", tensor, why));
}

std::uint64_t checked_size(const TensorSpec& spec) {
  if (!is_valid_utf8(spec.name)) {
    refuse_layout(spec.name, "the name is not valid UTF-8");
  }
  if (spec.name == "__metadata__") {
    refuse_layout(spec.name, "the format keeps this name for itself");
  }
  if (spec.saved_offsets && spec.saved_offsets->size() != spec.shape.size()) {
    refuse_layout(spec.name, fmt::format("{} saved offsets for shape {}", spec.saved_offsets->size(),
                                         Shape(spec.shape)));
  }
  const std::optional<std::uint64_t> bytes = byte_count(spec.dtype, spec.shape);
  if (!bytes) {
    refuse_layout(spec.name, fmt::format("{} of shape {} is no whole number of bytes below 2^63",
                                         name(spec.dtype), Shape(spec.shape)));
  }
  return *bytes;
}

void check_names(std::span<const TensorSpec> specs) {
  std::vector<std::string_view> names;
  names.reserve(specs.size());
  for (const TensorSpec& spec : specs) {
    names.push_back(spec.name);
  }
  if (const auto twice = find_duplicate(names)) {
    throw Error(Errc::already_exists, fmt::format("tensor '{}' is given twice for one file", *twice));
  }
}

void check_metadata(const SafetensorsOptions& options) {
  std::vector<std::string_view> keys = {"format", "DCP_VERSION", "DCP_SHARDING_INFO"};
  for (const auto& [key, value] : options.metadata) {
    if (!is_valid_utf8(key) || !is_valid_utf8(value)) {
      throw Error(Errc::invalid_argument, fmt::format("metadata '{}' is not valid UTF-8", key));
    }
    keys.push_back(key);
  }
  if (const auto twice = find_duplicate(keys)) {
    throw Error(Errc::invalid_argument, fmt::format("metadata '{}' is reserved or given twice", *twice));
  }
}

/// All specs when one of them is a slice, else none: a file tells of every tensor or of none.
std::span<const TensorSpec> slices_of(std::span<const TensorSpec> specs) {
  const bool has_slices = std::any_of(specs.begin(), specs.end(),
                                      [](const TensorSpec& spec) { return spec.saved_offsets.has_value(); });
  return has_slices ? specs : std::span<const TensorSpec>();
}

/// Page-sized tensors first, then by falling element size; equal ones keep their order.
std::vector<std::uint32_t> order_of(std::span<const TensorMeasure> tensors) {
  constexpr std::size_t kPagesRank = 0;
  constexpr unsigned kWidestBits = 64;
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

/// Takes what a std::string takes, and only counts it.
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

void append_string(std::string& out, std::string_view text) {
  append_json_string(out, text);
}

void append_string(CharCounter& out, std::string_view text) {
  out.append_string(text);
}

void append_number(std::string& out, std::uint64_t value) {
  const fmt::format_int text(value);
  out.append(std::string_view(text.data(), text.size()));
}

void append_number(CharCounter& out, std::uint64_t value) {
  out.append_number(value);
}

template <class Out>
void append_numbers(Out& out, std::span<const std::uint64_t> values, std::string_view separator) {
  out.push_back('[');
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != 0) {
      out.append(separator);
    }
    append_number(out, values[i]);
  }
  out.push_back(']');
}

/// The value of DCP_SHARDING_INFO. PyTorch looks every tensor of the file up in it, so whole ones are listed too.
std::string sharding_info(std::span<const TensorSpec> specs) {
  const std::array<std::uint64_t, kMaxRank> zeros{};
  std::string info = "{";
  for (const TensorSpec& spec : specs) {
    info += info.size() == 1 ? "" : ", ";
    append_json_string(info, spec.name);
    info += ": {\"saved_offsets\": ";
    append_numbers(info, spec.saved_offsets.value_or(std::span(zeros).first(spec.shape.size())), ", ");
    info += "}";
  }
  return info + "}";
}

/// `slices` are all specs when one of them is a slice, else none.
void append_metadata(std::string& json, std::span<const TensorSpec> slices,
                     const SafetensorsOptions& options) {
  json += R"("__metadata__":{"format":"pt")";
  const auto append_pair = [&json](std::string_view key, std::string_view value) {
    json.push_back(',');
    append_json_string(json, key);
    json.push_back(':');
    append_json_string(json, value);
  };
  if (!slices.empty()) {
    append_pair("DCP_VERSION", "1.0");
    append_pair("DCP_SHARDING_INFO", sharding_info(slices));
  }
  for (const auto& [key, value] : options.metadata) {
    append_pair(key, value);
  }
  json.push_back('}');
}

template <class Out>
void append_tensor(Out& json, const TensorSpec& spec, std::uint64_t begin, std::uint64_t end) {
  json.push_back(',');
  append_string(json, spec.name);
  json.append(":{\"dtype\":\"");
  json.append(name(spec.dtype));
  json.append("\",\"shape\":");
  append_numbers(json, spec.shape, ",");
  json.append(",\"data_offsets\":[");
  append_number(json, begin);
  json.push_back(',');
  append_number(json, end);
  json.append("]}");
}

void check_header_size(std::uint64_t bytes, const SafetensorsOptions& options) {
  const std::uint64_t limit = std::min(options.max_header_bytes, kMaxSafetensorsHeaderBytes);
  if (bytes > limit) {
    throw Error(Errc::invalid_argument,
                fmt::format("a safetensors header of {} bytes exceeds the limit of {}", bytes, limit));
  }
}

/// The header's text: length, JSON, and spaces so that the data starts aligned.
std::string render(std::span<const TensorSpec> specs, const SafetensorsLayout& layout,
                   const SafetensorsOptions& options) {
  std::string json(kSafetensorsLengthBytes, '\0');
  json.reserve(layout.header_bytes);
  json.push_back('{');
  append_metadata(json, slices_of(specs), options);
  for (const std::uint32_t i : layout.order) {
    const std::uint64_t begin = layout.offsets[i] - layout.header_bytes;
    append_tensor(json, specs[i], begin, begin + byte_count(specs[i].dtype, specs[i].shape).value_or(0));
  }
  json.push_back('}');
  json.resize(layout.header_bytes, ' ');
  const std::uint64_t length = layout.header_bytes - kSafetensorsLengthBytes;
  std::memcpy(json.data(), &length, sizeof length);
  return json;
}

std::uint64_t metadata_bytes(std::span<const TensorSpec> slices, const SafetensorsOptions& options) {
  std::string metadata;
  append_metadata(metadata, slices, options);
  return metadata.size();
}

/// Plans one file; `fixed_bytes` of its header are not about any single tensor.
SafetensorsLayout plan(std::span<const TensorMeasure> tensors, std::uint64_t fixed_bytes,
                       const SafetensorsOptions& options) {
  SafetensorsLayout layout;
  layout.order = order_of(tensors);
  layout.offsets.resize(tensors.size());
  std::uint64_t json_bytes = std::string_view("{}").size() + fixed_bytes;
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
  check_header_size(layout.header_bytes - kSafetensorsLengthBytes, options);
  if (__builtin_add_overflow(layout.header_bytes, end, &layout.file_size)) {
    throw Error(Errc::invalid_argument, "a safetensors file would exceed 2^64 bytes");
  }
  for (std::uint64_t& offset : layout.offsets) {
    offset += layout.header_bytes;
  }
  return layout;
}

SafetensorsLayout plan(std::span<const TensorSpec> specs, std::span<const TensorMeasure> tensors,
                       const SafetensorsOptions& options) {
  check_names(specs);
  SafetensorsLayout layout = plan(tensors, metadata_bytes(slices_of(specs), options), options);
  if (!options.defers_header) {
    layout.header = render(specs, layout, options);
  }
  return layout;
}

std::vector<TensorMeasure> measure_all(std::span<const TensorSpec> specs) {
  std::vector<TensorMeasure> tensors;
  tensors.reserve(specs.size());
  for (const TensorSpec& spec : specs) {
    tensors.push_back(measure_tensor(spec));
  }
  return tensors;
}

/// No less than what the tensor adds to a header.
std::uint64_t header_bytes_bound(const TensorMeasure& tensor) {
  return tensor.header_bytes + 2 * kDecimalBytes;
}

/// As before, in a file with slices: every character of the name escaped twice, where JSON is put into JSON.
std::uint64_t sharded_header_bytes_bound(const TensorSpec& spec, const TensorMeasure& tensor) {
  constexpr std::uint64_t kFixedBytes = 64;  // Keys, quotes, punctuation.
  const std::uint64_t dims = spec.shape.size() * (kDecimalBytes + 2);
  return header_bytes_bound(tensor) + 2 * json_string_bytes(spec.name) + dims + kFixedBytes;
}

/// Plans files of as many tensors as the limits allow: `bound_of(i)` bounds what tensor `i` adds to a header, and
/// `plan_file(first, count)` plans one.
template <class BoundOf, class PlanFile>
std::vector<SafetensorsLayout> plan_files(std::size_t tensors, const SafetensorsOptions& options,
                                          BoundOf bound_of, PlanFile plan_file) {
  const std::size_t max_tensors = options.max_tensors_per_file == 0
                                      ? std::numeric_limits<std::uint32_t>::max()
                                      : options.max_tensors_per_file;
  const std::uint64_t max_bytes = std::min(options.max_header_bytes, kMaxSafetensorsHeaderBytes);
  const std::uint64_t fixed_bytes = metadata_bytes({}, options) + kSafetensorsAlignmentBytes;
  std::vector<SafetensorsLayout> layouts;
  std::size_t first = 0;
  do {
    std::size_t count = 0;
    std::uint64_t bytes = fixed_bytes;
    while (first + count < tensors && count < max_tensors) {
      bytes += bound_of(first + count);
      // The first tensor is taken in any case: whether it alone fits, plan() finds out exactly.
      if (count != 0 && bytes > max_bytes) {
        break;
      }
      ++count;
    }
    layouts.push_back(plan_file(first, count));
    layouts.back().first_spec = first;
    first += count;
  } while (first < tensors);
  return layouts;
}

}  // namespace

TensorMeasure measure_tensor(const TensorSpec& spec) {
  TensorMeasure measure;
  measure.size_bytes = checked_size(spec);
  measure.dtype = spec.dtype;
  CharCounter text;
  append_tensor(text, spec, 0, 0);
  const std::uint64_t bytes = text.count() - 2 * digits_of(0);
  check_header_size(bytes, {});
  measure.header_bytes = static_cast<std::uint32_t>(bytes);
  return measure;
}

SafetensorsLayout plan_safetensors(std::span<const TensorSpec> specs, const SafetensorsOptions& options) {
  check_metadata(options);
  return plan(specs, measure_all(specs), options);
}

std::vector<SafetensorsLayout> plan_safetensors_files(std::span<const TensorSpec> specs,
                                                      const SafetensorsOptions& options) {
  check_metadata(options);
  const std::vector<TensorMeasure> tensors = measure_all(specs);
  const bool is_sharded = !slices_of(specs).empty();
  return plan_files(
      specs.size(), options,
      [&](std::size_t i) {
        return is_sharded ? sharded_header_bytes_bound(specs[i], tensors[i]) : header_bytes_bound(tensors[i]);
      },
      [&](std::size_t first, std::size_t count) {
        return plan(specs.subspan(first, count), std::span(tensors).subspan(first, count), options);
      });
}

std::vector<SafetensorsLayout> plan_measured_safetensors(std::span<const TensorMeasure> tensors,
                                                         const SafetensorsOptions& options) {
  check_metadata(options);
  const std::uint64_t fixed_bytes = metadata_bytes({}, options);
  return plan_files(
      tensors.size(), options, [&](std::size_t i) { return header_bytes_bound(tensors[i]); },
      [&](std::size_t first, std::size_t count) {
        return plan(tensors.subspan(first, count), fixed_bytes, options);
      });
}

std::string safetensors_header(std::span<const TensorSpec> specs, const SafetensorsLayout& layout,
                               const SafetensorsOptions& options) {
  return render(specs, layout, options);
}

}  // namespace cairn::formats
