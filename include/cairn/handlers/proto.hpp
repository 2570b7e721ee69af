// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <google/protobuf/message.h>

#include "cairn/contract/handler.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/contract/value_traits.hpp"

namespace cairn {

/// A protobuf message of any type, its own or somebody else's.
///
/// Invariant: refers to a message unless default-constructed or moved from.
class ProtoMessage {
 public:
  ProtoMessage() = default;

  explicit ProtoMessage(std::shared_ptr<google::protobuf::Message> message) : message_(std::move(message)) {}

  /// Ownership: `message` must stay valid as long as the result is used.
  [[nodiscard]] static ProtoMessage borrow(const google::protobuf::Message& message);

  [[nodiscard]] bool has_value() const noexcept { return message_ != nullptr; }

  [[nodiscard]] const google::protobuf::Message& get() const noexcept { return *message_; }

  /// Errors: Errc::type_mismatch when the message is of another C++ type.
  template <std::derived_from<google::protobuf::Message> M>
  [[nodiscard]] const M& as() const {
    if (const M* message = dynamic_cast<const M*>(message_.get())) {
      return *message;
    }
    throw_mismatch(M::descriptor()->full_name());
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

  /// The stored type, which this program may not know.
  [[nodiscard]] static AbstractProto named(std::string full_name);

  [[nodiscard]] const std::string& full_name() const noexcept { return full_name_; }

  /// An empty message of the type; null when only the name is known. It keeps alive what it needs.
  [[nodiscard]] std::shared_ptr<google::protobuf::Message> make() const;

 private:
  std::string full_name_;
  std::shared_ptr<google::protobuf::MessageFactory> factory_;  // Of dynamic types; goes after their messages.
  std::shared_ptr<const google::protobuf::Message> prototype_;
};

/// The type `M`, for a load that asks for it.
template <std::derived_from<google::protobuf::Message> M>
[[nodiscard]] AbstractProto abstract_message() {
  return AbstractProto(M::default_instance());
}

/// Saves protobuf messages: `message.binpb`, its full type name in `type.txt`, and, up to 1 MiB of binary,
/// the text form for people in `message.txtpb`.
///
/// Equal messages give equal bytes with one build of protobuf. A load without an abstract value finds the
/// recorded type among those that the program was compiled with.
class ProtoHandler final : public CheckpointableHandler<ProtoMessage, AbstractProto> {
 public:
  [[nodiscard]] std::string_view id() const noexcept override { return "cairn.proto/1"; }

  /// Errors: Errc::invalid_argument when required fields are missing, the message has 2 GiB or more, or messages lie
  ///         within each other more than 1000 levels deep (no load would read them).
  [[nodiscard]] Awaitable<Background<>> save(SaveContext context, const ProtoMessage& value) const override;

  /// Errors: Errc::type_mismatch when another type is recorded; Errc::not_found when no type is asked for
  ///         and the program has none of the recorded name; Errc::malformed_metadata when the bytes are not
  ///         such a message.
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

  static M restore(const ProtoMessage& message) { return message.as<M>(); }
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
