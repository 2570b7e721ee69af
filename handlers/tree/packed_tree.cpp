// SPDX-License-Identifier: Apache-2.0
#include "tree_bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/formats/index_builder.hpp"
#include "cairn/handlers/array_files.hpp"

#include "assembler.hpp"
#include "containers.hpp"
#include "index_names.hpp"

namespace cairn::detail {
namespace {

constexpr std::size_t kAlignment = 8;
constexpr const char* kSource = "a value of a rank";  // In errors.

void pad(std::string& text) {
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment);
}

[[noreturn]] void refuse(std::string_view why) {
  throw Error(Errc::malformed_metadata, fmt::format("{}: {}", kSource, why));
}

Array array_of(const formats::Index& index, const formats::IndexEntry& entry,
               std::span<const std::byte> data) {
  const formats::IndexArray stored = index.array(entry);
  const formats::IndexSlice slice = stored.slice_count == 1 ? index.slice(stored, 0) : formats::IndexSlice();
  if (stored.slice_count != 1 || !slice.is_whole || slice.offset > data.size() ||
      slice.size > data.size() - slice.offset) {
    refuse(fmt::format("array {} does not lie in it", shown(entry.name)));
  }
  Array array(Shape(stored.dims), stored.dtype);
  if (slice.size > 0) {
    std::memcpy(array.mutable_view().data(), data.data() + slice.offset,
                static_cast<std::size_t>(slice.size));
  }
  return array;
}

}  // namespace

std::string encode_tree(const Tree& tree) {
  formats::IndexBuilder builder;
  const std::uint32_t file = builder.add_file("data");
  std::string data;
  std::string path;
  const auto add = [&](std::string_view at, const Tree& leaf) {
    const Array* array = leaf.array_if();
    if (leaf.sharded_array_if() != nullptr || (array != nullptr && !array->view().device().is_host())) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{}: a value of each rank has arrays of the host's memory only", shown(at)));
    }
    if (array == nullptr) {
      return add_value(builder, at, leaf);
    }
    const Array dense = array->view().is_contiguous() ? *array : array->clone();
    const Shape& shape = dense.shape();
    pad(data);
    builder.add_array(at, dense.dtype(), std::vector<std::uint64_t>(shape.begin(), shape.end()));
    builder.add_whole(file, data.size());
    const auto bytes = dense.view().bytes();
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  TreeAccess::visit(tree, path, 0, add);
  const formats::IndexBytes index = builder.finish();
  const std::uint64_t index_bytes = index.bytes.size();
  std::string text(reinterpret_cast<const char*>(&index_bytes), sizeof index_bytes);
  text.append(reinterpret_cast<const char*>(index.bytes.data()), index.bytes.size());
  pad(text);
  return text + data;
}

Tree decode_tree(std::span<const std::byte> bytes) {
  std::uint64_t index_bytes = 0;
  if (bytes.size() < sizeof index_bytes) {
    refuse("it ends too early");
  }
  std::memcpy(&index_bytes, bytes.data(), sizeof index_bytes);
  bytes = bytes.subspan(sizeof index_bytes);
  if (index_bytes > bytes.size()) {
    refuse("it ends too early");
  }
  const auto words = std::make_shared<std::vector<std::uint64_t>>(bytes.size() / kAlignment + 1);
  std::memcpy(words->data(), bytes.data(), bytes.size());
  const auto copied = std::as_bytes(std::span(*words)).first(bytes.size());
  const auto index =
      formats::Index::open(words, copied.first(static_cast<std::size_t>(index_bytes)), kSource);
  index.validate();
  const std::size_t data_begin =
      (static_cast<std::size_t>(index_bytes) + kAlignment - 1) / kAlignment * kAlignment;
  const auto data = copied.subspan(std::min(data_begin, copied.size()));
  std::uint64_t left = data.size();  // So many bytes may its arrays have together.
  Assembler<Tree> assembler(kSource, index.size());
  for (std::size_t i = 0; i < index.size(); ++i) {
    const formats::IndexEntry entry = index.entry(i);
    if (entry.kind == formats::EntryKind::list) {
      assembler.add_list(entry.name, entry.list_size());
    } else if (entry.kind == formats::EntryKind::array) {
      Array array = array_of(index, entry, data);
      if (array.byte_count() > left) {
        refuse(fmt::format("array {} shares bytes with others", shown(entry.name)));
      }
      left -= array.byte_count();
      assembler.add(entry.name, std::move(array));
    } else {
      assembler.add(entry.name, scalar_of(index, entry));
    }
  }
  return assembler.finish();
}

}  // namespace cairn::detail
