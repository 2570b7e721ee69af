// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/splitter.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "proto/fields.hpp"
#include "proto/splitter_plan.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MapValueConstRef;
using google::protobuf::Message;

/// What lies at a path in a message.
struct Located {
  const Message* message = nullptr;  // There; of a scalar or a list the message that has it.
  const std::string* text = nullptr;
  bool is_set = true;
};

/// Looks for what lies at `tags`, which fit the type of `root`.
///
/// Errors: Errc::invalid_argument for an index that is out of range.
Located locate(const Message& root, std::span<const Tag> tags, const std::string& name) {
  Located at{&root, nullptr, true};
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const Message& message = *at.message;
    const auto number = static_cast<int>(std::get<FieldNumber>(tags[i]).value);
    const FieldDescriptor& field = *find_field(*message.GetDescriptor(), number);
    const FieldDescriptor* value = field.is_map() ? field.message_type()->map_value() : &field;
    std::string scratch;
    if (!field.is_repeated()) {
      at.is_set = at.is_set && message.GetReflection()->HasField(message, &field);
    }
    if (field.is_repeated() && ++i == tags.size()) {
      return at;
    }
    if (field.is_map()) {
      MapValueConstRef entry;
      if (!find_entry(message, field, to_map_key(tags[i]), entry)) {
        at.is_set = false;
        return at;
      }
      if (value->message_type() != nullptr) {
        at.message = &entry.GetMessageValue();
      } else if (value->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        at.text = &entry.GetStringValue();
      }
      continue;
    }
    Element element;
    if (field.is_repeated()) {
      const std::uint64_t index = std::get<ElementIndex>(tags[i]).value;
      const int size = message.GetReflection()->FieldSize(message, &field);
      if (index >= static_cast<std::uint64_t>(size)) {
        throw Error(Errc::invalid_argument, fmt::format("'{}': there is no element {} among {} of '{}'", name,
                                                        index, size, field.name()));
      }
      element = static_cast<int>(index);
    }
    if (value->message_type() != nullptr) {
      at.message = &message_of(message, field, element);
    } else if (value->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      at.text = &string_of(message, field, element, scratch);
      if (at.text == &scratch) {
        throw Error(Errc::invalid_argument, fmt::format("'{}': the string does not lie in one piece", name));
      }
    }
  }
  return at;
}

[[noreturn]] void refuse_cut(const std::string& name, std::string_view why) {
  throw Error(Errc::invalid_argument, fmt::format("'{}': {}", name, why));
}

}  // namespace

ComposableSplitter::ComposableSplitter(const Message& message, SplitOptions options)
    : state_(new State{message,
                       std::make_shared<Plan>(message, options),
                       {},
                       Walk(*message.GetDescriptor(), Errc::invalid_argument),
                       false}) {
  if (options.max_size == 0 ||
      options.max_size > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(Errc::invalid_argument,
                fmt::format("max_size is {}, and may be 1 to 2^31 - 1", options.max_size));
  }
}

ComposableSplitter::ComposableSplitter(const Message& message, ComposableSplitter& parent,
                                       const Path& path_in_parent) {
  Tags tags = parent.state_->prefix;
  Walk walk = parent.state_->at;
  resolve(path_in_parent, walk, tags);
  const std::string name = parent.state_->plan->text(tags);
  if (walk.type() == nullptr || walk.type()->full_name() != message.GetDescriptor()->full_name()) {
    refuse_cut(name, fmt::format("there is no message of type {}", message.GetDescriptor()->full_name()));
  }
  (void)locate(parent.state_->message, std::span(tags).subspan(parent.state_->prefix.size()), name);
  state_.reset(new State{message, parent.state_->plan, std::move(tags), walk, true});
}

ComposableSplitter::~ComposableSplitter() = default;

const Message& ComposableSplitter::message() const noexcept {
  return state_->message;
}

const SplitOptions& ComposableSplitter::options() const noexcept {
  return state_->plan->options;
}

void ComposableSplitter::add_chunk(const Path& path) {
  Plan& plan = *state_->plan;
  Tags tags = state_->prefix;
  Walk walk = state_->at;
  resolve(path, walk, tags);
  const std::string name = plan.text(tags);
  const Located found = locate(state_->message, std::span(tags).subspan(state_->prefix.size()), name);
  if (walk.is_at_list()) {
    refuse_cut(name, "add_range cuts out elements; one element has an index or a key");
  }
  if (!found.is_set) {
    refuse_cut(name, "nothing is there");
  }
  if (walk.type() == nullptr && found.text == nullptr) {
    refuse_cut(name, "only messages and strings are cut out as they are");
  }
  if (tags.empty()) {
    return;  // What is left of the root is its base chunk anyway.
  }
  plan.cut(tags);
  PlannedChunk chunk;
  chunk.path = std::move(tags);
  if (found.text != nullptr) {
    chunk.chunk = Chunk::borrow(std::string_view(*found.text));
  } else {
    chunk.message = found.message;
  }
  plan.add(std::move(chunk), std::nullopt);
}

