// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"

#include "support/temp_dir.hpp"

namespace cairn::testing {

inline constexpr std::uint64_t kHalvesRows = 4;
inline constexpr std::uint64_t kHalvesColumns = 5;

/// One array of int32 [4, 5]. The first two columns lie in `left.half`, column by column and big-endian, behind four
/// bytes; the others in `right.half`, in rows of four of which the last is not used.
class Halves : public array_store::FileLayout {
 public:
  explicit Halves(int number = 100, std::string name = "halves") : number_(number), name_(std::move(name)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] int recognises(std::span<const std::string> files) const override {
    return std::any_of(files.begin(), files.end(), [](const auto& file) { return file.ends_with(".half"); })
               ? number_
               : 0;
  }
  [[nodiscard]] Awaitable<formats::ForeignCatalogue> describe(
      std::shared_ptr<const array_store::StoredFiles> /*files*/,
      array_store::OpenOptions /*options*/) const override {
    co_return catalogue();
  }

  [[nodiscard]] virtual formats::ForeignCatalogue catalogue() const {
    formats::ForeignCatalogue catalogue;
    catalogue.files = {"left.half", "right.half"};
    formats::SliceForm left;
    left.strides = Strides{4, 16};
    left.is_big_endian = true;
    formats::SliceForm right;
    right.strides = Strides{16, 4};
    formats::ForeignArray array{"w", DType::int32, {kHalvesRows, kHalvesColumns}, {}};
    array.slices.resize(2);
    array.slices[0].box = Box({0, 0}, {kHalvesRows, 2});
    array.slices[0].range = {0, 4, 4 + 32};
    array.slices[0].form = catalogue.add_form(left);
    array.slices[1].box = Box({0, 2}, {kHalvesRows, 3});
    array.slices[1].range = {1, 0, 60};
    array.slices[1].form = catalogue.add_form(right);
    catalogue.arrays.push_back(std::move(array));
    catalogue.values.push_back({"by", name_});
    return catalogue;
  }

 private:
  int number_;
  std::string name_;
};

/// Writes such files: element [i, j] is 10 i + j.
inline void write_halves(const std::filesystem::path& folder) {
  std::string left(4, '?');
  for (std::uint32_t column = 0; column < 2; ++column) {
    for (std::uint32_t row = 0; row < kHalvesRows; ++row) {
      const std::uint32_t element = __builtin_bswap32(10 * row + column);
      left.append(reinterpret_cast<const char*>(&element), sizeof element);
    }
  }
  std::string right;
  for (std::uint32_t row = 0; row < kHalvesRows; ++row) {
    for (std::uint32_t column = 2; column < 6; ++column) {
      const std::uint32_t element = 10 * row + column;
      right.append(reinterpret_cast<const char*>(&element), sizeof element);
    }
  }
  std::filesystem::create_directory(folder);
  write_text(folder / "left.half", left);
  write_text(folder / "right.half", right);
}

}  // namespace cairn::testing
