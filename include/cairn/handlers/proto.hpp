// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <google/protobuf/message.h>

#include "cairn/contract/handler.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/contract/value_traits.hpp"
#include "cairn/proto/chunked_message.hpp"
#include "cairn/proto/path.hpp"

namespace cairn {

/// A protobuf message of any type, its own or somebody else's. A temporary moves its message out: `as`, and `take`.
///
/// Invariant: refers to a message unless default-constructed or moved from.
class ProtoMessage {
 public:
  ProtoMessage() = default;

  explicit ProtoMessage(std::shared_ptr<google::protobuf::Message> message) : message_(std::move(message)) {}

  /// Ownership: `message` must stay valid as long as the result is used.
  [[nodiscard]] static ProtoMessage borrow(const google::protobuf::Message& message);

  [[nodiscard]] bool has_value() const noexcept { return message_ != nullptr; }

  [[nodiscard]] const google::protobuf::Message& get() const& noexcept { return *message_; }
  const google::protobuf::Message& get() const&& = delete;

  /// Errors: Errc::type_mismatch when the message is of another C++ type.
  template <std::derived_from<google::protobuf::Message> M>
  [[nodiscard]] const M& as() const& {
    if (const M* message = dynamic_cast<const M*>(message_.get())) {
      return *message;
    }
    throw_mismatch(M::descriptor()->full_name());
  }
  template <std::derived_from<google::protobuf::Message> M>
  [[nodiscard]] M as() && {
    return std::move(*this).template take<M>();
  }

  /// Moves the message out where nobody else holds it; else copies it.
  ///
  /// Errors: as `as`.
  template <std::derived_from<google::protobuf::Message> M>
  [[nodiscard]] M take() && {
    M taken;
    if (const M& held = as<M>(); message_.use_count() == 1) {
      taken.Swap(const_cast<M*>(&held));  // What is owned was given as a message that is not const.
    } else {
      taken = held;
    }
    return taken;
  }

 private:
  [[noreturn]] void throw_mismatch(const std::string& wanted) const;

  std::shared_ptr<const google::protobuf::Message> message_;
};

/// The type of a protobuf message, without a message.
class AbstractProto {
 public:
  AbstractProto() = default;

  /// A type that this program was compiled with.
  explicit AbstractProto(const google::protobuf::Message& prototype);

  /// A type known by its descriptor only; messages are then dynamic ones.
  ///
  /// Ownership: the descriptor's pool must stay valid as long as the result and what it loads are used.
  explicit AbstractProto(const google::protobuf::Descriptor& descriptor);

  /// A stored message, whose type this program may not know.
  [[nodiscard]] static AbstractProto named(std::string full_name, std::uint64_t size_bytes = 0,
                                           std::shared_ptr<const chunked::ChunkMetadata> chunks = nullptr);

  [[nodiscard]] const std::string& full_name() const noexcept { return full_name_; }

  /// An empty message of the type; null when only the name is known. It keeps alive what it needs.
  [[nodiscard]] std::shared_ptr<google::protobuf::Message> make() const;

  /// Asks only for what lies at a path of the message: `graph.node[5].attr["value"]`, as proto::parse_path reads it.
  /// The load gives a message of the type that lies there. Of a message that is stored in chunks it reads those that
  /// have something of the part. A part of a part is one of the whole.
  ///
  /// Errors: Errc::invalid_argument for a path that cannot be read, or that leads to no message where the type is
  ///         known. The load throws Errc::not_found when the stored message has nothing there.
  [[nodiscard]] AbstractProto part(std::string_view path) const;

  /// The path of the part that is asked for; empty: the whole message.
  [[nodiscard]] const proto::Path& part_path() const noexcept { return part_; }

  /// The bytes of the stored message, as metadata returns it; 0 else.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }

  /// Says where the chunks lie in their file, and what they are of, as metadata returns it; null for a message that is
  /// not stored in chunks. "cairn/proto/chunked.pb.h" defines it.
  [[nodiscard]] const chunked::ChunkMetadata* chunks() const noexcept { return chunks_.get(); }

 private:
  std::string full_name_;
  std::shared_ptr<google::protobuf::MessageFactory> factory_;  // Of dynamic types; goes after their messages.
  std::shared_ptr<const google::protobuf::Message> prototype_;
  proto::Path part_;
  std::uint64_t size_bytes_ = 0;
  std::shared_ptr<const chunked::ChunkMetadata> chunks_;
};

/// The type `M`, for a load that asks for it.
template <std::derived_from<google::protobuf::Message> M>
[[nodiscard]] AbstractProto abstract_message() {
  return AbstractProto(M::default_instance());
}

/// How messages are stored, for saves: `save_options.handler_options.set(options)`.
struct ProtoOptions {
  ProtoOptions() = default;

  /// Messages of at least so many bytes are stored in chunks (`cairn.proto/2`), whatever protobuf's limit; smaller ones
  /// in one file in wire format (`cairn.proto/1`), which all versions read. At most 2^31 - 1.
  std::uint64_t chunked_from_bytes = std::uint64_t{64} << 20;
};

/// Saves protobuf messages of any size.
///
/// Small ones are stored as `message.binpb`, with the full name of the type in `type.txt` and, up to 1 MiB of binary,
/// the text form for people in `message.txtpb`. Large ones are cut into chunks, which are written from the memory of
/// the message, and parsed on their way from the disk, by all threads: the message is never in memory twice.
/// docs/format.md has the files.
/// Equal messages give equal bytes with one build of protobuf. A load without an abstract value finds the
/// recorded type among those that the program was compiled with.
class ProtoHandler final : public CheckpointableHandler<ProtoMessage, AbstractProto> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "cairn.proto/1"; }
  [[nodiscard]] std::span<const std::string_view> other_ids() const noexcept override;

  /// Errors: Errc::invalid_argument when required fields are missing, when messages lie within each other more than
  ///         1000 levels deep (no load would read them), and when the message is changed before it has been read.
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const ProtoMessage& value) const override;

  /// Errors: Errc::type_mismatch when another type is recorded; Errc::not_found when no type is asked for
  ///         and the program has none of the recorded name, and for a part that is not there;
  ///         Errc::malformed_metadata when the bytes are not such a message.
  [[nodiscard]] Awaitable<Background<ProtoMessage>> load(LoadContext context,
                                                         std::optional<AbstractProto> wanted) const override;

  [[nodiscard]] Awaitable<AbstractProto> metadata(LoadContext context) const override;
  [[nodiscard]] Description describe(const AbstractProto& stored) const override;

  [[nodiscard]] bool is_handleable(const ProtoMessage& value) const override { return value.has_value(); }
};

template <std::derived_from<google::protobuf::Message> M>
struct HandledAs<M> {
  using type = ProtoMessage;

  static ProtoMessage convert(const M& message) { return ProtoMessage::borrow(message); }

  static M restore(ProtoMessage message) { return std::move(message).take<M>(); }
};

/// Copies the message, too.
template <>
struct WatchedCopy<ProtoMessage> {
  static const ProtoMessage* make(const ProtoMessage& value, const std::shared_ptr<WatchedMemory>& memory);
};

template <>
struct WritesToCaller<AbstractProto> {
  static bool check(const AbstractProto& /*wanted*/) { return false; }
};

/// A registry layer with ProtoHandler, for programs that use protobuf.
[[nodiscard]] RegistrySnapshot proto_handlers();

}  // namespace cairn
