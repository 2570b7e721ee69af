// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/proto.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "wire.hpp"

namespace cairn {
namespace {

using google::protobuf::Message;

constexpr std::string_view kBinaryFile = "message.binpb";
constexpr std::string_view kTypeFile = "type.txt";
constexpr std::string_view kTextFile = "message.txtpb";
constexpr std::size_t kMostBytesAsText = 1 << 20;

/// The binary form; maps are sorted, so that equal messages have equal bytes.
std::string serialise(const Message& message, const std::string& name) {
  if (!message.IsInitialized()) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': required fields of {} are missing: {}", name, message.GetTypeName(),
                            message.InitializationErrorString()));
  }
  const std::size_t size = message.ByteSizeLong();
  if (size > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}': the message has {} bytes, protobuf allows less than 2 GiB", name, size));
  }
  std::string bytes;
  bytes.reserve(size);
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeWithCachedSizes(&coded);
  }
  return bytes;
}

std::string as_text(const Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  printer.PrintToString(message, &text);
  return fmt::format("# proto-message: {}\n{}", message.GetTypeName(), text);
}

Awaitable<std::string> read_type(LoadContext context) {
  std::string text = co_await context.read_file(kTypeFile);
  const std::string path = (context.path() / kTypeFile).string();
  co_return detail::parse_type_name(std::move(text), path);
}

/// The type to load: the one asked for, or the recorded one among those that the program was compiled with.
AbstractProto type_to_load(const std::string& recorded, const std::optional<AbstractProto>& wanted,
                           const std::string& name) {
  if (wanted && wanted->full_name() != recorded) {
    throw Error(Errc::type_mismatch, fmt::format("'{}': stored is a message of type {}, wanted {}", name,
                                                 recorded, wanted->full_name()));
  }
  if (wanted && wanted->make()) {
    return *wanted;
  }
  const auto* descriptor =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(recorded);
  const Message* prototype =
      descriptor ? google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor) : nullptr;
  if (!prototype) {
    throw Error(Errc::not_found,
                fmt::format("'{}': this program was compiled without the message type {}; ask for it "
                            "with an AbstractProto made of its descriptor",
                            name, recorded));
  }
  return AbstractProto(*prototype);
}

Awaitable<ProtoMessage> read(LoadContext context, std::optional<AbstractProto> wanted) {
  const std::string recorded = co_await read_type(context);
  const AbstractProto type = type_to_load(recorded, wanted, context.name());
  const auto bytes = context.file_bytes(kBinaryFile);
  const std::string path = (context.path() / kBinaryFile).string();
  if (bytes && *bytes > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: {} bytes are too many for a message", path, *bytes));
  }
  const std::string binary = co_await context.read_file(kBinaryFile);
  std::shared_ptr<Message> message = type.make();
  detail::parse_message(binary, *message, path);
  co_return ProtoMessage(std::move(message));
}

Awaitable<AbstractProto> read_metadata(LoadContext context) {
  std::string recorded = co_await read_type(std::move(context));
  co_return AbstractProto::named(std::move(recorded));
}

Background<> finish(std::vector<Background<>> writes) {
  co_await async::when_all(std::move(writes));
}

}  // namespace

ProtoMessage ProtoMessage::borrow(const Message& message) {
  ProtoMessage borrowed;
  borrowed.message_ = std::shared_ptr<const Message>(std::shared_ptr<void>(), &message);  // Owns nothing.
  return borrowed;
}

void ProtoMessage::throw_mismatch(const std::string& wanted) const {
  throw Error(Errc::type_mismatch, fmt::format("the message is of type {}, which is not the C++ class of {}",
                                               has_value() ? message_->GetTypeName() : "none", wanted));
}

AbstractProto::AbstractProto(const Message& prototype)
    : full_name_(prototype.GetTypeName()), prototype_(prototype.New()) {}

AbstractProto::AbstractProto(const google::protobuf::Descriptor& descriptor)
    : full_name_(descriptor.full_name()) {
  factory_ = std::make_shared<google::protobuf::DynamicMessageFactory>();
  prototype_.reset(factory_->GetPrototype(&descriptor)->New());
}

AbstractProto AbstractProto::named(std::string full_name) {
  AbstractProto type;
  type.full_name_ = std::move(full_name);
  return type;
}

std::shared_ptr<Message> AbstractProto::make() const {
  if (!prototype_) {
    return nullptr;
  }
  // A dynamic message uses its factory until it is gone.
  return {prototype_->New(), [factory = factory_](Message* message) { delete message; }};
}

// outlives: `value` is serialised before the first suspension.
Awaitable<Background<>> ProtoHandler::save(SaveContext context, const ProtoMessage& value) const {
  const Message& message = value.get();
  std::string bytes = serialise(message, context.name());
  detail::check_nesting(bytes, message, context.name());
  std::vector<Background<>> writes;
  writes.push_back(context.write_file(kTypeFile, message.GetTypeName() + '\n'));
  if (bytes.size() <= kMostBytesAsText) {
    writes.push_back(context.write_file(kTextFile, as_text(message)));
  }
  writes.push_back(context.write_file(kBinaryFile, std::move(bytes)));
  co_return finish(std::move(writes));
}

Awaitable<Background<ProtoMessage>> ProtoHandler::load(LoadContext context,
                                                       std::optional<AbstractProto> wanted) const {
  co_return read(std::move(context), std::move(wanted));
}

Awaitable<AbstractProto> ProtoHandler::metadata(LoadContext context) const {
  return read_metadata(std::move(context));
}

Description ProtoHandler::describe(const AbstractProto& stored) const {
  Description description;
  description.kind = "protobuf message " + stored.full_name();
  description.texts = {std::string(kTextFile)};
  return description;
}

const ProtoMessage* WatchedCopy<ProtoMessage>::make(const ProtoMessage& value,
                                                    const std::shared_ptr<WatchedMemory>& memory) {
  std::shared_ptr<Message> copied(value.get().New());
  copied->CopyFrom(value.get());
  return &memory->make<ProtoMessage>(std::move(copied));
}

RegistrySnapshot proto_handlers() {
  return HandlerRegistry().add<ProtoHandler>().snapshot();
}

}  // namespace cairn
