// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "base/internal/json_reader.hpp"
#include "formats/internal/first_bytes.hpp"
#include "formats/unique_names.hpp"

namespace cairn::formats {
namespace {

[[noreturn]] void refuse(std::string_view path, std::string_view why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", path, why));
}

[[noreturn]] void refuse_tensor(std::string_view path, std::string_view tensor, std::string_view why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: tensor '{}': {}", path, tensor, why));
}

/// Reads the JSON of one header. Offsets stay relative to the data section until check_offsets.
class HeaderParser {
 public:
  HeaderParser(std::string_view json, std::string_view path) : reader_(json, path), path_(path) {}

  SafetensorsHeader parse() {
    SafetensorsHeader header;
    reader_.begin_object();
    while (const auto key = reader_.next_key()) {
      if (*key == "__metadata__") {
        read_metadata(header);
      } else {
        header.tensors.push_back(read_tensor(*key));
      }
    }
    reader_.finish();
    return header;
  }

 private:
  void read_metadata(SafetensorsHeader& header) {
    if (has_metadata_) {
      reader_.fail("'__metadata__' is given twice");
    }
    has_metadata_ = true;
    if (reader_.skip_null()) {
      return;
    }
    reader_.begin_object();
    while (const auto key = reader_.next_key()) {
      std::string owned_key(*key);
      header.metadata.emplace_back(std::move(owned_key), reader_.read_string());
    }
    std::sort(header.metadata.begin(), header.metadata.end());
    const auto twice = std::adjacent_find(header.metadata.begin(), header.metadata.end(),
                                          [](const auto& a, const auto& b) { return a.first == b.first; });
    if (twice != header.metadata.end()) {
      reader_.fail(fmt::format("'{}' is given twice in '__metadata__'", twice->first));
    }
  }

  SafetensorsTensor read_tensor(std::string_view name) {
    SafetensorsTensor tensor;
    tensor.name = name;
    std::optional<DType> dtype;
    bool has_shape = false;
    bool has_offsets = false;
    reader_.begin_object();
    while (const auto key = reader_.next_key()) {
      if (*key == "dtype") {
        require_first(!dtype, tensor.name, "dtype");
        dtype = read_dtype(tensor.name);
      } else if (*key == "shape") {
        require_first(!has_shape, tensor.name, "shape");
        tensor.shape = read_shape(tensor.name);
        has_shape = true;
      } else if (*key == "data_offsets") {
        require_first(!has_offsets, tensor.name, "data_offsets");
        read_offsets(tensor);
        has_offsets = true;
      } else {
        reader_.skip_value();
      }
    }
    if (!dtype || !has_shape || !has_offsets) {
      refuse_tensor(path_, tensor.name, "needs 'dtype', 'shape' and 'data_offsets'");
    }
    tensor.dtype = *dtype;
    return tensor;
  }

  void require_first(bool is_first, std::string_view tensor, std::string_view key) const {
    if (!is_first) {
      refuse_tensor(path_, tensor, fmt::format("'{}' is given twice", key));
    }
  }

  DType read_dtype(std::string_view tensor) {
    const std::string_view text = reader_.read_string();
    const std::optional<DType> dtype = parse_dtype(text);
    if (!dtype || *dtype == DType::complex128) {  // The format has no such name: it is the index's alone.
      refuse_tensor(path_, tensor, fmt::format("unknown dtype '{}'", text));
    }
    return *dtype;
  }

  Shape read_shape(std::string_view tensor) {
    extents_.clear();
    reader_.begin_list();
    while (reader_.next_element()) {
      if (extents_.size() == kMaxRank) {
        refuse_tensor(path_, tensor, fmt::format("has more than {} dimensions", kMaxRank));
      }
      extents_.push_back(reader_.read_unsigned());
    }
    return Shape(std::span<const std::uint64_t>(extents_));
  }

  void read_offsets(SafetensorsTensor& tensor) {
    reader_.begin_list();
    std::size_t count = 0;
    std::uint64_t offsets[2] = {0, 0};
    while (reader_.next_element()) {
      if (count == 2) {
        refuse_tensor(path_, tensor.name, "has more than two data_offsets");
      }
      offsets[count++] = reader_.read_unsigned();
    }
    if (count != 2) {
      refuse_tensor(path_, tensor.name, "needs two data_offsets");
    }
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
  }

  JsonReader reader_;
  std::string_view path_;
  std::vector<std::uint64_t> extents_;
  bool has_metadata_ = false;
};

void check_names(const std::vector<SafetensorsTensor>& tensors, std::string_view path) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const SafetensorsTensor& tensor : tensors) {
    names.emplace_back(tensor.name);
  }
  if (const auto twice = find_duplicate(names)) {
    refuse_tensor(path, *twice, "is given twice");
  }
}

void sort_by_offset(std::vector<SafetensorsTensor>& tensors) {
  const auto before = [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  };
  if (!std::is_sorted(tensors.begin(), tensors.end(), before)) {
    std::stable_sort(tensors.begin(), tensors.end(), before);
  }
}

