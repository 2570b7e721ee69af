// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/merger.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/chunked.pb.h"

#include "base/internal/checked.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/parallel_for.hpp"
#include "proto/fields.hpp"
#include "proto/merge_plan.hpp"
#include "proto/most_bytes.hpp"
#include "proto/nesting.hpp"
#include "proto/parallel.hpp"
#include "proto/place.hpp"
#include "proto/splice.hpp"
#include "proto/tags.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int kVersion = 0;  // Of this merger, as TensorFlow counts them.

}  // namespace

/// Makes each chunk ready by itself, and then moves all together. The numbers of a list that has many pages are moved
/// meanwhile: they are copied, and all pages would take as much memory as the list.
class Merging {
 public:
  Merging(MergePlan plan, Message& out, const MergeOptions& options)
      : plan_(std::move(plan)), out_(out), options_(options), ready_(plan_.steps.size()) {
    out.Clear();
    for (std::size_t begin = 0, end = 0; begin < ready_.size(); begin = end) {
      Pages pages;
      for (; end < ready_.size() && plan_.steps[end].place == plan_.steps[begin].place; ++end) {
        pages.bytes_left += plan_.steps[end].bytes;
      }
      if (end - begin > 1 && plan_.steps[begin].type != nullptr) {
        pages.next = begin;
        pages.end = end;
        pages_.emplace(begin, pages);
      }
    }
  }

  [[nodiscard]] std::span<const MergeStep> steps() const noexcept { return plan_.steps; }

  void take(std::size_t i, const Chunk& chunk) {
    const Descriptor* type = chunk.type();
    if (type == nullptr) {
      return take(i, false, chunk.bytes());
    }
    const MergeStep& step = plan_.steps[i];
    if (step.type == nullptr || step.type->full_name() != type->full_name()) {
      refuse_kind(step, "a " + type->full_name());
    }
    chunk.copy_to(make_message(i));
    collect(i);
  }

  /// Takes the bytes of a chunk, which is a message or only bytes.
  void take(std::size_t i, bool is_message, std::string_view bytes) {
    const MergeStep& step = plan_.steps[i];
    if (step.type == nullptr) {
      return take(i, is_message, std::string(bytes));
    }
    if (!is_message && !step.has_no_tags) {
      refuse_kind(step, "bytes");
    }
    if (!parse(bytes, make_message(i), kMostNesting - levels(step))) {
      throw Error(Errc::malformed_metadata,
                  fmt::format("{}: the bytes are not a {}", name(step), step.type->full_name()));
    }
    collect(i);
  }

  void take(std::size_t i, bool is_message, std::string bytes) {
    const MergeStep& step = plan_.steps[i];
    if (step.type != nullptr) {
      return take(i, is_message, std::string_view(bytes));
    }
    if (is_message) {
      refuse_kind(step, "a message");
    }
    ready_[i].bytes = std::move(bytes);
  }

