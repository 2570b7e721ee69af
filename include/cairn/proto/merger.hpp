// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <google/protobuf/message.h>

#include "cairn/proto/chunk.hpp"
#include "cairn/proto/chunked_message.hpp"
#include "cairn/proto/path.hpp"

namespace cairn::proto {

struct MergeOptions {
  MergeOptions() = default;

  /// Threads that parse and copy; 0: one for each core, and one alone for less than a MiB.
  unsigned threads = 0;
  /// Most bytes of all chunks together; 0: half of the memory that this process may have. More are refused before any
  /// is read.
  std::uint64_t most_bytes = 0;
  /// Most elements that are put in before an index which is not there yet.
  std::uint64_t most_empty_elements = std::uint64_t{1} << 16;
  /// Required fields may be missing.
  bool allow_partial = false;
  /// Of a part of a message: a chunk that lies at its path, or nearest above it, has all of what lies there, as where
  /// AutoSplitter has cut. Chunks above that one are not read then.
  bool parts_are_whole = false;
};

/// The things that a merge has noticed.
struct Merged {
  std::vector<std::uint64_t> unused_chunks;  ///< Their numbers: nothing in the tree refers to them.
  std::vector<std::string> remarks;          ///< For people: a number that can be read in two ways, say.
};

/// Puts chunks together, as `chunked_message` says, into `out`, which is cleared first. When it fails `out` holds
/// anything.
///
/// A message comes before its fields, elements come in the order of their indexes, and what is missing on the way is
/// made. docs/protobuf.md has the rules for each kind of field.
/// Ownership: `out` is none of the messages that the chunks refer to.
/// Errors:    Errc::malformed_metadata, with chunk number and path, for a tree that does not fit the type or the
///            chunks, and for bytes that are not what their field holds; Errc::type_mismatch for a message of another
///            type.
Merged merge(std::span<const Chunk> chunks, const chunked::ChunkedMessage& chunked_message,
             google::protobuf::Message& out, const MergeOptions& options = {});

/// Puts a message, or a part of one, together from chunks that are stored: they are added in any order, as they are
/// read, by as many threads as there are.
///
/// Ownership: what is merged into must stay valid, and untouched, until `finish` has returned.
/// Threads:   `add` may be called by several at once, each with another chunk.
/// Errors:    as `merge`; Errc::unsupported_version for chunks that were written for later mergers.
class Merger {
 public:
  /// `stored` is not needed any more when this has returned.
  Merger(const chunked::ChunkMetadata& stored, google::protobuf::Message& out,
         const MergeOptions& options = {});
  /// Merges of a message of type `whole` only what lies at `part`, which is of the type of `out`.
  ///
  /// Errors: Errc::type_mismatch when it is not; Errc::invalid_argument as `part_type`.
  Merger(const chunked::ChunkMetadata& stored, const google::protobuf::Descriptor& whole, const Path& part,
         google::protobuf::Message& out, const MergeOptions& options = {});
  Merger(const Merger&) = delete;
  Merger& operator=(const Merger&) = delete;
  ~Merger();

  /// Returns the numbers of the chunks that it needs, each once.
  [[nodiscard]] std::span<const std::uint64_t> wanted() const noexcept;

  /// Takes one of them as it is stored. A message is parsed here; other bytes are copied, or moved.
  void add(std::uint64_t chunk, std::span<const std::byte> bytes);
  void add(std::uint64_t chunk, std::string bytes);

  /// Moves all together, into the message; call it once, when all chunks that it needs were added.
  ///
  /// Errors: Errc::not_found when nothing lies at the path of the part.
  Merged finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The paths of chunks, for people and tools. They are made into text when somebody asks, for texts may have very many
/// more characters than the tree.
class ChunkPaths {
 public:
  /// Fields go by their names in `whole`, and by their numbers where that is null or lacks them. `stored` is not needed
  /// any more when this has returned.
  ///
  /// Errors: Errc::malformed_metadata for a chunk number that is out of range or used twice, for a tag of no kind, and
  ///         for what is deeper than a merge takes.
  explicit ChunkPaths(const chunked::ChunkMetadata& stored,
                      const google::protobuf::Descriptor* whole = nullptr);

  /// Returns the path of one of the chunks, which `parse_path` reads: empty for the message itself, nothing for a chunk
  /// that nothing refers to.
  [[nodiscard]] std::optional<std::string> text(std::size_t chunk) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// Returns the type of the message at a path.
///
/// Errors: Errc::invalid_argument for a path that does not fit the type, or leads to anything else.
[[nodiscard]] const google::protobuf::Descriptor& part_type(const google::protobuf::Descriptor& whole,
                                                            const Path& part);

}  // namespace cairn::proto
