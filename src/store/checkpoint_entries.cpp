// SPDX-License-Identifier: Apache-2.0
#include "store/internal/checkpoint_entries.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/internal/natural_order.hpp"
#include "store/directory_scan.hpp"
#include "store/names.hpp"
#include "store/retire.hpp"

namespace cairn::store {
namespace {

/// The checkpoint that an entry with a final name belongs to. One that is only called like a generation is a checkpoint
/// of its own.
std::string_view checkpoint_of(const ScannedEntry& found) {
  const GenerationName parsed = parse_generation(found.entry.name);
  const bool is_only_called_so = found.classification.facts && !found.classification.hides_older &&
                                 found.classification.generation != parsed.generation;
  return is_only_called_so ? std::string_view(found.entry.name) : parsed.base;
}

/// Nothing for what never becomes a checkpoint again.
std::optional<CheckpointEntry> entry_of(const ScannedEntry& found) {
  const EntryClass kind = found.entry.kind;
  const std::optional<ReservedName> reserved = parse_reserved(found.entry.name);
  const bool is_trash = reserved && reserved->kind == ReservedKind::trash;
  if (is_trash || kind == EntryClass::abandoned || kind == EntryClass::foreign) {
    return std::nullopt;
  }
  CheckpointEntry entry;
  entry.checkpoint = reserved ? reserved->base : checkpoint_of(found);
  entry.entry = found.entry.name;
  entry.kind = kind;
  entry.note = found.entry.note;
  entry.is_leftover = reserved.has_value();
  return entry;
}

bool goes_before(const CheckpointEntry& a, const CheckpointEntry& b) {
  if (a.checkpoint != b.checkpoint) {
    const bool is_less = is_naturally_less(a.checkpoint, b.checkpoint);
    return is_less || (!is_naturally_less(b.checkpoint, a.checkpoint) && a.checkpoint < b.checkpoint);
  }
  const auto rank = [](const CheckpointEntry& each) -> std::uint32_t {
    return each.is_leftover ? 0 : each.entry == each.checkpoint ? 1 : parse_generation(each.entry).generation;
  };
  return rank(a) < rank(b);
}

}  // namespace

std::vector<CheckpointEntry> list_entries(const io::Directory& root) {
  RecoveryOptions dry;
  dry.dry_run = true;
  std::vector<CheckpointEntry> entries;
  for (const ScannedEntry& each : DirectoryScan(root, dry).run()) {
    if (std::optional<CheckpointEntry> entry = entry_of(each)) {
      entries.push_back(std::move(*entry));
    }
  }
  std::stable_sort(entries.begin(), entries.end(), goes_before);
  return entries;
}

void move_entry(const io::Directory& from, const std::string& entry, const io::Directory& to) {
  rename_to_free_name(from, entry, to, entry);
  to.sync();  // The new name first: a power cut must not keep the loss of the old one alone.
  from.sync();
}

}  // namespace cairn::store
