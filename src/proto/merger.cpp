// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/merger.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/chunked.pb.h"

#include "base/internal/checked.hpp"
#include "proto/merge_plan.hpp"
#include "proto/parallel.hpp"
#include "proto/place.hpp"
#include "proto/splice.hpp"
#include "proto/wire.hpp"

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
  if (step.type == nullptr && chunk.type() != nullptr) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: it is a {}, and a value of type {} belongs there", name_of(step, root),
                            chunk.type()->full_name(), step.value->type_name()));
  }
  if (step.type != nullptr && chunk.type() == nullptr && !step.has_no_tags) {
    throw Error(Errc::malformed_metadata, fmt::format("{}: it is bytes, and a {} belongs there",
                                                      name_of(step, root), step.type->full_name()));
  }
  if (step.type != nullptr && chunk.type() != nullptr &&
      chunk.type()->full_name() != step.type->full_name()) {
    throw Error(Errc::type_mismatch,
                fmt::format("{}: it is a {}, and a {} belongs there", name_of(step, root),
                            chunk.type()->full_name(), step.type->full_name()));
  }
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
  } else if (!parse(chunk.bytes(), *ready.message, kMostNesting - step.depth)) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: the bytes are not a {}", name_of(step, root), step.type->full_name()));
  }
  return ready;
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
  std::set<Tags, TagsBefore> scalars;  // Those that are set already.
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
