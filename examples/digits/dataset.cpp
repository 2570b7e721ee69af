// SPDX-License-Identifier: Apache-2.0
#include "digits/dataset.hpp"

#include <charconv>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "digits/random.hpp"

namespace digits {
namespace {

constexpr unsigned kDarkest = 16;

[[noreturn]] void refuse(const std::filesystem::path& file, std::size_t line, const std::string& why) {
  throw std::runtime_error(file.string() + ":" + std::to_string(line) + ": " + why);
}

std::string expected_header() {
  std::string header;
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
    header += 'p' + std::to_string(pixel / 8) + std::to_string(pixel % 8) + ',';
  }
  return header + "label";
}

/// Takes the first number off `row`; `is_last` says whether the row or a comma must follow it.
unsigned take_number(std::string_view& row, bool is_last, unsigned largest, const auto& refuse_row) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), value);
  if (error != std::errc{} || value > largest) {
    refuse_row("expected a number from 0 to " + std::to_string(largest) + " at '" + std::string(row) + "'");
  }
  row.remove_prefix(static_cast<std::size_t>(end - row.data()));
  if (is_last ? !row.empty() : !row.starts_with(',')) {
    refuse_row("expected " + std::to_string(kPixels + 1) + " numbers between commas");
  }
  row.remove_prefix(is_last ? 0 : 1);
  return value;
}

void append_row(Images& images, std::string_view row, const auto& refuse_row) {
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
    const unsigned grey = take_number(row, false, kDarkest, refuse_row);
    images.pixels.push_back(static_cast<float>(grey) / static_cast<float>(kDarkest));
  }
  images.labels.push_back(
      static_cast<std::uint8_t>(take_number(row, true, static_cast<unsigned>(kClasses) - 1, refuse_row)));
}

void append_image(Images& to, const Images& from, std::size_t index) {
  const auto image = from.image(index);
  to.pixels.insert(to.pixels.end(), image.begin(), image.end());
  to.labels.push_back(from.labels[index]);
}

}  // namespace

std::span<const float, kPixels> Images::image(std::size_t index) const {
  return std::span<const float, kPixels>(pixels.data() + index * kPixels, kPixels);
}

Images read_images(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw std::runtime_error("cannot open " + file.string());
  }
  std::string row;
  if (!std::getline(in, row) || row != expected_header()) {
    refuse(file, 1, "expected the header p00,...,p77,label");
  }
  Images images;
  for (std::size_t line = 2; std::getline(in, row); ++line) {
    if (in.eof()) {
      refuse(file, line, "the last line has no end: the file may be cut off");
    }
    append_row(images, row, [&](const std::string& why) { refuse(file, line, why); });
  }
  if (images.size() == 0) {
    refuse(file, 2, "no images");
  }
  return images;
}

Dataset split(const Images& images, std::uint64_t seed) {
  RandomState random = seeded(seed);
  const std::vector<std::uint32_t> order = shuffled(images.size(), random);
  Dataset dataset;
  for (std::size_t place = 0; place < order.size(); ++place) {
    append_image(place < order.size() / 5 ? dataset.test : dataset.train, images, order[place]);
  }
  return dataset;
}

}  // namespace digits
