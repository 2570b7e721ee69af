// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/handlers/proto.hpp"
#include "cairn/proto/chunked_message.hpp"
#include "cairn/proto/merger.hpp"
#include "cairn/staging/pieces.hpp"

namespace cairn::detail {

/// The full name of a type, from the text of the file that has nothing but it in one line.
///
/// Errors: Errc::malformed_metadata, naming `path`.
[[nodiscard]] std::string parse_type_name(std::string text, std::string_view path);

/// Parses where the chunks of a message lie in a file of `file_bytes`. The bytes may hold anything.
///
/// Errors: Errc::malformed_metadata, naming `path`, for what is no such text, and for chunks that overlap or reach
///         beyond the file.
[[nodiscard]] std::shared_ptr<const chunked::ChunkMetadata> parse_chunks(std::string_view bytes,
                                                                         std::uint64_t file_bytes,
                                                                         std::string_view path);
/// The same of a message that is all of its file.
///
/// Errors: Errc::malformed_metadata, naming `path`, for 2 GiB and more.
[[nodiscard]] std::shared_ptr<const chunked::ChunkMetadata> one_chunk(std::uint64_t file_bytes,
                                                                      std::string_view path);

/// One load of a message, or of a part of it: pages are parsed from the buffers that they are read into, and bytes are
/// read into strings that are moved into the message.
///
/// Threads: `make_room` may be called by several at once; pieces are filled by as many as there are.
/// Errors:  as proto::Merger, naming the path of the file.
class MessageLoad : public std::enable_shared_from_this<MessageLoad> {
 public:
  /// `whole` is an empty message of the type that is stored, which lasts as long as what is loaded.
  MessageLoad(std::shared_ptr<const chunked::ChunkMetadata> stored, std::string path,
              std::shared_ptr<google::protobuf::Message> whole, const proto::Path& part);

  /// How many strings there are to be made.
  [[nodiscard]] std::size_t strings() const noexcept { return texts_.size(); }

  /// Makes those that nobody else has made.
  void make_room();
  /// The destinations of the bytes of the file.
  [[nodiscard]] std::vector<DestinationPiece> pieces();
  /// The message, when all are there.
  [[nodiscard]] ProtoMessage finish();

  /// Parses a page.
  void add(std::uint64_t chunk, std::span<const std::byte> bytes);

 private:
  struct Text {
    std::uint64_t chunk = 0;
    std::string bytes;
  };

  [[nodiscard]] bool is_page(std::uint64_t chunk) const;
  void in_file(const std::function<void()>& work) const;

  const std::shared_ptr<const chunked::ChunkMetadata> stored_;
  const std::string path_;
  std::shared_ptr<google::protobuf::Message> message_;
  std::optional<proto::Merger> merger_;
  std::vector<Text> texts_;
  std::atomic<std::size_t> next_text_{0};
};

}  // namespace cairn::detail
