// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/merger.hpp"

#include <system_error>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/chunked.pb.h"

#include "base/internal/checked.hpp"
#include "base/internal/thread.hpp"
#include "proto/merge_plan.hpp"
#include "proto/nesting.hpp"
#include "proto/place.hpp"
#include "proto/splice.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;

constexpr std::uint64_t kMostBytesOfOneThread = std::uint64_t{1} << 20;

/// What a chunk holds, as it can be moved into the result.
struct ReadyChunk {
  std::unique_ptr<Message> own;  // Of `message`; null where that lies in the arena of the result.
  Message* message = nullptr;
  std::string bytes;
};

std::string name_of(const MergeStep& step, const Descriptor& root) {
  return fmt::format("chunk {} at {}", step.chunk, to_text(root, step.path));
}

/// Checks that a chunk is of the kind that its place wants.
void check_kind(const Chunk& chunk, const MergeStep& step, const Descriptor& root) {
  const Descriptor* type = chunk.type();
  const bool are_messages = type != nullptr && step.type != nullptr;
  if (are_messages ? type->full_name() == step.type->full_name()
                   : type == nullptr && (step.type == nullptr || step.has_no_tags)) {
    return;
  }
  throw Error(are_messages ? Errc::type_mismatch : Errc::malformed_metadata,
              fmt::format("{}: it is {}, and a {} belongs there", name_of(step, root),
                          type == nullptr ? "bytes" : "a " + type->full_name(),
                          step.type != nullptr ? step.type->full_name()
                                               : fmt::format("value of type {}", step.value->type_name())));
}

/// Makes what one step merges, where the result lives: in its arena, or on the heap.
ReadyChunk make_ready(const Chunk& chunk, const MergeStep& step, const Message& out) {
  const Descriptor& root = *out.GetDescriptor();
  check_kind(chunk, step, root);
  ReadyChunk ready;
  if (step.type == nullptr) {
    ready.bytes = chunk.bytes();
    return ready;
  }
  const Message* prototype = out.GetReflection()->GetMessageFactory()->GetPrototype(step.type);
  ready.message = prototype->New(out.GetArena());
  if (out.GetArena() == nullptr) {
    ready.own.reset(ready.message);
  }
  if (chunk.type() != nullptr) {
    chunk.copy_to(*ready.message);
  } else if (!parse(chunk.bytes(), *ready.message, kMostNesting - levels(step.path))) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: the bytes are not a {}", name_of(step, root), step.type->full_name()));
  }
  return ready;
}

/// Calls `body` with 0 … count - 1, on the calling thread and on others, `threads` in all. After all calls have ended
/// it throws the failure of the lowest number.
void in_parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> has_failed = false;
  std::vector<std::exception_ptr> failures(count);
  const auto work = [&] {
    for (std::size_t i = next++; i < count && !has_failed; i = next++) {
      try {
        body(i);
      } catch (...) {
        failures[i] = std::current_exception();
        has_failed = true;
      }
    }
  };
  std::vector<std::thread> others;
  const std::size_t wanted = std::min<std::size_t>(std::max(1U, threads), std::max<std::size_t>(count, 1));
  others.reserve(wanted);
  try {
    while (others.size() + 1 < wanted) {
      others.push_back(start_thread("cairn-proto", work));
    }
  } catch (const std::system_error&) {
    // A thread less: those that are there do all of it.
  }
  work();
  for (std::thread& other : others) {
    other.join();
  }
  const auto failure =
      std::find_if(failures.begin(), failures.end(), [](const auto& one) { return one != nullptr; });
  if (failure != failures.end()) {
    std::rethrow_exception(*failure);
  }
}

unsigned threads_for(std::uint64_t bytes, unsigned wanted) {
  if (wanted != 0) {
    return wanted;
  }
  return bytes < kMostBytesOfOneThread ? 1 : std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

Merged merge(std::span<const Chunk> chunks, const chunked::ChunkedMessage& chunked_message, Message& out,
             const MergeOptions& options) {
  const Descriptor& root = *out.GetDescriptor();
  MergePlan plan = plan_merge(chunked_message, root, chunks.size());
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : chunks) {
    const auto sum = checked_add(bytes, chunk.size_bytes());
    if (!sum || *sum > options.most_bytes) {
      throw Error(Errc::malformed_metadata,
                  fmt::format("the chunks have more than {} bytes", options.most_bytes));
    }
    bytes = *sum;
  }
  out.Clear();
  std::vector<ReadyChunk> ready(plan.steps.size());
  in_parallel(ready.size(), threads_for(bytes, options.threads), [&](std::size_t i) {
    const MergeStep& step = plan.steps[i];
    ready[i] = make_ready(chunks[static_cast<std::size_t>(step.chunk)], step, out);
  });

  Merged merged;
  merged.unused_chunks = std::move(plan.unused_chunks);
  std::uint64_t empty_elements = options.most_empty_elements;
  std::set<Tags> scalars;  // Those that are set already.
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const MergeStep& step = plan.steps[i];
    MergePlace place = make_place(out, step, empty_elements);
    if (step.type != nullptr) {
      splice(*ready[i].message, *place.message);
      ready[i].own.reset();
    } else {
      const bool is_first = scalars.insert(step.path).second;
      set_scalar(place, *step.value, std::move(ready[i].bytes), !is_first, name_of(step, root),
                 merged.remarks);
    }
  }
  if (!options.allow_partial && !out.IsInitialized()) {
    throw Error(Errc::malformed_metadata, fmt::format("required fields of {} are missing: {}",
                                                      root.full_name(), out.InitializationErrorString()));
  }
  return merged;
}

}  // namespace cairn::proto
