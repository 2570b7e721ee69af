// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/packed_tree.hpp"

#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "assembler.hpp"
#include "handlers/internal/array_files.hpp"
#include "handlers/internal/packed_tree.hpp"
#include "index_names.hpp"

namespace cairn {
namespace {

Array array_in(const formats::PackedTree& packed, const formats::IndexEntry& entry) {
  const formats::IndexArray stored = packed.index().array(entry);
  const std::span<const std::byte> elements = packed.elements(stored);
  Array array(Shape(stored.dims), stored.dtype);
  if (!elements.empty()) {
    std::memcpy(array.mutable_view().data(), elements.data(), elements.size());
  }
  return array;
}

}  // namespace

std::string pack_tree(const Tree& tree) {
  return pack_tree(tree, formats::kPackedTree);
}

Tree unpack_tree(std::span<const std::byte> bytes, std::string name) {
  return unpack_tree(bytes, std::move(name), formats::kPackedTree);
}

std::string pack_tree(const Tree& tree, const formats::PackedForm& form) {
  formats::TreePacker packer(form);
  visit_leaves(tree, [&packer](std::string_view at, const Tree& leaf) {
    const Array* array = leaf.array_if();
    if (leaf.sharded_array_if() != nullptr || (array != nullptr && !array->view().device().is_host())) {
      throw Error(Errc::invalid_argument,
                  fmt::format("{}: a packed tree has arrays of the host's memory only", formats::shown(at)));
    }
    if (array == nullptr) {
      return add_value(packer.entries(), at, leaf);
    }
    const Array dense = array->view().is_contiguous() ? *array : array->clone();
    const Shape& shape = dense.shape();
    packer.add_array(at, dense.dtype(), std::vector<std::uint64_t>(shape.begin(), shape.end()),
                     dense.view().bytes());
  });
  return packer.finish();
}

Tree unpack_tree(std::span<const std::byte> bytes, std::string name, const formats::PackedForm& form) {
  const formats::PackedTree packed = formats::PackedTree::open(bytes, form, std::move(name));
  const formats::Index& index = packed.index();
  detail::Assembler<Tree> assembler(index.path(), index.size());
  for (std::size_t i = 0; i < index.size(); ++i) {
    const formats::IndexEntry entry = index.entry(i);
    if (entry.kind == formats::EntryKind::list) {
      assembler.add_list(entry.name, entry.list_size());
    } else if (entry.kind == formats::EntryKind::array) {
      assembler.add(entry.name, array_in(packed, entry));
    } else {
      assembler.add(entry.name, detail::scalar_of(index, entry));
    }
  }
  return assembler.finish();
}

}  // namespace cairn
