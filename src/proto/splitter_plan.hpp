// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <google/protobuf/message.h>

#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/splitter.hpp"

#include "proto/pager.hpp"
#include "proto/tags.hpp"

namespace cairn::proto {

/// A chunk that a splitter has added. What a message without its cuts is, is known at the end only.
struct PlannedChunk {
  Tags path;                                           // From the root.
  std::optional<Chunk> chunk;                          // Nothing: `message` without what was cut out of it.
  const google::protobuf::Message* message = nullptr;  // There, or with the field below.
  const google::protobuf::FieldDescriptor* field = nullptr;  // Only this range of it.
  Range range;
  bool has_limit = true;  // A page may hold a single key that is larger.

  [[nodiscard]] bool is_part() const noexcept { return field != nullptr; }
};

/// The parts that a splitter and its children have cut out of a message.
struct ComposableSplitter::Plan {
  Plan(const google::protobuf::Message& message, SplitOptions split_options)
      : root(message), options(split_options) {}

  /// Records that the base chunk does not have what lies at a path.
  ///
  /// Errors: Errc::invalid_argument when it was cut out before, or lies below something that was.
  void cut(const Tags& path);
  void add(PlannedChunk chunk, std::optional<std::size_t> position);
  void add_range(PlannedChunk range);
  /// Errors: Errc::invalid_argument when something at or below a path was cut out.
  void check_untouched(const Tags& path) const;
  /// Errors: Errc::invalid_argument outside build_chunks: what is added there would be lost.
  void check_building() const;
  /// Errors: Errc::invalid_argument for a message at `path` in which others lie deeper than they can be read.
  void check_nesting(const google::protobuf::Message& message, std::uint64_t bytes, const Tags& path) const;

  /// Lasts as long as build_chunks of the whole message.
  struct Building {
    explicit Building(Plan& plan_) : plan(plan_) { plan.is_building = true; }
    Building(const Building&) = delete;
    Building& operator=(const Building&) = delete;
    ~Building() { plan.is_building = false; }
    Plan& plan;
  };
  /// The entries of a map, which are looked for once while chunks are planned.
  [[nodiscard]] const MapEntries& entries_of(const google::protobuf::Message& message,
                                             const google::protobuf::FieldDescriptor& field);
  /// Makes `chunks` and `tree`.
  void finish();
  void begin_again();

  [[noreturn]] void refuse(const Tags& path, std::string_view why) const;

  const google::protobuf::Message& root;
  std::uint64_t root_bytes = 0;
  SplitOptions options;
  std::vector<PlannedChunk> planned;
  std::set<Tags> cuts;
  std::map<Tags, std::vector<Range>> ranges;  // By the path of the field.
  std::map<std::pair<const google::protobuf::Message*, const google::protobuf::FieldDescriptor*>, MapEntries>
      maps;
  bool is_base_given = false;
  bool base_has_limit = true;
  std::optional<Chunk> base;
  bool is_building = false;  // build_chunks of the whole message is running.
  bool is_finished = false;
  std::vector<Chunk> chunks;
  chunked::ChunkedMessage tree;

 private:
  class Leftovers;
  /// Returns whether something at or below a path was cut out; without `itself`, below it.
  [[nodiscard]] bool touches(const Tags& path, bool itself) const;
  void check_not_below_a_cut(const Tags& path, std::size_t length) const;
  [[nodiscard]] std::optional<Chunk> make_base() const;
  [[nodiscard]] Chunk make_chunk(const PlannedChunk& planned_chunk) const;
  void check_ranges() const;
};

/// A path that a splitter was given, and what lies there.
struct Target {
  Tags tags;  // From the root.
  Walk walk;
  const google::protobuf::Message* message =
      nullptr;  // There; of a scalar or a list the message that has it.
  const std::string* text = nullptr;
  std::string number = {};  // The text of one.
  bool is_set = true;
};

struct ComposableSplitter::State {
  /// Errors: Errc::invalid_argument for a path that does not fit the type, and for an index that is out of range.
  [[nodiscard]] Target find(const Path& path) const;
  /// Looks for what lies at the tags of `target`, of which `begin` lead to its message.
  void find(Target& target, std::size_t begin) const;
  /// Errors: Errc::invalid_argument when the whole message has another size than when it was split; names a part that
  ///         has, where it has a chunk of its own.
  void check_unchanged() const;
  void refuse_changed_part() const;

  const google::protobuf::Message& message;
  std::shared_ptr<Plan> plan;
  Tags prefix;    // The path to `message` from the root.
  const Walk at;  // There.
  bool is_child = false;
};

}  // namespace cairn::proto
