// SPDX-License-Identifier: Apache-2.0
#include "proto/pager.hpp"

#include <type_traits>

#include <google/protobuf/unknown_field_set.h>

#include "proto/fields.hpp"
#include "proto/scalars.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

FieldNumber number_of(const FieldDescriptor& field) {
  return {static_cast<std::uint32_t>(field.number())};
}

/// Reads a value of a message that has `above` bytes. Strings that do not lie in one piece are copied to `scratch`.
PageValue value_of(const Message& message, std::uint64_t above, const FieldDescriptor& field, Element element,
                   std::string& scratch) {
  PageValue value;
  if (field.message_type() != nullptr) {
    value.message = &message_of(message, field, element);
    value.bytes = bytes_below(above, *value.message);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    value.text = &string_of(message, field, element, scratch);
    value.is_copy = value.text == &scratch;
    value.bytes = value.text->size();
  } else {
    value.bytes = number_bytes(message, field, element);
  }
  return value;
}

/// Reads the value of an entry.
PageValue value_of(const Message& message, const FieldDescriptor& field, const MapEntry& entry,
                   std::string& scratch) {
  constexpr std::uint64_t kNotCounted = std::numeric_limits<std::uint64_t>::max();  // The list is new.
  PageValue value = value_of(message_of(message, field, entry.place), kNotCounted,
                             *field.message_type()->map_value(), {}, scratch);
  value.key_bytes = key_bytes(entry.key, field);
  return value;
}

std::shared_ptr<const MapEntries> entries_if_map(const Message& message, const FieldDescriptor& field) {
  return field.is_map() ? std::make_shared<const MapEntries>(entries_of(message, field)) : nullptr;
}

}  // namespace

/// Packs items into pages of at most so many bytes, in order.
class Pager::Packer {
 public:
  Packer(const Message& message, std::uint64_t max_size) : message_(message), max_size_(max_size) {
    begin_page();
  }

  /// Adds an item to the page, or to a new one where it does not fit. Where the field is packed, `bytes` have no tag.
  void add(SelectedItem item, std::uint64_t bytes) {
    const Selection& before = pages_.back();
    if (before.items.empty() || before.items.back().field != item.field) {
      closed_ = before.size_bytes;
      open_ = 0;
      is_packed_ = item.field != nullptr && item.field->is_packed();
    }
    if (!before.items.empty() && closed_ + written(item, open_ + bytes) > max_size_) {
      begin_page();
    }
    Selection& page = pages_.back();
    open_ += bytes;
    page.size_bytes = closed_ + written(item, open_);
    SelectedItem* last = page.items.empty() ? nullptr : &page.items.back();
    if (last != nullptr && last->field == item.field && last->end == item.begin && is_plain(*last) &&
        is_plain(item)) {
      last->end = item.end;
    } else {
      page.items.push_back(std::move(item));
    }
  }

  /// Adds elements of a list one after the other, each as a whole, up to the first of which `bytes_of` gives kNever.
  /// Returns the number of that one, or the end.
  template <class BytesOf>
  std::size_t add_run(const FieldDescriptor& field, Range range, const BytesOf& bytes_of) {
    std::uint64_t bytes = 0;
    const auto has_next = [&] {
      return range.begin < range.end && (bytes = bytes_of(range.begin)) != kNever;
    };
    while (has_next()) {
      add({&field, range.begin, range.begin + 1, nullptr, nullptr, false}, bytes);
      ++range.begin;
      Selection& page = pages_.back();
      SelectedItem& item = page.items.back();
      while (has_next() && closed_ + written(item, open_ + bytes) <= max_size_) {
        open_ += bytes;
        ++range.begin;
      }
      item.end = range.begin;
      page.size_bytes = closed_ + written(item, open_);
    }
    return range.begin;
  }

  void add_numbers(const FieldDescriptor& field, const std::vector<Range>& ranges) {
    const std::uint64_t tag = field.is_packed() ? 0 : tag_bytes(field);
    with_scalar(field, [&]<class T>(const ScalarFunctions<T>& /*functions*/) {
      if constexpr (std::is_arithmetic_v<T>) {
        const auto& numbers = numbers_of<T>(message_, field);
        for (const Range& range : ranges) {
          add_run(field, range, [&](std::size_t i) {
            return tag + bytes_of_number(field.type(), numbers[static_cast<int>(i)]);
          });
        }
      }
    });
  }

  std::vector<Selection> take() && { return std::move(pages_); }

