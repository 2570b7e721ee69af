// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contract/registry.hpp"
#include "cairn/core/load.hpp"

#include "cli/output.hpp"

namespace cairn::cli {

/// The handlers of protobuf messages, where the tool was built with protobuf; else none.
[[nodiscard]] RegistrySnapshot optional_proto_handlers();

/// Describes the chunks of a message, where they are stored.
struct MessageChunks {
  struct Chunk {
    bool is_message = false;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };

  std::vector<Chunk> chunks;
  /// Gives the path of the chunk of a number; nothing: the message has nothing of it.
  std::function<std::optional<std::string>(std::size_t)> path_of;
  std::string tree;  ///< How they are put together, in protobuf's text form.
  std::int32_t splitter_version = 0;
  std::int32_t join_version = 0;
  std::vector<std::int32_t> bad_consumers;
};

/// Returns the chunks of a checkpointable; nothing where it has none.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::optional<MessageChunks> chunks_of(const ItemMetadata& item);
/// Returns what the last record of a `.cpb` says; nothing where the tool was built without protobuf.
///
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::optional<MessageChunks> chunks_of_record(std::string_view record);
/// Returns such a record for the chunks of a checkpointable, which lie at these positions of a file.
[[nodiscard]] std::string record_of_chunks(const ItemMetadata& item,
                                           std::span<const std::uint64_t> positions);

/// Prints them as a table, below a line that says how many there are.
void print_chunks(Output& out, const MessageChunks& message);
/// Writes the keys "version", "chunks" and "chunked_message".
void write_chunks(JsonWriter& json, const MessageChunks& message);

}  // namespace cairn::cli
