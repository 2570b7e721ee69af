// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/auto_splitter.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <google/protobuf/descriptor.pb.h>

#include "proto/pager.hpp"
#include "proto/splitter_plan.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::uint64_t page_size_of(const SplitOptions& options, std::uint64_t message_bytes) {
  constexpr std::uint64_t kPageBytes = std::uint64_t{4} << 20;
  if (message_bytes <= options.max_size) {
    return options.max_size;
  }
  const bool is_default = options.max_size == SplitOptions().max_size;
  const std::uint64_t otherwise = is_default ? kPageBytes : options.max_size;
  return std::min(options.page_size != 0 ? options.page_size : otherwise, options.max_size);
}

/// Takes what is larger than a third of a page out of the pages; of what TensorFlow's merger cannot put together, what
/// is larger than a third of max_size.
class AutoPager final : public Pager {
 public:
  AutoPager(Tags path, std::uint64_t page_size, std::uint64_t max_size)
      : Pager(std::move(path), page_size),
        page_size_(page_size),
        third_(page_size / 3),
        third_of_most_(max_size / 3) {}

  /// Returns the chunks of a message; `cuts` has those of what was taken out of it.
  std::vector<Chunk> chunks(const Message& message, std::uint64_t bytes) {
    if (bytes <= third_) {  // Nothing is cut out, so maps need not be seen as lists.
      return {Chunk::borrow(message)};
    }
    std::vector<Selection> found = pages(message, bytes);
    return to_chunks(message, bytes, std::move(found), cuts_.empty());
  }

  std::vector<PlannedChunk>& cuts() { return cuts_; }

 private:
  [[nodiscard]] std::uint64_t asked_from(const FieldDescriptor& field) const override {
    const FieldDescriptor& type = field.is_map() ? *field.message_type()->map_value() : field;
    const bool may_be_cut =
        type.message_type() != nullptr || type.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    const bool is_text = type.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    const bool is_merged_here_only = (is_text && field.is_repeated()) || field.is_extension() ||
                                     field.type() == FieldDescriptor::TYPE_GROUP;
    return !may_be_cut ? kNever : (is_merged_here_only ? third_of_most_ : third_) + 1;
  }

  Kept keep(const PageValue& value) override {
    Kept kept;
    const bool is_field = std::holds_alternative<FieldNumber>(path().back());
    const std::uint64_t most = value.message != nullptr || is_field ? third_ : third_of_most_;
    if (value.bytes + (value.message != nullptr ? value.key_bytes : 0) <= most) {
      return kept;
    }
    if (value.message != nullptr) {
      kept.rest = cut(*value.message, value.bytes);
    } else {
      add_cut(value.is_copy ? Chunk(*value.text) : Chunk::borrow(std::string_view(*value.text)));
    }
    if (kept.rest == nullptr) {
      const bool is_element = std::holds_alternative<ElementIndex>(path().back());
      kept.what = is_element ? Kept::What::blank : Kept::What::nothing;
    }
    return kept;
  }

  /// Gives a message chunks of its own, unless what is left of it is small: that is returned.
  std::shared_ptr<const Selection> cut(const Message& message, std::uint64_t bytes) {
    // The binary form of message sets is their own: they stay in one piece.
    if (message.GetDescriptor()->options().message_set_wire_format()) {
      add_cut(Chunk::borrow(message));
      return nullptr;
    }
    const std::size_t cuts_before = cuts_.size();
    std::vector<Selection> found = pages(message, bytes);
    if (found.size() == 1 && found.front().size_bytes <= third_) {
      return std::make_shared<const Selection>(std::move(found.front()));
    }
    for (Chunk& chunk : to_chunks(message, bytes, std::move(found), cuts_.size() == cuts_before)) {
      add_cut(std::move(chunk));
    }
    return nullptr;
  }

  [[nodiscard]] std::vector<Chunk> to_chunks(const Message& message, std::uint64_t bytes,
                                             std::vector<Selection> pages, bool is_whole) const {
    std::vector<Chunk> chunks;
    // A page has each key of a map once: where the message has some twice, the page may be smaller, and fit.
    if (is_whole && pages.size() == 1 && bytes <= std::max(page_size_, pages.front().size_bytes)) {
      chunks.push_back(Chunk::borrow(message));
      return chunks;
    }
    for (Selection& page : pages) {
      chunks.emplace_back(std::make_shared<const Selection>(std::move(page)));
    }
    return chunks;
  }

  void add_cut(Chunk chunk) {
    PlannedChunk& added = cuts_.emplace_back();
    added.path = path();
    added.chunk = std::move(chunk);
    added.has_limit = false;
  }

  const std::uint64_t page_size_;
  const std::uint64_t third_;
  const std::uint64_t third_of_most_;
  std::vector<PlannedChunk> cuts_;
};

}  // namespace

void AutoSplitter::build_chunks() {
  Plan& plan = *state_->plan;
  const bool is_child = state_->is_child;
  std::uint64_t bytes = plan.root_bytes;
  if (is_child) {
    bytes = message().ByteSizeLong();
    plan.check_nesting(message(), bytes, state_->prefix);
    plan.check_untouched(state_->prefix);
    plan.cut(state_->prefix);
  }
  AutoPager pager(state_->prefix, page_size_of(options(), bytes), options().max_size);
  std::vector<Chunk> chunks = pager.chunks(message(), bytes);
  plan.is_base_given = plan.is_base_given || !is_child;
  plan.base_has_limit = plan.base_has_limit && is_child;
  for (Chunk& chunk : chunks) {
    if (!is_child && !plan.base) {
      plan.base = chunk.size_bytes() > 0 ? std::optional(std::move(chunk)) : std::nullopt;
      continue;
    }
    PlannedChunk further;
    further.path = state_->prefix;
    further.chunk = std::move(chunk);
    further.has_limit = false;
    plan.add(std::move(further), std::nullopt);
  }
  for (PlannedChunk& cut : pager.cuts()) {
    plan.add(std::move(cut), std::nullopt);
  }
}

}  // namespace cairn::proto
