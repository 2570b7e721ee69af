// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "cairn/array/array.hpp"

#include "support/temp_dir.hpp"

namespace cairn::testing {

/// An array whose elements are their numbers.
inline Array numbered(const Shape& shape) {
  Array array(shape, DType::int32);
  std::int32_t next = 0;
  for (std::int32_t& element : array.data<std::int32_t>()) {
    element = next++;
  }
  return array;
}

/// Changes the last byte of each data file of a checkpoint.
inline void damage_data(const std::filesystem::path& checkpoint) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(checkpoint)) {
    if (entry.path().extension() == ".safetensors") {
      std::string bytes = read_text(entry.path());
      bytes.back() = static_cast<char>(bytes.back() ^ 1);
      write_text(entry.path(), bytes);
    }
  }
}

}  // namespace cairn::testing
