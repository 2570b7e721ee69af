// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/auto_splitter.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include "cairn/base/error.hpp"

#include "proto/fields.hpp"
#include "proto/selection.hpp"
#include "proto/splitter_plan.hpp"
#include "proto/wire.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Protobuf keeps the sizes of messages in an int; of a larger one they are wrong.
constexpr std::uint64_t kMostCachedBytes = std::numeric_limits<std::int32_t>::max();

using Pages = std::vector<Selection>;

/// Packs items into pages of at most so many bytes, in order.
class PagePacker {
 public:
  PagePacker(const Message& message, std::uint64_t max_size) : message_(message), max_size_(max_size) {
    begin_page();
  }

  /// Adds an item of `bytes` to the page, or to a new one where it does not fit. `header_bytes` come to the first item
  /// of those that go on from each other: the tag and the length of a packed field.
  void add(SelectedItem item, std::uint64_t bytes, std::uint64_t header_bytes = 0) {
    const bool goes_on = !pages_.back().items.empty() && pages_.back().items.back().field == item.field;
    const std::uint64_t added = bytes + (goes_on ? 0 : header_bytes);
    if (used_ + added > max_size_ && !pages_.back().items.empty()) {
      begin_page();
      used_ = bytes + header_bytes;
    } else {
      used_ += added;
    }
    append(std::move(item), pages_.back());
  }

  /// The pages with their exact sizes; at least one, which may be empty.
  Pages take() && {
    for (Selection& page : pages_) {
      measure(page, true);
    }
    return std::move(pages_);
  }

 private:
  void begin_page() {
    pages_.emplace_back().message = &message_;
    used_ = 0;
  }

  const Message& message_;
  const std::uint64_t max_size_;
  std::uint64_t used_ = 0;  // At least what the page will have.
  Pages pages_;
};

/// Walks a message, and says what becomes a chunk of its own.
class AutoPlanner {
 public:
  AutoPlanner(const Message& root, Tags prefix, std::uint64_t max_size)
      : root_(root), path_(std::move(prefix)), max_size_(max_size), third_(max_size / 3) {}

  /// Returns the pages of the root; `cuts` has the chunks of what was taken out of it.
  Pages plan() { return pages(root_, root_.ByteSizeLong(), 0); }

  std::vector<PlannedChunk>& cuts() { return cuts_; }

 private:
  Pages pages(const Message& message, std::uint64_t size, int depth) {
    if (depth > kMostNesting) {
      throw Error(Errc::invalid_argument,
                  fmt::format("messages lie in each other more than {} levels deep", kMostNesting));
    }
    PagePacker packer(message, max_size_);
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    const bool is_huge = size > kMostCachedBytes;
    for (const FieldDescriptor* field : fields) {
      path_.emplace_back(FieldNumber{static_cast<std::uint32_t>(field->number())});
      if (field->is_map()) {
        add_map(message, *field, depth, packer);
      } else if (field->message_type() != nullptr) {
        add_messages(message, *field, is_huge, depth, packer);
      } else {
        add_scalars(message, *field, packer);
      }
      path_.pop_back();
    }
    const auto& unknown = message.GetReflection()->GetUnknownFields(message);
    for (int i = 0; i < unknown.field_count(); ++i) {
      const auto at = static_cast<std::uint32_t>(i);
      packer.add({nullptr, at, at + 1, nullptr, nullptr, false}, unknown_bytes(unknown.field(i)));
    }
    return std::move(packer).take();
  }

  /// Gives the message at `path_` chunks of its own, unless what is left of it is small: that is returned.
  std::shared_ptr<const Selection> cut(const Message& message, std::uint64_t size, int depth) {
    PlannedChunk chunk;
    chunk.path = path_;
    chunk.has_limit = false;
    // The binary form of message sets is their own: they stay in one piece.
    if (message.GetDescriptor()->options().message_set_wire_format()) {
      chunk.chunk = Chunk::borrow(message);
      cuts_.push_back(std::move(chunk));
      return nullptr;
    }
    const std::size_t cuts_before = cuts_.size();
    Pages found = pages(message, size, depth + 1);
    if (found.size() == 1 && found.front().size_bytes <= third_) {
      return std::make_shared<const Selection>(std::move(found.front()));
    }
    if (found.size() == 1 && cuts_.size() == cuts_before) {
      chunk.chunk = Chunk::borrow(message);
      cuts_.push_back(std::move(chunk));
      return nullptr;
    }
    for (Selection& page : found) {
      chunk.chunk = Chunk(std::make_shared<const Selection>(std::move(page)));
      cuts_.push_back(chunk);
    }
    return nullptr;
  }

  void cut_bytes(const std::string& bytes, bool is_inside) {
    PlannedChunk chunk;
    chunk.path = path_;
    chunk.chunk = is_inside ? Chunk::borrow(std::string_view(bytes)) : Chunk(bytes);
    cuts_.push_back(std::move(chunk));
  }

