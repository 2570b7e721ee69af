// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/array_entries.hpp"

namespace cairn {

void ArrayEntries::Iterator::settle() {
  if (entries_->described_) {
    if (position_ < entries_->end_) {
      const Described& array = (*entries_->described_)[position_];
      current_ = {array.name, array.dtype, array.shape,
                  checked_byte_count(array.name, array.dtype, array.shape)};
    }
    return;
  }
  for (; position_ < entries_->end_; ++position_) {
    const formats::IndexEntry entry = entries_->index_->entry(position_);
    if (entry.kind == formats::EntryKind::array) {
      const formats::IndexArray array = entries_->index_->array(entry);
      current_.name = array.name;
      current_.dtype = array.dtype;
      current_.shape = Shape(array.dims);
      current_.bytes = checked_byte_count(array.name, array.dtype, current_.shape);
      return;
    }
  }
}

}  // namespace cairn