  Merged finish() {
    Merged merged;
    merged.unused_chunks = std::move(plan_.unused_chunks);
    PlaceMaker places(out_, plan_, options_.most_empty_elements);
    std::vector<bool> is_set(plan_.paths.size());  // Scalars, by their places.
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      const MergeStep& step = plan_.steps[i];
      if (step.type != nullptr && ready_[i].message == nullptr) {
        continue;  // The page before has it.
      }
      MergePlace& place = places.make(step);
      if (step.type != nullptr) {
        splice(*ready_[i].message, *place.message, [&] { return name(step); });
        ready_[i].own.reset();
      } else {
        const auto name_step = [&] { return name(step); };
        set_scalar(place, *step.value, std::move(ready_[i].bytes), is_set[step.place], name_step,
                   merged.remarks);
        is_set[step.place] = true;
      }
    }
    places.finish();
    return merged;
  }

 private:
  /// The contents of a chunk, as they can be moved into the result.
  struct Ready {
    std::unique_ptr<Message> own;  // Of `message`; null where that lies in the arena of the result.
    Message* message = nullptr;
    std::string bytes;
    bool is_taken = false;
  };

  /// The steps of one message that has several chunks.
  struct Pages {
    std::size_t next = 0;  // The first one that was not looked at.
    std::size_t end = 0;
    std::uint64_t bytes_left = 0;  // Of the chunks from `next` on.
    Message* last = nullptr;       // That numbers are moved into.
  };

  /// Moves a page that is nothing but numbers of one list into the one before it, once all before it are there.
  void collect(std::size_t i) {
    const auto behind = pages_.upper_bound(i);
    if (behind == pages_.begin() || i >= std::prev(behind)->second.end) {
      return;
    }
    Pages& pages = std::prev(behind)->second;
    const MutexLock lock(mutex_);
    ready_[i].is_taken = true;
    for (; pages.next < pages.end && ready_[pages.next].is_taken; ++pages.next) {
      Ready& page = ready_[pages.next];
      const MergeStep& step = plan_.steps[pages.next];
      const FieldDescriptor* list = only_number_list(*page.message);
      if (list == nullptr || pages.last == nullptr) {
        pages.last = page.message;
      } else {
        append(*page.message, *pages.last, *list, step, pages.bytes_left);
        page.message = nullptr;
        page.own.reset();
      }
      pages.bytes_left -= step.bytes;
    }
  }

  /// `bytes` are those of this page and of all that follow: the list has room for as many numbers as fit into them, so
  /// that it does not move while it grows. Memory that no number comes to is reserved only.
  void append(const Message& from, Message& to, const FieldDescriptor& list, const MergeStep& step,
              std::uint64_t bytes) const {
    constexpr double kMost = std::numeric_limits<int>::max();
    const int count = from.GetReflection()->FieldSize(from, &list);
    const int needed =
        joined_size(to.GetReflection()->FieldSize(to, &list), count, list, [&] { return name(step); });
    const double pages =
        static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(step.bytes, 1));
    const double expected = static_cast<double>(needed) + count * pages;  // With a page to spare.
    reserve_numbers(to, list, needed, static_cast<int>(std::min(expected, kMost)));
    copy_numbers(from, list, 0, static_cast<std::size_t>(count), to);
  }

  [[nodiscard]] std::string name(const MergeStep& step) const {
    return fmt::format("chunk {} at {}", step.chunk, to_text(out_.GetDescriptor(), path_of(plan_, step)));
  }

  [[nodiscard]] int levels(const MergeStep& step) const {
    return plan_.paths.levels(step.place) - plan_.paths.levels(plan_.root);
  }

  [[noreturn]] void refuse_kind(const MergeStep& step, const std::string& what) const {
    throw Error(step.type != nullptr && what != "bytes" ? Errc::type_mismatch : Errc::malformed_metadata,
                fmt::format("{}: it is {}, and a {} belongs there", name(step), what,
                            step.type != nullptr ? step.type->full_name()
                                                 : fmt::format("value of type {}", step.value->type_name())));
  }

  /// Makes an empty message where the result lives: in its arena, or on the heap.
  Message& make_message(std::size_t i) {
    const Message* prototype = out_.GetReflection()->GetMessageFactory()->GetPrototype(plan_.steps[i].type);
    ready_[i].message = prototype->New(out_.GetArena());
    ready_[i].own.reset(out_.GetArena() == nullptr ? ready_[i].message : nullptr);
    return *ready_[i].message;
  }

  MergePlan plan_;
  Message& out_;
  const MergeOptions options_;
  std::vector<Ready> ready_;
  std::map<std::size_t, Pages> pages_;  // By their first steps.
  Mutex mutex_;                         // Of what `pages_` hold, and of what `ready_` has of them.
};

namespace {

void require_fields(const Message& out, const MergeOptions& options) {
  if (!options.allow_partial && !out.IsInitialized()) {
    throw Error(Errc::malformed_metadata, fmt::format("required fields of {} are missing: {}",
                                                      out.GetTypeName(), out.InitializationErrorString()));
  }
}

/// Adds up the bytes of chunks.
class ByteSum {
 public:
  explicit ByteSum(std::uint64_t most) : most_(most) {}