void ComposableSplitter::add_chunk(Chunk chunk, const Path& path, std::optional<std::size_t> position) {
  Plan& plan = *state_->plan;
  Tags tags = state_->prefix;
  Walk walk = state_->at;
  resolve(path, walk, tags);
  const std::string name = plan.text(tags);
  (void)locate(state_->message, std::span(tags).subspan(state_->prefix.size()), name);
  if (walk.is_at_list()) {
    refuse_cut(name, "a chunk goes to one element, which has an index or a key");
  }
  const Descriptor* type = chunk.type();
  if ((type == nullptr) != (walk.type() == nullptr) ||
      (type != nullptr && type->full_name() != walk.type()->full_name())) {
    refuse_cut(name, fmt::format("there is {}, and the chunk is {}",
                                 walk.type() == nullptr ? "no message" : "a " + walk.type()->full_name(),
                                 type == nullptr ? "bytes" : "a " + type->full_name()));
  }
  if (position && *position > plan.planned.size()) {
    refuse_cut(name, fmt::format("there is no position {} among {} chunks", *position, plan.planned.size()));
  }
  if (!tags.empty()) {
    plan.cut(tags);
  }
  PlannedChunk planned;
  planned.path = std::move(tags);
  planned.chunk = std::move(chunk);
  plan.add(std::move(planned), position);
}

void ComposableSplitter::add_range(const Path& field, std::size_t begin, std::size_t end) {
  Plan& plan = *state_->plan;
  Tags tags = state_->prefix;
  Walk walk = state_->at;
  resolve(field, walk, tags);
  const std::string name = plan.text(tags);
  if (!walk.is_at_list()) {
    refuse_cut(name, "it is not a repeated field or a map as a whole");
  }
  const Message& message =
      *locate(state_->message, std::span(tags).subspan(state_->prefix.size()), name).message;
  const auto size = static_cast<std::size_t>(message.GetReflection()->FieldSize(message, walk.value()));
  if (begin > end || end > size) {
    refuse_cut(name, fmt::format("there are no elements [{}, {}) among {}", begin, end, size));
  }
  for (std::size_t length = 1; length < tags.size(); ++length) {
    const Tags above(tags.begin(), tags.begin() + static_cast<std::ptrdiff_t>(length));
    if (plan.is_cut(above)) {
      refuse_cut(name, fmt::format("it lies in '{}', which was cut out before", plan.text(above)));
    }
  }
  PlannedChunk range;
  range.field = walk.value();
  range.message = &message;
  range.begin = begin;
  range.end = end;
  tags.pop_back();
  range.path = std::move(tags);
  plan.add_range(std::move(range));
}

void ComposableSplitter::set_base(std::optional<Chunk> chunk) {
  Plan& plan = *state_->plan;
  if (state_->is_child) {
    throw Error(Errc::invalid_argument, "only the splitter of the whole message has a base chunk");
  }
  if (chunk &&
      (chunk->type() == nullptr || chunk->type()->full_name() != plan.root.GetDescriptor()->full_name())) {
    throw Error(Errc::invalid_argument,
                fmt::format("the base chunk is not a {}", plan.root.GetDescriptor()->full_name()));
  }
  plan.is_base_given = true;
  plan.base = std::move(chunk);
}

SplitResult ComposableSplitter::split() {
  Plan& plan = *state_->plan;
  if (state_->is_child) {
    throw Error(Errc::invalid_argument,
                "the chunks of a splitter with a parent are chunks of that: split the parent");
  }
  if (!plan.is_finished) {
    if (!plan.root.IsInitialized()) {
      throw Error(Errc::invalid_argument,
                  fmt::format("required fields of {} are missing: {}", plan.root.GetTypeName(),
                              plan.root.InitializationErrorString()));
    }
    plan.begin_again();
    build_chunks();
    plan.finish();
    plan.is_finished = true;
  }
  return {plan.chunks, plan.tree};
}

std::span<const Chunk> ComposableSplitter::chunks() {
  return split().chunks;
}

const chunked::ChunkedMessage& ComposableSplitter::chunked_message() {
  return split().chunked_message;
}

}  // namespace cairn::proto
