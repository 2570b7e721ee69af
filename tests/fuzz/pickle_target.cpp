// SPDX-License-Identifier: Apache-2.0
// The input is a pickle. An Error, or nodes of which every one that can be reached has items, texts and objects inside
// the pickle; and the tree that torch's reader makes of them, with storages of 0 to 64 bytes, has sound ranges.
#include <string>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "formats/internal/pickle.hpp"
#include "formats/internal/torch_archive.hpp"
#include "fuzz/fuzzing.hpp"

namespace {

using cairn::Errc;
using cairn::formats::Pickle;
using cairn::formats::PickleKind;
using cairn::formats::PickleNode;
using cairn::fuzz::require;

/// Looks at each node that the root leads to once: they may be shared, and in a circle.
void check_nodes(const Pickle& pickle, std::string_view text) {
  std::unordered_set<std::uint32_t> seen;
  std::vector<PickleNode> open{pickle.root()};
  while (!open.empty()) {
    const PickleNode node = open.back();
    open.pop_back();
    if (!seen.insert(static_cast<std::uint32_t>(node)).second) {
      continue;
    }
    require(seen.size() <= 2 * text.size() + 2, "there are few nodes");
    const PickleKind kind = pickle.kind(node);
    if (kind == PickleKind::text || kind == PickleKind::bytes) {
      const std::string_view part = pickle.text(node);
      require(part.data() >= text.data() && part.end() <= text.end(), "a text lies inside the pickle");
    } else if (kind == PickleKind::persistent) {
      open.push_back(pickle.identity(node));
    } else if (kind >= PickleKind::tuple) {
      std::size_t count = 0;
      PickleNode item{};
      for (Pickle::Items items = pickle.items(node); items.next(item); ++count) {
        open.push_back(item);
      }
      require(count == pickle.size(node), "a container has as many items as it says");
    }
    if (kind == PickleKind::object) {
      open.insert(open.end(), {pickle.callable(node), pickle.arguments(node), pickle.state(node)});
      static_cast<void>(pickle.class_name(node));
    }
  }
}

void describe(std::string_view text) {
  cairn::formats::TorchArchive archive;
  archive.folder = "a/";
  const auto bytes = cairn::fuzz::as_bytes(text);
  archive.pickle.assign(bytes.begin(), bytes.end());
  std::uint64_t begin = 1;
  for (int i = 0; i < 10; ++i) {
    cairn::formats::ZipMember member;
    member.name = fmt::format("a/data/{}", i);
    member.begin = begin;
    member.size = static_cast<std::uint64_t>(i) * 8;
    begin += 100;
    archive.directory.members.push_back(member);
  }
  cairn::formats::ZipMember pickle;
  pickle.name = "a/data.pkl";
  pickle.begin = begin;
  pickle.size = text.size();
  archive.directory.members.insert(archive.directory.members.begin(), pickle);
  const auto catalogue = [&] {
    const cairn::fuzz::MemoryBound bound((std::size_t{16} << 20) + 600 * text.size());
    return cairn::fuzz::attempt({Errc::malformed_metadata, Errc::unsupported_version},
                                [&] { return describe_torch_archive(archive, "input"); });
  }();
  if (!catalogue) {
    return;
  }
  for (const cairn::formats::ForeignArray& array : catalogue->arrays) {
    for (const cairn::formats::ForeignSlice& slice : array.slices) {
      require(slice.form < catalogue->forms.size(), "a form is one of those that there are");
      require(slice.range.begin < slice.range.end && slice.range.end <= begin + text.size(),
              "a range is in the file");
      require(slice.box.is_within(array.shape), "a box lies inside its array");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto pickle = [&] {
    const cairn::fuzz::MemoryBound bound(65536 + 160 * size);
    return cairn::fuzz::attempt({Errc::malformed_metadata, Errc::unsupported_version},
                                [&] { return Pickle::read(cairn::fuzz::as_bytes(text), "input"); });
  }();
  if (pickle) {
    check_nodes(*pickle, text);
    describe(text);
  }
  return 0;
}