  void add(std::uint64_t bytes) {
    const auto sum = checked_add(bytes_, bytes);
    if (!sum || *sum > most_) {
      throw Error(
          Errc::malformed_metadata,
          fmt::format("the chunks have more than {} bytes, which MergeOptions::most_bytes allows", most_));
    }
    bytes_ = *sum;
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  const std::uint64_t most_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Merged merge(std::span<const Chunk> chunks, const chunked::ChunkedMessage& chunked_message, Message& out,
             const MergeOptions& options) {
  ByteSum sum(most_bytes_of(options));
  for (const Chunk& chunk : chunks) {
    sum.add(chunk.size_bytes());
  }
  MergePlan plan = plan_merge(chunked_message, out.GetDescriptor(), chunks.size());
  for (MergeStep& step : plan.steps) {
    step.bytes = chunks[static_cast<std::size_t>(step.chunk)].size_bytes();
  }
  Merging merging(std::move(plan), out, options);
  parallel_for(merging.steps().size(), threads_for(sum.bytes(), options.threads), [&](std::size_t i) {
    merging.take(i, chunks[static_cast<std::size_t>(merging.steps()[i].chunk)]);
  });
  Merged merged = merging.finish();
  require_fields(out, options);
  return merged;
}

struct Merger::State {
  /// A chunk that is merged.
  struct Wanted {
    std::size_t step = 0;
    std::uint64_t bytes = 0;
    bool is_message = false;
    bool is_there = false;
  };

  State(Message& result, const MergeOptions& merge_options) : out(result), options(merge_options) {}

  Wanted& take(std::uint64_t chunk, std::size_t bytes) {
    const auto found = chunks.find(chunk);
    if (found == chunks.end() || found->second.is_there) {
      throw Error(Errc::invalid_argument, fmt::format("chunk {} is not wanted, or is there already", chunk));
    }
    if (bytes != found->second.bytes) {
      throw Error(Errc::malformed_metadata, fmt::format("chunk {} has {} bytes, and should have {}", chunk,
                                                        bytes, found->second.bytes));
    }
    found->second.is_there = true;
    return found->second;
  }

  Message& out;
  const MergeOptions options;
  std::unique_ptr<Message> own;  // Of what the part lies in; null where that is `out`, or lies in its arena.
  Message* above = nullptr;
  Tags rest;  // From there to the part.
  std::optional<Merging> merging;
  std::unordered_map<std::uint64_t, Wanted> chunks;
  std::vector<std::uint64_t> wanted;
};

Merger::Merger(const chunked::ChunkMetadata& stored, Message& out, const MergeOptions& options)
    : Merger(stored, *out.GetDescriptor(), {}, out, options) {}

// outlives: the caller keeps `out`.
Merger::Merger(const chunked::ChunkMetadata& stored, const Descriptor& whole, const Path& part, Message& out,
               const MergeOptions& options)
    : state_(std::make_unique<State>(out, options)) {
  const auto& bad = stored.version().bad_consumers();
  if (stored.version().join_version() > kVersion || std::count(bad.begin(), bad.end(), kVersion) > 0) {
    throw Error(
        Errc::unsupported_version,
        fmt::format("the chunks are for mergers from version {} on, or not for version {}, which this is",
                    stored.version().join_version(), kVersion));
  }
  if (const Descriptor& type = part_type(whole, part); &type != out.GetDescriptor()) {
    throw Error(Errc::type_mismatch,
                fmt::format("the part is a {}, not this {}", type.full_name(), out.GetTypeName()));
  }
  Walk walk(&whole, Errc::invalid_argument);
  Tags tags;
  resolve(part, walk, tags);
  MergePlan plan = plan_merge(stored.message(), &whole, static_cast<std::size_t>(stored.chunks_size()), tags);
  if (options.parts_are_whole) {
    begin_at_last_chunk(plan, tags.size());
  }
  const std::size_t base = plan.paths.depth(plan.root);
  state_->rest.assign(tags.begin() + static_cast<std::ptrdiff_t>(base), tags.end());
  state_->above = &out;
  if (!state_->rest.empty()) {
    Walk to_base(&whole, Errc::invalid_argument);
    Tags walked;
    for (std::size_t i = 0; i < base; ++i) {
      walked.push_back(tags[i]);
      to_base.step(walked);
    }
    const Message* prototype = out.GetReflection()->GetMessageFactory()->GetPrototype(to_base.type());
    state_->above = prototype->New(out.GetArena());
    state_->own.reset(out.GetArena() == nullptr ? state_->above : nullptr);
  }
  ByteSum sum(most_bytes_of(options));
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const std::uint64_t chunk = plan.steps[i].chunk;
    const chunked::ChunkInfo& info = stored.chunks(static_cast<int>(chunk));
    if (info.type() != chunked::ChunkInfo::MESSAGE && info.type() != chunked::ChunkInfo::BYTES) {
      throw Error(Errc::malformed_metadata, fmt::format("chunk {} is neither a message nor bytes", chunk));
    }
    sum.add(info.size());
    plan.steps[i].bytes = info.size();
    state_->chunks[chunk] = {i, info.size(), info.type() == chunked::ChunkInfo::MESSAGE, false};
    state_->wanted.push_back(chunk);
  }
  state_->merging.emplace(std::move(plan), *state_->above, options);
}

Merger::~Merger() = default;

std::span<const std::uint64_t> Merger::wanted() const noexcept {
  return state_->wanted;
}

void Merger::add(std::uint64_t chunk, std::span<const std::byte> bytes) {
  const State::Wanted& wanted = state_->take(chunk, bytes.size());
  state_->merging->take(wanted.step, wanted.is_message,
                        std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void Merger::add(std::uint64_t chunk, std::string bytes) {
  const State::Wanted& wanted = state_->take(chunk, bytes.size());
  state_->merging->take(wanted.step, wanted.is_message, std::move(bytes));
}

Merged Merger::finish() {
  State& state = *state_;
  const auto missing = std::find_if(state.chunks.begin(), state.chunks.end(),
                                    [](const auto& chunk) { return !chunk.second.is_there; });
  if (missing != state.chunks.end()) {
    throw Error(Errc::invalid_argument, fmt::format("chunk {} was not added", missing->first));
  }
  Merged merged = state.merging->finish();
  if (state.above != &state.out) {
    Message* found = find_message(*state.above, state.rest);
    if (found == nullptr) {
      throw Error(Errc::not_found, fmt::format("the {} has nothing at {}", state.above->GetTypeName(),
                                               to_text(state.above->GetDescriptor(), state.rest)));
    }
    state.out.Clear();
    state.out.GetReflection()->Swap(&state.out, found);
  }
  require_fields(state.out, state.options);
  return merged;
}

const Descriptor& part_type(const Descriptor& whole, const Path& part) {
  Walk walk(&whole, Errc::invalid_argument);
  Tags tags;
  resolve(part, walk, tags);
  if (walk.type() == nullptr) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' leads to no message, but to a list or a value", to_text(part)));
  }
  return *walk.type();
}

}  // namespace cairn::proto
