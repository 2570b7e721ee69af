// SPDX-License-Identifier: Apache-2.0
// The input is a packed tree. What is accepted has arrays within its bytes, and can be packed again.
#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "formats/internal/index_merge.hpp"
#include "formats/internal/packed_tree.hpp"
#include "fuzz/fuzzing.hpp"

namespace {

using cairn::Errc;
using cairn::formats::EntryKind;
using cairn::formats::Index;
using cairn::formats::IndexArray;
using cairn::formats::IndexEntry;
using cairn::formats::kPackedTree;
using cairn::formats::PackedTree;
using cairn::formats::TreePacker;
using cairn::fuzz::attempt;
using cairn::fuzz::require;

PackedTree opened(std::string_view text) {
  return PackedTree::open(cairn::fuzz::as_bytes(text), kPackedTree, "input");
}

std::string packed_again(const PackedTree& tree) {
  TreePacker packer(kPackedTree);
  const Index& index = tree.index();
  for (std::size_t i = 0; i < index.size(); ++i) {
    const IndexEntry entry = index.entry(i);
    if (entry.is_alias) {  // Of an array without elements.
      continue;
    }
    if (entry.kind != EntryKind::array) {
      cairn::formats::copy_value(packer.entries(), index, entry);
      continue;
    }
    const IndexArray array = index.array(entry);
    packer.add_array(entry.name, array.dtype, array.dims, tree.elements(array));
  }
  return packer.finish();
}

void require_same(const PackedTree& one, const PackedTree& other) {
  for (std::size_t i = 0; i < one.index().size(); ++i) {
    const IndexEntry entry = one.index().entry(i);
    if (entry.is_alias) {
      continue;
    }
    const auto found = other.index().find(entry.name);
    require(found.has_value(), "entries come back");
    const IndexEntry back = other.index().entry(*found);
    require(entry.kind == back.kind, "kinds come back");
    if (entry.kind == EntryKind::array) {
      require(std::ranges::equal(one.elements(one.index().array(entry)),
                                 other.elements(other.index().array(back))),
              "elements come back");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tree = [&] {
    const cairn::fuzz::MemoryBound bound(32768 + 80 * size);
    return attempt({Errc::malformed_metadata, Errc::unsupported_version}, [&] { return opened(text); });
  }();
  if (tree) {
    const std::string again = packed_again(*tree);
    require_same(*tree, opened(again));
  }
  return 0;
}
