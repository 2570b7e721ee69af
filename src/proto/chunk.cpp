// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/chunk.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "cairn/base/error.hpp"

#include "proto/nesting.hpp"
#include "proto/selection.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Arena;
using google::protobuf::Message;

/// Writes a message, and returns whether it had as many bytes as there is room for.
bool write_message(const Message& message, std::span<std::byte> out) {
  if (message.ByteSizeLong() != out.size()) {
    return false;
  }
  google::protobuf::io::ArrayOutputStream stream(out.data(), static_cast<int>(out.size()));
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeWithCachedSizes(&coded);
  return !coded.HadError() && coded.ByteCount() == static_cast<int>(out.size());
}

}  // namespace

Chunk Chunk::borrow(const Message& message) {
  Chunk chunk;
  chunk.message_ = &message;
  chunk.size_bytes_ = message.ByteSizeLong();
  return chunk;
}

Chunk Chunk::borrow(std::string_view bytes) {
  Chunk chunk;
  chunk.bytes_ = bytes;
  chunk.size_bytes_ = bytes.size();
  return chunk;
}

Chunk::Chunk(std::shared_ptr<const Message> message) : Chunk(borrow(*message)) {
  owner_ = std::move(message);
}

Chunk::Chunk(std::string bytes) {
  auto kept = std::make_shared<const std::string>(std::move(bytes));
  *this = borrow(*kept);
  owner_ = std::move(kept);
}

Chunk::Chunk(std::shared_ptr<const Selection> selection)
    : selection_(std::move(selection)), size_bytes_(selection_->size_bytes) {}

const google::protobuf::Descriptor* Chunk::type() const noexcept {
  const Message* message = selection_ != nullptr ? selection_->message : message_;
  return message != nullptr ? message->GetDescriptor() : nullptr;
}

void Chunk::write(std::span<std::byte> out) const {
  if (out.size() != size_bytes_) {
    throw Error(Errc::invalid_argument,
                fmt::format("a chunk of {} bytes was given room for {}", size_bytes_, out.size()));
  }
  if (type() == nullptr) {
    std::copy_n(reinterpret_cast<const std::byte*>(bytes_.data()), bytes_.size(), out.data());
    return;
  }
  if (size_bytes_ > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    throw Error(Errc::invalid_argument,
                fmt::format("a {} of {} bytes is too large for protobuf, which allows less "
                            "than 2 GiB",
                            type()->full_name(), size_bytes_));
  }
  bool whole = false;
  if (message_ != nullptr) {
    whole = write_message(*message_, out);
  } else {
    Arena arena;
    Message* page = selection_->message->New(&arena);
    fill(*selection_, *page, true);
    whole = write_message(*page, out);
  }
  if (!whole) {
    throw Error(Errc::invalid_argument, fmt::format("a {} was changed while it was written: it had {} bytes",
                                                    type()->full_name(), size_bytes_));
  }
}

std::string Chunk::to_string() const {
  std::string bytes(size_bytes_, '\0');
  write(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

void Chunk::copy_to(Message& out) const {
  if (type() == nullptr || type()->full_name() != out.GetDescriptor()->full_name()) {
    throw Error(Errc::type_mismatch, fmt::format("the chunk is {}, not a {}",
                                                 type() == nullptr ? "bytes" : "a " + type()->full_name(),
                                                 out.GetDescriptor()->full_name()));
  }
  if (type() != out.GetDescriptor()) {
    if (!parse(to_string(), out, kMostNesting)) {
      throw Error(Errc::type_mismatch, fmt::format("two types are called {}, and one does not read the other",
                                                   type()->full_name()));
    }
  } else if (message_ != nullptr) {
    out.CopyFrom(*message_);
  } else {
    fill(*selection_, out, false);
  }
}

std::unique_ptr<Message> Chunk::to_message() const {
  if (type() == nullptr) {
    throw Error(Errc::type_mismatch, "the chunk is bytes, not a message");
  }
  std::unique_ptr<Message> message((selection_ != nullptr ? selection_->message : message_)->New());
  copy_to(*message);
  return message;
}

}  // namespace cairn::proto