  void add_messages(const Message& message, const FieldDescriptor& field, bool is_huge, int depth,
                    PagePacker& packer) {
    const int count = field.is_repeated() ? message.GetReflection()->FieldSize(message, &field) : 1;
    const std::uint64_t tag = tag_bytes(field);
    for (int i = 0; i < count; ++i) {
      const Element element = field.is_repeated() ? Element(i) : Element();
      const Message& child = message_of(message, field, element);
      const std::uint64_t size =
          is_huge ? child.ByteSizeLong() : static_cast<std::uint64_t>(child.GetCachedSize());
      const auto at = static_cast<std::uint32_t>(i);
      SelectedItem item{&field, at, at + 1, nullptr, nullptr, false};
      std::uint64_t left = size;
      if (size > third_) {
        if (element) {
          path_.emplace_back(ElementIndex{at});
        }
        item.rest = cut(child, size, depth);
        if (element) {
          path_.pop_back();
        }
        item.blank = item.rest == nullptr;
        left = item.blank ? 0 : item.rest->size_bytes;
        if (!element && left == 0) {
          continue;  // What was cut out of it makes it again.
        }
      }
      packer.add(std::move(item), tag + message_bytes(field, left));
    }
  }

  void add_scalars(const Message& message, const FieldDescriptor& field, PagePacker& packer) {
    const int count = field.is_repeated() ? message.GetReflection()->FieldSize(message, &field) : 1;
    const bool is_packed = field.is_packed();
    const std::uint64_t header = is_packed ? tag_bytes(field) + 5 : 0;  // 5: the longest length.
    const std::uint64_t tag = is_packed ? 0 : tag_bytes(field);
    for (int i = 0; i < count; ++i) {
      const Element element = field.is_repeated() ? Element(i) : Element();
      const auto at = static_cast<std::uint32_t>(i);
      SelectedItem item{&field, at, at + 1, nullptr, nullptr, false};
      if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
        packer.add(std::move(item), tag + scalar_bytes(message, field, element), header);
        continue;
      }
      std::string scratch;
      const std::string& text = string_of(message, field, element, scratch);
      if (text.size() <= third_) {
        packer.add(std::move(item), tag + with_length(text.size()));
        continue;
      }
      if (element) {
        path_.emplace_back(ElementIndex{at});
      }
      cut_bytes(text, &text != &scratch);
      if (element) {
        path_.pop_back();
        item.blank = true;
        packer.add(std::move(item), tag + 1);
      }
    }
  }

  void add_map(const Message& message, const FieldDescriptor& field, int depth, PagePacker& packer) {
    const FieldDescriptor& value = *field.message_type()->map_value();
    const auto entries = std::make_shared<const MapEntries>(sorted_entries(message, field));
    const std::uint64_t tag = tag_bytes(field);
    for (std::size_t i = 0; i < entries->size(); ++i) {
      const MapEntry& entry = (*entries)[i];
      const std::uint64_t key = key_bytes(entry, field);
      const auto at = static_cast<std::uint32_t>(i);
      SelectedItem item{&field, at, at + 1, entries, nullptr, false};
      std::uint64_t bytes = 0;
      if (value.message_type() != nullptr) {
        const Message& child = entry.value.GetMessageValue();
        // Not the cached size: where entries were messages until now, the value has none.
        bytes = child.ByteSizeLong();
        if (bytes + key > third_) {
          path_.push_back(to_tag(entry.key));
          item.rest = cut(child, bytes, depth);
          path_.pop_back();
          if (item.rest == nullptr) {
            continue;
          }
          bytes = item.rest->size_bytes;
        }
        bytes = with_length(bytes);
      } else if (value.cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
                 entry.value.GetStringValue().size() > third_) {
        path_.push_back(to_tag(entry.key));
        cut_bytes(entry.value.GetStringValue(), true);
        path_.pop_back();
        continue;
      } else {
        bytes = scalar_bytes(entry, value);
      }
      packer.add(std::move(item), tag + with_length(key + bytes));
    }
  }

  const Message& root_;
  Tags path_;
  const std::uint64_t max_size_;
  const std::uint64_t third_;
  std::vector<PlannedChunk> cuts_;
};

}  // namespace

void AutoSplitter::build_chunks() {
  Plan& plan = *state_->plan;
  if (plan.touches(state_->prefix)) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': a part of it was cut out before", plan.text(state_->prefix)));
  }
  AutoPlanner planner(message(), state_->prefix, options().max_size);
  Pages pages = planner.plan();
  const auto check = [&plan](const Chunk& chunk, const Tags& path) {
    if (chunk.type() != nullptr && chunk.size_bytes() >= kMostCachedBytes) {
      throw Error(
          Errc::invalid_argument,
          fmt::format(
              "'{}': a page of {} bytes is too large for protobuf; it has a single key or unknown field",
              plan.text(path), chunk.size_bytes()));
    }
  };
  if (state_->is_child) {
    plan.cut(state_->prefix);
  } else {
    plan.is_base_given = true;
    plan.base_has_limit = false;
  }
  for (Selection& page : pages) {
    if (!state_->is_child && page.items.empty()) {
      continue;
    }
    Chunk chunk = pages.size() == 1 && planner.cuts().empty()
                      ? Chunk::borrow(message())
                      : Chunk(std::make_shared<const Selection>(std::move(page)));
    check(chunk, state_->prefix);
    if (!state_->is_child && !plan.base) {
      plan.base = std::move(chunk);
      continue;
    }
    PlannedChunk further;
    further.path = state_->prefix;
    further.chunk = std::move(chunk);
    further.has_limit = false;
    plan.add(std::move(further), std::nullopt);
  }
  for (PlannedChunk& cut : planner.cuts()) {
    check(*cut.chunk, cut.path);
    plan.add(std::move(cut), std::nullopt);
  }
}

}  // namespace cairn::proto
