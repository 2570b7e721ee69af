// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/message.h>

#include "proto/selection.hpp"
#include "proto/tags.hpp"

namespace cairn::proto {

/// Elements [begin, end) of a field.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A value that a page may hold: a message, a string, or a number.
struct PageValue {
  const google::protobuf::Message* message = nullptr;
  const std::string* text = nullptr;
  bool is_copy = false;         // The text does not lie in the message in one piece, and is gone afterwards.
  std::uint64_t bytes = 0;      // Without tag and length.
  std::uint64_t key_bytes = 0;  // Of an entry of a map.
};

/// The part of a value that a page holds.
struct Kept {
  enum class What { whole, blank, nothing };
  What what = What::whole;
  std::shared_ptr<const Selection> rest;  // Only this of a message.
};

/// Walks a message, and packs its values into pages, in the order in which protobuf writes its fields.
class Pager {
 public:
  /// `path` leads to the message from the root.
  Pager(Tags path, std::uint64_t max_size) : path_(std::move(path)), max_size_(max_size) {}
  virtual ~Pager() = default;
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

  /// Returns at least one page; `bytes` are those of ByteSizeLong, called before.
  std::vector<Selection> pages(const google::protobuf::Message& message, std::uint64_t bytes);
  /// Returns a page of some elements of one field.
  Selection page_of(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                    Range range);

 protected:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  /// Says what the page gets of the value at `path()`.
  virtual Kept keep(const PageValue& value) = 0;
  /// Returns from how many bytes on, with its key, `keep` is asked about a value of the field at `path()`.
  [[nodiscard]] virtual std::uint64_t asked_from(const google::protobuf::FieldDescriptor& field) const = 0;
  /// Returns the elements of the field at `path()`, of `count`, that pages have at all.
  [[nodiscard]] virtual std::vector<Range> ranges(std::size_t count) const { return {Range{0, count}}; }

  [[nodiscard]] const Tags& path() const noexcept { return path_; }

 private:
  class Packer;
  void add_elements(const google::protobuf::Message& message, std::uint64_t bytes,
                    const google::protobuf::FieldDescriptor& field,
                    const std::shared_ptr<const MapEntries>& entries, const std::vector<Range>& ranges,
                    Packer& packer);

  Tags path_;
  const std::uint64_t max_size_;
};

}  // namespace cairn::proto