 private:
  static bool is_plain(const SelectedItem& item) { return item.rest == nullptr && !item.blank; }

  [[nodiscard]] std::uint64_t written(const SelectedItem& item, std::uint64_t bytes) const {
    return is_packed_ ? tag_bytes(*item.field) + with_length(bytes) : bytes;
  }

  void begin_page() {
    pages_.emplace_back().message = &message_;
    closed_ = 0;
    open_ = 0;
  }

  const Message& message_;
  const std::uint64_t max_size_;
  std::uint64_t closed_ = 0;  // Bytes of the fields of the page before its last one.
  std::uint64_t open_ = 0;    // Of its last field; where that is packed without tag and length.
  bool is_packed_ = false;    // The last field is.
  std::vector<Selection> pages_;
};

std::vector<Selection> Pager::pages(const Message& message, std::uint64_t bytes) {
  Packer packer(message, max_size_);
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const auto entries = entries_if_map(message, *field);
    const std::size_t count = entries != nullptr ? entries->sorted.size()
                              : field->is_repeated()
                                  ? static_cast<std::size_t>(reflection.FieldSize(message, field))
                                  : 1;
    path_.emplace_back(number_of(*field));
    add_elements(message, bytes, *field, entries, ranges(count), packer);
    path_.pop_back();
  }
  const auto& unknown = reflection.GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    packer.add({nullptr, at, at + 1, nullptr, nullptr, false}, unknown_bytes(unknown.field(i)));
  }
  return std::move(packer).take();
}

Selection Pager::page_of(const Message& message, const FieldDescriptor& field, Range range) {
  Packer packer(message, max_size_);
  path_.emplace_back(number_of(field));
  add_elements(message, message.ByteSizeLong(), field, entries_if_map(message, field), {range}, packer);
  path_.pop_back();
  return std::move(std::move(packer).take().front());
}

void Pager::add_elements(const Message& message, std::uint64_t bytes, const FieldDescriptor& field,
                         const std::shared_ptr<const MapEntries>& entries, const std::vector<Range>& ranges,
                         Packer& packer) {
  if (is_number_list(field)) {  // No element of one is cut out: it would have no place.
    return packer.add_numbers(field, ranges);
  }
  const std::uint64_t tag = tag_bytes(field);
  const std::uint64_t from = asked_from(field);
  const bool has_length = field.type() != FieldDescriptor::TYPE_GROUP;
  std::string scratch;
  const auto add = [&](std::size_t i) {
    const Element element = field.is_repeated() ? Element(static_cast<int>(i)) : Element();
    const MapEntry* entry = entries != nullptr ? &entries->sorted[i] : nullptr;
    const PageValue value = entry != nullptr ? value_of(message, field, *entry, scratch)
                                             : value_of(message, bytes, field, element, scratch);
    Kept kept;
    if (value.bytes + value.key_bytes >= from) {
      if (element) {
        path_.push_back(entry != nullptr ? entry->key : Tag(ElementIndex{i}));
      }
      kept = keep(value);
      if (element) {
        path_.pop_back();
      }
    }
    // Parts that were cut out of a single message make it again, where nothing else is in it.
    const bool is_made_again = !element && kept.rest != nullptr && kept.rest->items.empty();
    if (kept.what == Kept::What::nothing || is_made_again) {
      return;
    }
    const bool is_blank = kept.what == Kept::What::blank;
    std::uint64_t size = kept.rest != nullptr ? kept.rest->size_bytes : is_blank ? 0 : value.bytes;
    if (value.text != nullptr || (value.message != nullptr && (entry != nullptr || has_length))) {
      size = with_length(size);
    }
    if (entry != nullptr) {
      size = with_length(value.key_bytes + size);
    }
    packer.add({&field, i, i + 1, entries, std::move(kept.rest), is_blank}, tag + size);
  };
  const auto* messages = is_message_list(field) ? &messages_of(message, field) : nullptr;
  const auto bytes_of = [&](std::size_t i) {
    const std::uint64_t size = bytes_below(bytes, (*messages)[static_cast<int>(i)]);
    return size >= from ? kNever : tag + (has_length ? with_length(size) : size);
  };
  for (Range range : ranges) {
    while (range.begin < range.end) {
      range.begin = messages != nullptr ? packer.add_run(field, range, bytes_of) : range.begin;
      if (range.begin < range.end) {
        add(range.begin++);
      }
    }
  }
}

}  // namespace cairn::proto
