// SPDX-License-Identifier: Apache-2.0
#include "cli/write_elements.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "cli/elements.hpp"
#include "tools/internal/array_stream.hpp"
#include "tools/internal/text.hpp"

namespace cairn::cli {
namespace {

/// The word of numpy for a type; empty for those that it does not have.
std::string_view numpy_name(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "|b1";
    case DType::uint8:
      return "|u1";
    case DType::uint16:
      return "<u2";
    case DType::uint32:
      return "<u4";
    case DType::uint64:
      return "<u8";
    case DType::int8:
      return "|i1";
    case DType::int16:
      return "<i2";
    case DType::int32:
      return "<i4";
    case DType::int64:
      return "<i8";
    case DType::float16:
      return "<f2";
    case DType::float32:
      return "<f4";
    case DType::float64:
      return "<f8";
    case DType::complex64:
      return "<c8";
    case DType::complex128:
      return "<c16";
    default:
      return {};
  }
}

/// The beginning of a file of version 1.0. Elements begin at a multiple of 64.
/// Source: numpy.lib.format.
std::string numpy_header(const std::string& title, DType dtype, const Shape& shape) {
  constexpr std::size_t kAlignment = 64;
  constexpr std::string_view kBegin("\x93NUMPY\x01\x00", 8);
  const std::string_view type = numpy_name(dtype);
  if (type.empty()) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': numpy has no {}; --csv writes its numbers, --raw its bytes", title,
                            tools::dtype_text(dtype)));
  }
  // A tuple of one has a comma behind it.
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t used = kBegin.size() + 2 + text.size() + 1;
  text.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string header(kBegin);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);  // A shape has 32 extents at most: far below 64 KiB.
  return header + text;
}

tools::Region region_of(const std::string& title, const ArrayPlace& array, const Selection& selection) {
  Shape offsets(selection.size(), 0);
  Shape extents(selection.size(), 0);
  for (std::size_t d = 0; d < selection.size(); ++d) {
    offsets[d] = selection[d].begin;
    extents[d] = selection[d].end - selection[d].begin;
  }
  if (is_packed(array.dtype) && extents != array.shape) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': elements of {} share bytes; write the whole array, or use --json", title,
                            name(array.dtype)));
  }
  return {array.path, array.dtype, array.shape, Box(std::move(offsets), std::move(extents))};
}

/// Writes elements with a comma between them, and a row to a line.
class CsvWriter {
 public:
  CsvWriter(Output& out, const Shape& shape)
      : out_(out), row_(shape.size() > 1 ? shape[shape.size() - 1] : 1) {}

  void add(const std::string& element) {
    out_.write(element);
    ++column_;
    out_.write(column_ == row_ ? "\n" : ",");
    column_ = column_ == row_ ? 0 : column_;
  }

 private:
  Output& out_;
  const std::uint64_t row_;
  std::uint64_t column_ = 0;
};

}  // namespace

void write_elements(Output& out, const std::string& title, const ArrayPlace& array,
                    const Selection& selection, ElementForm form) {
  const Shape shape = selected_shape(selection);
  const std::string header =
      form == ElementForm::npy ? numpy_header(title, array.dtype, shape) : std::string();
  std::vector<tools::Region> regions{region_of(title, array, selection)};
  ArrayReaderOptions options;
  options.layout = array.layout;
  tools::ArrayStream stream(ArrayReader(array.source, array.item, options), std::move(regions));
  CsvWriter csv(out, shape);
  out.write(header);
  while (const std::optional<tools::RegionPiece> piece = stream.next()) {
    if (form != ElementForm::csv) {
      out.write({reinterpret_cast<const char*>(piece->bytes.data()), piece->bytes.size()});
      continue;
    }
    const Elements elements(piece->bytes, array.dtype);
    const std::size_t count = piece->bytes.size() * 8 / bits(array.dtype);
    for (std::size_t i = 0; i < count; ++i) {
      csv.add(elements.text(i));
    }
  }
}

}  // namespace cairn::cli
