// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/message.h>

#include "cairn/proto/chunk.hpp"
#include "cairn/proto/chunked_message.hpp"
#include "cairn/proto/path.hpp"

namespace cairn::proto {

struct SplitOptions {
  SplitOptions() = default;

  /// Most bytes of a chunk that is a message. One of bytes has no limit. 1 to 2^31 - 1; the default is that of
  /// TensorFlow.
  std::uint64_t max_size = (std::uint64_t{1} << 31) - 500;
  /// Most bytes of a page that AutoSplitter makes of a message above max_size; max_size is the most that counts. Each
  /// thread of a write or a read has two of them in memory; small ones make more chunks. 0: 4 MiB with the default of
  /// max_size, and max_size with another.
  std::uint64_t page_size = 0;
  /// The version of the splitter, which a `.cpb` records for people; no reader refuses one.
  std::int32_t splitter_version = 1;
};

/// The chunks that a splitter has made of a message. Refers to the splitter.
struct SplitResult {
  std::span<const Chunk> chunks;
  const chunked::ChunkedMessage& chunked_message;
};

struct WriteOptions {
  WriteOptions() = default;

  /// How the records of a `.cpb` are written; see records::RecordOptions::parse.
  std::string records = "uncompressed";
};

/// The file that a splitter has written.
struct Written {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};

/// Cuts a message into chunks, because protobuf serialises none of 2 GiB or more. Derive, and override build_chunks.
///
/// The message is never changed. What is cut out of it is left out of the base chunk, which comes first; where nothing
/// else is in the message there is no base chunk.
/// Ownership: the message, and a parent, must stay valid as long as the splitter and its chunks are used.
/// Threads:   one at a time.
/// Errors:    Errc::invalid_argument, with the path, for a path that does not fit the type or leads nowhere, for what
///            is cut out twice or lies below something that was, for a message chunk above max_size, and for
///            messages that lie in each other more than 1000 levels deep, which could not be read again.
/// Example:   LayerSplitter(model.hidden_layers(0), *this, {"hidden_layers", 0}).build_chunks();
class ComposableSplitter {
 public:
  explicit ComposableSplitter(const google::protobuf::Message& message, SplitOptions options = {});
  /// Cuts a part of the parent's message, to which `path_in_parent` leads. Its chunks are chunks of the parent.
  ComposableSplitter(const google::protobuf::Message& message, ComposableSplitter& parent,
                     const Path& path_in_parent);
  virtual ~ComposableSplitter();
  ComposableSplitter(const ComposableSplitter&) = delete;
  ComposableSplitter& operator=(const ComposableSplitter&) = delete;

  /// Adds the chunks: `split` calls it. Override it, and call it of children, within that of the parent.
  virtual void build_chunks() = 0;

  /// Calls build_chunks, once, and returns the chunks and how they are put together. When build_chunks throws, the next
  /// call begins again.
  ///
  /// Errors: Errc::invalid_argument for a child: ask its parent; within build_chunks; when required fields are missing.
  [[nodiscard]] SplitResult split();
  [[nodiscard]] std::span<const Chunk> chunks();
  [[nodiscard]] const chunked::ChunkedMessage& chunked_message();

  /// Writes the message to `<prefix>.pb`, or its chunks to `<prefix>.cpb` where it was cut, and removes the other of
  /// the two. Missing directories are made. Atomic: at every instant readers get the old message or the new one, whole.
  /// Durable when it has returned. Of all programs one at a time writes to a prefix.
  ///
  /// Errors: as `split`; as records::RecordWriter, with Errc::feature_missing for a `.cpb` where this library was built
  ///         without records; OS errors. An error at the end may leave the new file, and the other one beside it.
  Written write(const std::filesystem::path& prefix, const WriteOptions& options = {});
  /// Returns the bytes that `write` would write, and whether they are those of a `.cpb`.
  ///
  /// Errors: as `write`.
  [[nodiscard]] std::pair<std::string, bool> write_to_string(const WriteOptions& options = {});

 protected:
  [[nodiscard]] const google::protobuf::Message& message() const noexcept;
  [[nodiscard]] const SplitOptions& options() const noexcept;

  /// Cuts out what lies at `path`: a message, a string, or a number, of which the chunk is the shortest text that is
  /// read as the same one. What was cut out of that message before stays out of the chunk. The empty path is the
  /// message of this splitter.
  ///
  /// `position` counts the chunks that have been added, and not the base chunk; nothing: behind all of them.
  /// Errors of these four: Errc::invalid_argument when build_chunks is not running, too.
  void add_chunk(const Path& path, std::optional<std::size_t> position = std::nullopt);
  /// Stores `chunk` there instead, whatever lies there: a message, or bytes, which for a number are its text. With an
  /// empty path a root gets a further part; set_base must then say what its base chunk is.
  void add_chunk(Chunk chunk, const Path& path, std::optional<std::size_t> position = std::nullopt);
  /// Cuts out elements [begin, end) of a repeated field or, in the order of keys, entries of a map: a chunk of the type
  /// of the message that has the field.
  ///
  /// Elements keep their order, so ranges of one repeated field are added in order, and the last ends where it ends.
  void add_range(const Path& field, std::size_t begin, std::size_t end);
  /// Says what the base chunk of a root is, in place of what was not cut out; nothing: there is none.
  void set_base(std::optional<Chunk> chunk);

 private:
  friend class AutoSplitter;
  struct Plan;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::proto
