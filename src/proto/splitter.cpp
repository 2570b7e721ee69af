// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/splitter.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "proto/fields.hpp"
#include "proto/splitter_plan.hpp"

namespace cairn::proto {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Target ComposableSplitter::State::find(const Path& path) const {
  Target target{prefix, at, &message};
  resolve(path, target.walk, target.tags);
  find(target, prefix.size());
  return target;
}

void ComposableSplitter::State::find(Target& target, std::size_t begin) const {
  const Tags& tags = target.tags;
  for (std::size_t i = begin; i < tags.size(); ++i) {
    const Message& above = *target.message;
    const auto number = static_cast<int>(std::get<FieldNumber>(tags[i]).value);
    const FieldDescriptor& field = *find_field(*above.GetDescriptor(), number);
    const FieldDescriptor& type = field.is_map() ? *field.message_type()->map_value() : field;
    const Message* holder = &above;  // That has the field, or is the entry.
    Element element;
    if (field.is_repeated() && ++i == tags.size()) {
      return;  // The list as a whole.
    }
    if (field.is_map()) {
      const MapEntry* entry = plan->entries_of(above, field).find(tags[i]);
      if (entry == nullptr) {
        target.is_set = false;
        return;
      }
      holder = &message_of(above, field, entry->place);
    } else if (field.is_repeated()) {
      const std::uint64_t index = std::get<ElementIndex>(tags[i]).value;
      const int size = above.GetReflection()->FieldSize(above, &field);
      if (index >= static_cast<std::uint64_t>(size)) {
        plan->refuse(tags, fmt::format("there is no element {} among {} of '{}'", index, size, field.name()));
      }
      element = static_cast<int>(index);
    } else {
      target.is_set = target.is_set && above.GetReflection()->HasField(above, &field);
    }
    std::string scratch;
    if (type.message_type() != nullptr) {
      target.message = &message_of(*holder, type, element);
    } else if (type.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      target.text = &string_of(*holder, type, element, scratch);
      if (target.text == &scratch) {
        plan->refuse(tags, "the string does not lie in one piece");
      }
    } else {
      target.number = number_text(*holder, type, element);
    }
  }
}

/// Compares what has one chunk, and nothing of it another. Chunks themselves may refer to what is gone.
void ComposableSplitter::State::refuse_changed_part() const {
  plan->maps.clear();  // They are as they were when the message was split.
  std::vector<const Tags*> paths;
  for (const PlannedChunk& chunk : plan->planned) {
    paths.push_back(&chunk.path);
  }
  const auto comes_first = [](const Tags* one, const Tags* other) { return *one < *other; };
  std::sort(paths.begin(), paths.end(), comes_first);
  for (std::size_t i = 0; i < plan->planned.size(); ++i) {
    const PlannedChunk& chunk = plan->planned[i];
    const auto behind = std::upper_bound(paths.begin(), paths.end(), &chunk.path, comes_first);
    const bool is_whole = (behind == paths.end() || !begins_with(**behind, chunk.path)) &&
                          (behind == paths.begin() + 1 || **(behind - 2) != chunk.path);
    const bool is_given =
        chunk.message == nullptr && chunk.has_limit;  // Something else than what lies there.
    if (!is_whole || is_given || chunk.is_part() || chunk.path.empty()) {
      continue;
    }
    Target target{chunk.path, at, &plan->root};
    find(target, 0);
    const std::uint64_t had =
        plan->chunks[i + plan->chunks.size() - plan->planned.size()].size_bytes();  // Behind the base chunk.
    const std::uint64_t bytes = target.text != nullptr ? target.text->size() : target.message->ByteSizeLong();
    if (!target.is_set || (target.number.empty() && bytes != had)) {
      plan->refuse(chunk.path,
                   fmt::format("it was changed: it had {} bytes when the message was split", had));
    }
  }
}

void ComposableSplitter::State::check_unchanged() const {
  const std::uint64_t bytes = plan->is_finished ? plan->root.ByteSizeLong() : plan->root_bytes;
  if (bytes != plan->root_bytes) {
    refuse_changed_part();
    plan->refuse({}, fmt::format("it was changed: it had {} bytes when it was split, and has {} now",
                                 plan->root_bytes, bytes));
  }
}

ComposableSplitter::ComposableSplitter(const Message& message, SplitOptions options)
    : state_(new State{message,
                       std::make_shared<Plan>(message, options),
                       {},
                       Walk(message.GetDescriptor(), Errc::invalid_argument),
                       false}) {
  if (options.max_size == 0 ||
      options.max_size > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(Errc::invalid_argument,
                fmt::format("max_size is {}, and may be 1 to 2^31 - 1", options.max_size));
  }
}

ComposableSplitter::ComposableSplitter(const Message& message, ComposableSplitter& parent,
                                       const Path& path_in_parent) {
  Target target = parent.state_->find(path_in_parent);
  const Descriptor* type = target.walk.type();
  if (type == nullptr || type->full_name() != message.GetDescriptor()->full_name()) {
    parent.state_->plan->refuse(
        target.tags, fmt::format("there is no message of type {}", message.GetDescriptor()->full_name()));
  }
  state_.reset(new State{message, parent.state_->plan, std::move(target.tags), target.walk, true});
}

ComposableSplitter::~ComposableSplitter() = default;

const Message& ComposableSplitter::message() const noexcept {
  return state_->message;
}

const SplitOptions& ComposableSplitter::options() const noexcept {
  return state_->plan->options;
}

void ComposableSplitter::add_chunk(const Path& path, std::optional<std::size_t> position) {
  Plan& plan = *state_->plan;
  Target target = state_->find(path);
  if (target.walk.is_at_list()) {
    plan.refuse(target.tags, "add_range cuts out elements; one element has an index or a key");
  }
  if (!target.is_set) {
    plan.refuse(target.tags, "nothing is there");
  }
  if (target.tags.empty()) {
    return;  // What is left of the root is its base chunk anyway.
  }
  plan.cut(target.tags);
  PlannedChunk chunk;
  chunk.path = std::move(target.tags);
  chunk.message = target.message;
  if (target.text != nullptr) {
    chunk.chunk = Chunk::borrow(std::string_view(*target.text));
  } else if (target.walk.type() == nullptr) {
    chunk.chunk = Chunk(std::move(target.number));
  }
  plan.add(std::move(chunk), position);
}

void ComposableSplitter::add_chunk(Chunk chunk, const Path& path, std::optional<std::size_t> position) {
  Plan& plan = *state_->plan;
  Target target = state_->find(path);
  if (target.walk.is_at_list()) {
    plan.refuse(target.tags, "a chunk goes to one element, which has an index or a key");
  }
  const Descriptor* there = target.walk.type();
  const Descriptor* type = chunk.type();
  if ((type == nullptr) != (there == nullptr) ||
      (type != nullptr && type->full_name() != there->full_name())) {
    plan.refuse(target.tags, fmt::format("there is {}, and the chunk is {}",
                                         there == nullptr ? "no message" : "a " + there->full_name(),
                                         type == nullptr ? "bytes" : "a " + type->full_name()));
  }
  if (!target.tags.empty()) {
    plan.cut(target.tags);
  }
  PlannedChunk planned;
  planned.path = std::move(target.tags);
  planned.chunk = std::move(chunk);
  plan.add(std::move(planned), position);
}

void ComposableSplitter::add_range(const Path& field, std::size_t begin, std::size_t end) {
  Plan& plan = *state_->plan;
  Target target = state_->find(field);
  if (!target.walk.is_at_list()) {
    plan.refuse(target.tags, "it is not a repeated field or a map as a whole");
  }
  if (!target.is_set) {
    plan.refuse(target.tags, "there is no message that has it");
  }
  PlannedChunk range;
  range.field = target.walk.value();
  range.message = target.message;
  range.range = {begin, end};
  const std::size_t size = range.field->is_map()
                               ? plan.entries_of(*target.message, *range.field).sorted.size()
                               : static_cast<std::size_t>(target.message->GetReflection()->FieldSize(
                                     *target.message, range.field));
  if (begin > end || end > size) {
    plan.refuse(target.tags, fmt::format("there are no elements [{}, {}) among {}", begin, end, size));
  }
  target.tags.pop_back();
  range.path = std::move(target.tags);
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
  plan.check_building();
  plan.is_base_given = true;
  plan.base = std::move(chunk);
}

SplitResult ComposableSplitter::split() {
  Plan& plan = *state_->plan;
  if (state_->is_child) {
    throw Error(Errc::invalid_argument,
                "the chunks of a splitter with a parent are chunks of that: split the parent");
  }
  if (plan.is_building) {
    throw Error(Errc::invalid_argument, "the chunks are not known before build_chunks has returned");
  }
  if (!plan.is_finished) {
    if (!plan.root.IsInitialized()) {
      throw Error(Errc::invalid_argument,
                  fmt::format("required fields of {} are missing: {}", plan.root.GetTypeName(),
                              plan.root.InitializationErrorString()));
    }
    plan.begin_again();
    plan.root_bytes = plan.root.ByteSizeLong();
    plan.check_nesting(plan.root, plan.root_bytes, {});
    {
      const Plan::Building building(plan);
      build_chunks();
    }
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
