// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "array_store/internal/reader.hpp"
#include "formats/internal/index_builder.hpp"

namespace cairn::testing {

/// Opens what a builder holds.
inline formats::Index index_of(formats::IndexBuilder& builder) {
  formats::IndexBytes built = builder.finish();
  return formats::Index::open(std::move(built.owner), built.bytes, "index.fb");
}

/// All arrays of an index, as they are stored.
inline std::vector<array_store::WantedArray> all_of(const formats::Index& index) {
  std::vector<array_store::WantedArray> wanted;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (const auto entry = index.entry(i); entry.kind == formats::EntryKind::array) {
      wanted.push_back({entry, nullptr});
    }
  }
  return wanted;
}

}  // namespace cairn::testing