/// Checks that the tensors tile the data section up to its trailing bytes, and makes their offsets absolute.
void place_in_file(SafetensorsHeader& header, std::uint64_t file_size, std::string_view path,
                   TrailingBytes trailing) {
  const std::uint64_t data_bytes = file_size - header.data_begin;
  std::uint64_t expected_begin = 0;
  for (SafetensorsTensor& tensor : header.tensors) {
    if (tensor.begin != expected_begin || tensor.end < tensor.begin) {
      refuse_tensor(
          path, tensor.name,
          fmt::format("data_offsets [{}, {}] leave a hole, overlap or run backwards; expected to begin at {}",
                      tensor.begin, tensor.end, expected_begin));
    }
    const std::optional<std::uint64_t> bytes = byte_count(tensor.dtype, tensor.shape);
    if (!bytes) {
      refuse_tensor(path, tensor.name,
                    fmt::format("{} of shape {} is not a whole number of bytes below 2^63",
                                name(tensor.dtype), tensor.shape));
    }
    if (tensor.end - tensor.begin != *bytes) {
      refuse_tensor(path, tensor.name,
                    fmt::format("{} of shape {} takes {} bytes, but data_offsets hold {}", name(tensor.dtype),
                                tensor.shape, *bytes, tensor.end - tensor.begin));
    }
    if (tensor.end > data_bytes) {
      refuse_tensor(path, tensor.name,
                    fmt::format("ends at {}, but the file holds {} bytes of data", tensor.end, data_bytes));
    }
    expected_begin = tensor.end;
    tensor.begin += header.data_begin;
    tensor.end += header.data_begin;
  }
  header.trailing_bytes = data_bytes - expected_begin;
  if (header.trailing_bytes > 0 && trailing == TrailingBytes::refused) {
    refuse(path, fmt::format("the tensors end at {}, but the file holds {} bytes of data; a load with "
                             "TreeLoadOptions::allow_trailing_bytes passes over the rest",
                             expected_begin, data_bytes));
  }
}

}  // namespace

const std::string* SafetensorsHeader::find_metadata(std::string_view key) const noexcept {
  const auto found =
      std::lower_bound(metadata.begin(), metadata.end(), key,
                       [](const auto& pair, std::string_view wanted) { return pair.first < wanted; });
  return found != metadata.end() && found->first == key ? &found->second : nullptr;
}

std::uint64_t safetensors_prefix_size(std::span<const std::byte> first_bytes, std::uint64_t file_size,
                                      std::string_view path) {
  if (file_size < kSafetensorsLengthBytes || first_bytes.size() < kSafetensorsLengthBytes) {
    refuse(path, "the file is too small for a header");
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, first_bytes.data(), sizeof header_bytes);
  const std::uint64_t most_bytes = std::min(kMaxSafetensorsHeaderBytes, file_size - kSafetensorsLengthBytes);
  if (header_bytes > most_bytes) {  // Of a text the first eight bytes are a huge number.
    if (const std::string told = told_by_first_bytes(first_bytes); !told.empty()) {
      refuse(path, told);
    }
  }
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    refuse(path, fmt::format("a header of {} bytes is larger than the format allows ({})", header_bytes,
                             kMaxSafetensorsHeaderBytes));
  }
  if (header_bytes > file_size - kSafetensorsLengthBytes) {
    refuse(path, fmt::format("a header of {} bytes does not fit the file of {}", header_bytes, file_size));
  }
  return kSafetensorsLengthBytes + header_bytes;
}

bool begins_as_safetensors(std::span<const std::byte> first_bytes, std::uint64_t file_size) noexcept {
  if (first_bytes.size() <= kSafetensorsLengthBytes || file_size <= kSafetensorsLengthBytes) {
    return false;
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, first_bytes.data(), sizeof header_bytes);
  return header_bytes <= std::min(kMaxSafetensorsHeaderBytes, file_size - kSafetensorsLengthBytes) &&
         first_bytes[kSafetensorsLengthBytes] == std::byte{'{'};
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> prefix, std::uint64_t file_size,
                                    std::string_view path, TrailingBytes trailing) {
  const std::uint64_t prefix_bytes = safetensors_prefix_size(prefix, file_size, path);
  if (prefix.size() < prefix_bytes) {
    throw Error(Errc::invalid_argument, fmt::format("{}: {} bytes given, but the header ends at {}", path,
                                                    prefix.size(), prefix_bytes));
  }
  const std::string_view json(reinterpret_cast<const char*>(prefix.data()) + kSafetensorsLengthBytes,
                              static_cast<std::size_t>(prefix_bytes - kSafetensorsLengthBytes));
  if (json.empty() || json.front() != '{') {
    refuse(path, "the header does not start with '{'");
  }
  SafetensorsHeader header = HeaderParser(json, path).parse();
  header.data_begin = prefix_bytes;
  check_names(header.tensors, path);
  sort_by_offset(header.tensors);
  place_in_file(header, file_size, path, trailing);
  return header;
}

}  // namespace cairn::formats
