// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <google/protobuf/message.h>

#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/splitter.hpp"

#include "proto/selection.hpp"
#include "proto/tags.hpp"

namespace cairn::proto {

/// A chunk that a splitter has added. What a message without its cuts is, is known at the end only.
struct PlannedChunk {
  Tags path;                                           // From the root.
  std::optional<Chunk> chunk;                          // Nothing: `message` without what was cut out of it.
  const google::protobuf::Message* message = nullptr;  // There, or with the field below.
  const google::protobuf::FieldDescriptor* field = nullptr;  // Only its elements [begin, end).
  std::size_t begin = 0;
  std::size_t end = 0;
  bool has_limit = true;  // A page may hold a single key that is larger.

  [[nodiscard]] bool is_part() const noexcept { return field != nullptr; }
};

/// What a splitter and its children have cut out of a message.
struct ComposableSplitter::Plan {
  Plan(const google::protobuf::Message& message, SplitOptions split_options)
      : root(message), options(split_options) {}

  /// Records that the base chunk does not have what lies at a path.
  ///
  /// Errors: Errc::invalid_argument when it was cut out before, or lies below something that was.
  void cut(const Tags& path);
  [[nodiscard]] bool is_cut(const Tags& path) const { return cuts.contains(path); }
  /// Returns whether something at or below a path was cut out.
  [[nodiscard]] bool touches(const Tags& path) const;
  [[nodiscard]] bool touches_below(const Tags& path) const;
  void add(PlannedChunk chunk, std::optional<std::size_t> position);
  void add_range(PlannedChunk range);

  /// Makes `chunks` and `tree`.
  void finish();
  void begin_again();

  [[nodiscard]] std::string text(const Tags& path) const;

  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  const google::protobuf::Message& root;
  SplitOptions options;
  std::vector<PlannedChunk> planned;
  std::set<Tags, TagsBefore> cuts;
  std::map<Tags, std::vector<Range>, TagsBefore> ranges;  // By the path of the field.
  bool is_base_given = false;
  bool base_has_limit = true;
  std::optional<Chunk> base;
  bool is_finished = false;
  std::vector<Chunk> chunks;
  chunked::ChunkedMessage tree;

 private:
  [[nodiscard]] std::optional<Chunk> make_base() const;
  [[nodiscard]] Chunk make_chunk(const PlannedChunk& planned_chunk) const;
  [[nodiscard]] Selection select(const google::protobuf::Message& message, Tags& path) const;
  void select_field(const google::protobuf::FieldDescriptor& field, Tags& path, Selection& page) const;
  void select_elements(const google::protobuf::FieldDescriptor& field, std::size_t begin, std::size_t end,
                       Tags& path, Selection& page) const;
  void check_ranges() const;
};

struct ComposableSplitter::State {
  const google::protobuf::Message& message;
  std::shared_ptr<Plan> plan;
  Tags prefix;    // The path to `message` from the root.
  const Walk at;  // There.
  bool is_child = false;
};

/// Appends to a page one element, or makes its last item one element longer. `item` has the element only.
void append(SelectedItem item, Selection& page);

}  // namespace cairn::proto
