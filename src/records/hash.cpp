// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <highwayhash/highwayhash_target.h>
#include <highwayhash/instruction_sets.h>

#include "records/layout.hpp"

namespace cairn::records {
namespace {

// "Riegeli/records\n", twice.
constexpr highwayhash::HHKey kHashKey = {0x2f696c6567656952, 0x0a7364726f636572, 0x2f696c6567656952,
                                         0x0a7364726f636572};

}  // namespace

void require_hash() {}

std::uint64_t hash(std::span<const Bytes> fragments) {
  std::vector<highwayhash::StringView> views;
  views.reserve(fragments.size());
  for (const Bytes fragment : fragments) {
    views.push_back({reinterpret_cast<const char*>(fragment.data()), fragment.size()});
  }
  highwayhash::HHResult64 result = 0;
  highwayhash::InstructionSets::Run<highwayhash::HighwayHashCat>(kHashKey, views.data(), views.size(),
                                                                 &result);
  return result;
}

std::uint64_t hash(Bytes bytes) {
  highwayhash::HHResult64 result = 0;
  highwayhash::InstructionSets::Run<highwayhash::HighwayHash>(
      kHashKey, reinterpret_cast<const char*>(bytes.data()), bytes.size(), &result);
  return result;
}

}  // namespace cairn::records
