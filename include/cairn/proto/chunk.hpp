// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <google/protobuf/message.h>

namespace cairn::proto {

struct Selection;

/// A part of a message that is stored by itself: a message, or the bytes of one field.
///
/// It refers to what it was made of; nothing is copied before it is written. Its size is known before.
/// Ownership: messages and bytes that are given by reference must stay valid, and unchanged, as long as the chunk is
///            used.
/// Threads:   const members may be called by several threads at once. Copies share what they refer to.
class Chunk {
 public:
  /// Refers to a message, or to bytes, of the caller.
  [[nodiscard]] static Chunk borrow(const google::protobuf::Message& message);
  [[nodiscard]] static Chunk borrow(std::string_view bytes);
  explicit Chunk(std::shared_ptr<const google::protobuf::Message> message);
  explicit Chunk(std::string bytes);
  /// A part of a message, which splitters of this library choose.
  explicit Chunk(std::shared_ptr<const Selection> selection);

  /// The type of the message; null for bytes.
  [[nodiscard]] const google::protobuf::Descriptor* type() const noexcept;

  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }

  /// Its bytes in memory, as they are stored; empty for messages.
  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }

  /// Serialises deterministically, which takes memory for a page at most.
  ///
  /// Errors: Errc::invalid_argument when `out` has not size_bytes(), when the message has been changed since the chunk
  ///         was made and has another size or other keys of a map now, and for a message of 2 GiB or more.
  void write(std::span<std::byte> out) const;
  /// Returns what `write` writes.
  [[nodiscard]] std::string to_string() const;

  /// Copies the message into `out`, which has its type and is empty. Where `out` is of another pool of descriptors, it
  /// goes through the binary form.
  ///
  /// Errors: Errc::type_mismatch for bytes, and for another type.
  void copy_to(google::protobuf::Message& out) const;

  /// Returns the message as one of its own.
  ///
  /// Errors: Errc::type_mismatch for bytes.
  [[nodiscard]] std::unique_ptr<google::protobuf::Message> to_message() const;

 private:
  Chunk() = default;

  std::shared_ptr<const void> owner_;  // Of `message_` or `bytes_`; null where they are borrowed.
  const google::protobuf::Message* message_ = nullptr;  // The whole of it is the chunk.
  std::shared_ptr<const Selection> selection_;          // A part of a message is.
  std::string_view bytes_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace cairn::proto
