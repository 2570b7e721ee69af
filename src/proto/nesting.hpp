// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <google/protobuf/message.h>

namespace cairn::proto {

/// Messages in each other that are read; protobuf's parser recurses, and its own limit of 100 is less than some models
/// need.
constexpr int kMostNesting = 1000;

/// Adds what bytes hold to an empty message; returns false where they are not one of its type, or too deep.
[[nodiscard]] bool parse(std::string_view bytes, google::protobuf::Message& out, int most_nesting);

/// Returns whether messages lie in each other at most `most` levels deep, as the parser counts them, in a message of
/// `bytes`. ByteSizeLong was called before.
[[nodiscard]] bool nests_at_most(int most, const google::protobuf::Message& message, std::uint64_t bytes);

}  // namespace cairn::proto
