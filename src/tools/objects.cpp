// SPDX-License-Identifier: Apache-2.0
#include "tools/objects.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/async/awaitable.hpp"

#include "array_store/internal/reader.hpp"
#include "async/internal/start.hpp"
#include "handlers/internal/array_files.hpp"
#include "tools/internal/text.hpp"

namespace cairn::tools {
namespace {

constexpr std::uint64_t kObjectsBytes = std::uint64_t{64} << 20;

DescribedValue described(std::string path, const Tree& leaf) {
  DescribedValue described{std::move(path), std::string(name(leaf.kind())), {}};
  switch (leaf.kind()) {
    case TreeKind::boolean:
      described.value = leaf.as<bool>();
      break;
    case TreeKind::integer:
      if (const auto large = leaf.large_integer()) {
        described.value = *large;
      } else {
        described.value = leaf.as<std::int64_t>();
      }
      break;
    case TreeKind::floating:
      described.value = leaf.as<double>();
      break;
    case TreeKind::string:
      described.value = leaf.as<std::string>();
      break;
    case TreeKind::bytes:
      described.value = leaf.as<Bytes>();
      break;
    case TreeKind::array: {
      const Array& array = *leaf.array_if();
      const Array whole = array.view().is_contiguous() ? array : array.clone();
      const auto bytes = whole.view().bytes();
      described.kind = fmt::format("{} {}", dtype_text(array.dtype()), array.shape());
      described.value = std::vector<std::byte>(bytes.begin(), bytes.end());
      break;
    }
    default:
      break;
  }
  return described;
}

}  // namespace

std::string path_in(std::string_view outer, std::string_view inner) {
  return outer.empty() || inner.empty() ? std::string(outer).append(inner)
                                        : fmt::format("{}/{}", outer, inner);
}

void read_objects(const ForeignFiles& from, std::span<const formats::IndexEntry> objects,
                  const TakeObject& take) {
  while (!objects.empty()) {
    std::vector<array_store::WantedArray> wanted;
    std::uint64_t bytes = 0;
    while (wanted.size() < objects.size() && (wanted.empty() || bytes < kObjectsBytes)) {
      const formats::IndexEntry& entry = objects[wanted.size()];
      wanted.push_back({entry, nullptr, nullptr});
      bytes += from.index.array(entry).dims[0];
    }
    array_store::ReadPlan plan = array_store::plan_read(from.index, wanted, {}, *from.files);
    Awaitable<> reading = array_store::read(from.files, std::move(plan.pieces));
    async::start(from.own.strand(), std::move(reading)).get();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const array_store::StoredObject object(*from.layout, from.index, objects[i],
                                             plan.arrays[i].view().bytes());
      std::vector<formats::LeftOut> left_out;
      const Tree tree = read_object(from.layout, object, objects[i].name, &left_out);
      take(objects[i], tree, left_out);
    }
    objects = objects.subspan(wanted.size());
  }
}

void describe_object(Description& description, std::string_view path, const Tree& tree,
                     const TakeArray& take) {
  std::erase_if(description.values, [path](const DescribedValue& one) { return one.name == path; });
  visit_leaves(tree, [&](std::string_view inner, const Tree& leaf) {
    if (const Array* array = leaf.array_if(); array != nullptr && take) {
      take(path_in(path, inner), *array);
    } else {
      description.values.push_back(described(path_in(path, inner), leaf));
    }
  });
}

}  // namespace cairn::tools
