// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/merger.hpp"
#include "cairn/proto/splitter.hpp"

namespace cairn::proto {

/// Reads a message from its text form.
template <class M>
M from_text(const std::string& text) {
  M message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

inline std::string as_text(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

inline std::string as_text(const Chunk& chunk) {
  return chunk.type() == nullptr ? "'" + std::string(chunk.bytes()) + "'" : as_text(*chunk.to_message());
}

/// Messages as text of one line, bytes in quotes.
inline std::vector<std::string> as_texts(std::span<const Chunk> chunks) {
  std::vector<std::string> texts;
  for (const Chunk& chunk : chunks) {
    texts.push_back(as_text(chunk));
    while (!texts.back().empty() && texts.back().back() == ' ') {
      texts.back().pop_back();
    }
  }
  return texts;
}

inline void expect_tree(const chunked::ChunkedMessage& tree, const std::string& text) {
  const auto expected = from_text<chunked::ChunkedMessage>(text);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(tree, expected)) << tree.DebugString();
}

/// A splitter whose cuts a test writes down.
class ByHand final : public ComposableSplitter {
 public:
  using Cuts = std::function<void(ByHand&)>;

  ByHand(const google::protobuf::Message& message, Cuts cuts, SplitOptions options = {})
      : ComposableSplitter(message, options), cuts_(std::move(cuts)) {}
  ByHand(const google::protobuf::Message& message, ComposableSplitter& parent, const Path& path, Cuts cuts)
      : ComposableSplitter(message, parent, path), cuts_(std::move(cuts)) {}

  void build_chunks() override { cuts_(*this); }

  using ComposableSplitter::add_chunk;
  using ComposableSplitter::add_range;
  using ComposableSplitter::message;
  using ComposableSplitter::set_base;

 private:
  Cuts cuts_;
};

template <class M>
void expect_same_when_merged(ComposableSplitter& splitter, const M& message) {
  M merged;
  const Merged notices = merge(splitter.chunks(), splitter.chunked_message(), merged);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(merged, message)) << merged.DebugString();
  EXPECT_TRUE(notices.unused_chunks.empty());
  EXPECT_TRUE(notices.remarks.empty());
}

}  // namespace cairn::proto
