// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/packed_tree.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <boost/endian/conversion.hpp>
#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"

namespace cairn::formats {
namespace {

constexpr std::size_t kSizeBytes = sizeof(std::uint64_t);

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", path, why));
}

}  // namespace

TreePacker::TreePacker(const PackedForm& form) : form_(form), file_(builder_.add_file(form.file)) {}

void TreePacker::add_array(std::string_view name, DType dtype, std::span<const std::uint64_t> dims,
                           std::span<const std::byte> elements) {
  data_.resize(round_up(data_.size(), form_.alignment));
  builder_.add_array(name, dtype, dims);
  builder_.add_whole(file_, data_.size());
  data_.append(reinterpret_cast<const char*>(elements.data()), elements.size());
}

std::string TreePacker::finish() {
  const IndexBytes index = builder_.finish();
  const std::uint64_t size = boost::endian::native_to_little(std::uint64_t{index.bytes.size()});
  std::string text(form_.magic);
  text.append(reinterpret_cast<const char*>(&size), kSizeBytes);
  text.append(reinterpret_cast<const char*>(index.bytes.data()), index.bytes.size());
  text.resize(round_up(text.size(), form_.alignment));
  return text + data_;
}

PackedTree PackedTree::open(std::span<const std::byte> bytes, const PackedForm& form, std::string path) {
  const std::size_t head_bytes = form.magic.size() + kSizeBytes;
  if (bytes.size() < head_bytes) {
    refuse(path, "it ends too early");
  }
  if (std::memcmp(bytes.data(), form.magic.data(), form.magic.size()) != 0) {
    refuse(path, fmt::format("it does not begin with {}", form.magic));
  }
  std::uint64_t index_bytes = 0;
  std::memcpy(&index_bytes, bytes.data() + form.magic.size(), kSizeBytes);
  index_bytes = boost::endian::little_to_native(index_bytes);
  if (index_bytes > bytes.size() - head_bytes) {
    refuse(path, "it ends too early");
  }
  const std::span<const std::byte> rest = bytes.subspan(head_bytes);
  const auto words = std::make_shared<std::vector<std::uint64_t>>(rest.size() / sizeof(std::uint64_t) + 1);
  std::copy(rest.begin(), rest.end(), reinterpret_cast<std::byte*>(words->data()));
  const auto copied = std::as_bytes(std::span(*words)).first(rest.size());
  const auto index_size = static_cast<std::size_t>(index_bytes);
  const std::size_t begin = round_up(head_bytes + index_size, form.alignment) - head_bytes;
  PackedTree tree(Index::open(words, copied.first(index_size), std::move(path)),
                  copied.subspan(std::min(begin, copied.size())));
  tree.index_.validate();
  std::uint64_t left = tree.data_.size();
  IndexArray array;
  for (std::size_t i = 0; tree.index_.next_array(i, array); ++i) {
    const std::size_t size = tree.elements(array).size();
    if (size > left) {
      refuse(tree.index_.path(), fmt::format("array {} shares bytes with others", shown(array.name)));
    }
    left -= size;
  }
  return tree;
}

std::span<const std::byte> PackedTree::elements(const IndexArray& array) const {
  const IndexSlice slice = array.slice_count == 1 ? index_.slice(array, 0) : IndexSlice();
  if (array.slice_count != 1 || !slice.is_whole || slice.offset > data_.size() ||
      slice.size > data_.size() - slice.offset) {
    refuse(index_.path(), fmt::format("array {} does not lie in it", shown(array.name)));
  }
  return data_.subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.size));
}

}  // namespace cairn::formats
