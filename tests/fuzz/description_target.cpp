// SPDX-License-Identifier: Apache-2.0
// The input is what a layout says of two files: boxes, strides, offsets and sizes of any kind. An Error, or arrays that
// have the elements at the places that it names, in bounded memory.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "array_store/internal/reader.hpp"
#include "formats/internal/foreign_index.hpp"
#include "fuzz/fuzzing.hpp"

namespace {

using cairn::Array;
using cairn::Box;
using cairn::Errc;
using cairn::Shape;
using cairn::array_store::ReadPlan;
using cairn::array_store::WantedArray;
using cairn::formats::ForeignArray;
using cairn::formats::ForeignCatalogue;
using cairn::formats::ForeignSlice;
using cairn::formats::Index;
using cairn::fuzz::attempt;
using cairn::fuzz::Input;
using cairn::fuzz::require;

constexpr std::array<std::size_t, 2> kFileBytes = {64, 512};

std::byte byte_at(std::size_t file, std::uint64_t at) {
  return static_cast<std::byte>(at * 7 + file * 131 + at / 256);
}

/// Two files, as their pieces are scattered from memory below.
class TwoFiles final : public cairn::array_store::StoredFiles {
 public:
  [[nodiscard]] std::filesystem::path directory() const override { return "files"; }
  [[nodiscard]] std::vector<std::string> names() const override { return {"f0", "f1"}; }
  [[nodiscard]] std::optional<std::uint64_t> size_bytes(std::string_view file) const override {
    return file == "f0"   ? std::optional<std::uint64_t>(kFileBytes[0])
           : file == "f1" ? std::optional<std::uint64_t>(kFileBytes[1])
                          : std::nullopt;
  }
  [[nodiscard]] cairn::Awaitable<std::string> read(std::string /*file*/) const override { co_return ""; }
  [[nodiscard]] cairn::Awaitable<> read_pieces(
      std::string /*file*/, std::vector<cairn::DestinationPiece> /*pieces*/) const override {
    co_return;
  }
  [[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map(
      std::string_view /*file*/) const override {
    return nullptr;
  }
};

/// Small numbers mostly, and those at which sums overflow.
std::uint64_t number(Input& input) {
  constexpr std::array<std::uint64_t, 8> kLarge = {
      std::uint64_t{1} << 31,       std::uint64_t{1} << 32, std::uint64_t{1} << 53, std::uint64_t{1} << 62,
      (std::uint64_t{1} << 63) - 1, std::uint64_t{1} << 63, ~std::uint64_t{0} - 7,  ~std::uint64_t{0}};
  const auto byte = input.take<std::uint8_t>();
  return byte < 0xf0 ? byte : byte < 0xf8 ? kLarge[byte - 0xf0u] : input.take<std::uint16_t>();
}

Shape shape(Input& input, std::size_t rank) {
  Shape numbers(rank, 0);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    numbers[axis] = number(input);
  }
  return numbers;
}

cairn::formats::SliceForm form(Input& input) {
  cairn::formats::SliceForm form;
  const auto kind = input.take<std::uint8_t>();
  form.is_big_endian = (kind & 2u) != 0;
  if ((kind & 1u) != 0) {
    const Shape strides = shape(input, input.take<std::uint8_t>() % 4u);
    form.strides.emplace(strides.size(), 0);
    for (std::size_t axis = 0; axis < strides.size(); ++axis) {
      (*form.strides)[axis] = static_cast<std::int64_t>(strides[axis]);
    }
  }
  for (const auto& [bit, codec] :
       {std::pair(4u, cairn::formats::kLatin1Codec), std::pair(8u, cairn::formats::kTorchArchiveCodec),
        std::pair(16u, std::string_view("other"))}) {
    if ((kind & bit) != 0) {
      form.codecs.emplace_back(codec);
    }
  }
  return form;
}

ForeignSlice slice(Input& input, std::size_t rank) {
  ForeignSlice slice;
  const auto kind = input.take<std::uint8_t>();
  const std::size_t own_rank = (kind & 2u) != 0 ? kind % 5u : rank;
  Shape offsets = shape(input, own_rank);
  slice.box = Box(std::move(offsets), shape(input, own_rank));
  slice.range = {input.take<std::uint8_t>() % 3u, number(input), number(input)};
  slice.form = input.take<std::uint8_t>() % 5u;
  slice.first = number(input);
  slice.elements = number(input);
  if ((kind & 1u) != 0) {
    slice.crc32 = input.take<std::uint32_t>();
  }
  return slice;
}

ForeignCatalogue description(Input& input) {
  ForeignCatalogue catalogue;
  const auto kind = input.take<std::uint8_t>();
  catalogue.files = {"f0", (kind & 4u) != 0 ? "../f1" : "f1"};
  catalogue.is_located = (kind & 1u) == 0;
  catalogue.may_overlap = (kind & 2u) != 0;
  for (auto left = input.take<std::uint8_t>() % 4u; left > 0; --left) {
    catalogue.forms.push_back(form(input));
  }
  for (auto left = input.take<std::uint8_t>() % 5u; left > 0; --left) {
    ForeignArray& array = catalogue.arrays.emplace_back();
    array.path = std::string(1, static_cast<char>('a' + input.take<std::uint8_t>() % 8));
    array.dtype = static_cast<cairn::DType>(input.take<std::uint8_t>());
    array.shape = shape(input, input.take<std::uint8_t>() % 4u);
    for (auto slices = input.take<std::uint8_t>() % 4u; slices > 0; --slices) {
      array.slices.push_back(slice(input, array.shape.size()));
    }
  }
  if ((kind & 8u) != 0) {
    catalogue.objects.push_back({"o",
                                 {input.take<std::uint8_t>() % 3u, number(input), number(input)},
                                 input.take<std::uint8_t>() % 4u});
  }
  if ((kind & 16u) != 0) {
    catalogue.values.push_back(
        {input.rest().substr(0, 1) == "a" ? "a" : "v", cairn::formats::ListSize{number(input)}});
  }
  return catalogue;
}

/// Whether the elements of an array are found as its slices say, one after the other.
void compare(const ForeignArray& array, const ForeignCatalogue& catalogue, const Array& found) {
  const std::size_t item = cairn::bits(array.dtype) / 8;
  const auto bytes = found.view().bytes();
  for (const ForeignSlice& slice : array.slices) {
    const cairn::formats::SliceForm& form = catalogue.forms[slice.form];
    if (item == 0 || !form.codecs.empty()) {
      return;
    }
    const std::size_t swapped = form.is_big_endian ? item / (cairn::is_complex(array.dtype) ? 2 : 1) : 1;
    const Shape& extents = slice.box.extents();
    const std::uint64_t count = cairn::element_count(extents).value();
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t rest = i;
      std::uint64_t from = slice.range.begin + (form.strides ? 0 : i * item);
      std::uint64_t to = 0;
      std::uint64_t pitch = item;
      for (std::size_t axis = extents.size(); axis-- > 0;) {
        const std::uint64_t index = rest % extents[axis];
        rest /= extents[axis];
        from += form.strides ? index * static_cast<std::uint64_t>((*form.strides)[axis]) : 0;
        to += (slice.box.begin(axis) + index) * pitch;
        pitch *= array.shape[axis];
      }
      for (std::size_t b = 0; b < item; ++b) {
        const std::size_t mirrored = swapped > 1 ? b / swapped * swapped + (swapped - 1 - b % swapped) : b;
        require(bytes[to + b] == byte_at(slice.range.file, from + mirrored),
                "an element lies where it is said to");
      }
    }
  }
}

/// Reads all arrays of an index, one after the other; gives each to `take`.
template <class Take>
void read_each(const Index& index, const TwoFiles& files, Take take) {
  for (std::size_t i = 0; i < index.size(); ++i) {
    const cairn::formats::IndexEntry entry = index.entry(i);
    if (entry.kind != cairn::formats::EntryKind::array && entry.kind != cairn::formats::EntryKind::unread) {
      continue;
    }
    const std::vector<WantedArray> wanted = {{entry, nullptr, nullptr}};
    auto plan = attempt({Errc::malformed_metadata, Errc::incomplete_shards, Errc::overlapping_shards,
                         Errc::not_found, Errc::invalid_argument, Errc::feature_missing},
                        [&] { return plan_read(index, wanted, {}, files); });
    const auto is_read =
        attempt({Errc::malformed_metadata, Errc::checksum_mismatch, Errc::unsupported_version,
                 Errc::invalid_argument},
                [&] {
                  for (auto& [name, pieces] : plan ? plan->pieces : cairn::PiecesByFile()) {
                    const std::size_t file = name == "f0" ? 0 : 1;
                    std::vector<std::byte> bytes(kFileBytes[file]);
                    for (std::size_t at = 0; at < bytes.size(); ++at) {
                      bytes[at] = byte_at(file, at);
                    }
                    auto arranged = pieces;
                    cairn::arrange(arranged, bytes.size());
                    cairn::scatter(arranged, 0, std::span(bytes).first(bytes.size() / 2));
                    cairn::scatter(arranged, bytes.size() / 2, std::span(bytes).subspan(bytes.size() / 2));
                  }
                  return plan.has_value();
                });
    if (is_read.value_or(false) && entry.kind == cairn::formats::EntryKind::array) {
      take(entry.name, plan->arrays.front());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const TwoFiles files;
  Input input(data, size);
  const auto described = attempt({Errc::invalid_argument}, [&] { return description(input); });
  if (!described) {
    return 0;  // A box that cannot be.
  }
  const cairn::fuzz::MemoryBound bound((std::size_t{40} << 20) + 64 * size);
  auto index = attempt({Errc::malformed_metadata}, [&] { return make_index(*described, "input"); });
  if (!index) {
    return 0;
  }
  index->validate();
  std::map<std::string, const ForeignArray*, std::less<>> arrays;
  for (const ForeignArray& array : described->arrays) {
    arrays.emplace(array.path, &array);
  }
  if (described->is_located) {
    read_each(*index, files, [&](std::string_view path, const Array& found) {
      compare(*arrays.find(path)->second, *described, found);
    });
    return 0;
  }
  // What is said when it has been looked into.
  const auto located = attempt({Errc::invalid_argument}, [&] { return description(input); });
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < 12; ++i) {
    numbers.push_back(input.take<std::uint8_t>() % 16u);
  }
  index = attempt({Errc::malformed_metadata},
                  [&] { return with_located(*index, located.value_or(ForeignCatalogue()), numbers); });
  if (index) {
    read_each(*index, files, [](std::string_view, const Array&) {});
  }
  return 0;
}
