// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"

namespace cairn::coord {

/// Says what a packet is about.
enum class PacketKind : std::uint8_t {
  /// I am there. Up: whom I miss below me; down: whom all miss, as far as I know. Often nobody: empty.
  alive,
  up,        ///< A text on its way to rank 0.
  down,      ///< A text of rank 0 for everybody.
  scatter,   ///< Texts of rank 0 for the ranks of a subtree.
  fail,      ///< The session has failed.
  left,      ///< I say nothing more.
  direct,    ///< What one rank tells another, past the tree.
  notice,    ///< Of no session: what a rank tells rank 0, or rank 0 all.
  closed,    ///< A rank (u32) joins none of the sessions from this one on.
  rest,      ///< I have no thread until my program lends me one: until I speak again, silence means nothing.
  ask,       ///< The rank between us is gone: tell me yourself what you, rank 0, have said, and will say.
  question,  ///< I wait for you to join: are you there?
  here,      ///< I am, but have not joined.
  /// A rank (u32), which this session needs, was found lost by another one (u32), which has found so many (u32).
  lost,
  found,   ///< The same: it has heard so, and is there again.
  joined,  ///< I have joined, for this purpose: its kind, and what it is of.
};

struct PacketHead {
  std::uint64_t session = 0;
  PacketKind kind = PacketKind::alive;
  std::uint32_t round = 0;
  std::string_view channel;
};

struct DecodedPacket {
  PacketHead head;
  std::string_view body;
};

/// Little-endian: session u64, kind u8, round u32, bytes of the channel u32, the channel, the body.
[[nodiscard]] std::string encode(const PacketHead& head, std::string_view body);
/// Views of `packet`.
/// Errors: Errc::malformed_metadata when it is too short or of an unknown kind.
[[nodiscard]] DecodedPacket decode(std::string_view packet);

/// A text, and whose it is.
using RankedText = std::pair<std::size_t, std::string>;

/// For each text: rank u32, bytes u64, the text.
[[nodiscard]] std::string encode_texts(const std::vector<RankedText>& texts);
/// Errors: Errc::malformed_metadata.
[[nodiscard]] std::vector<RankedText> decode_texts(std::string_view body);

/// A failure on its way: rank u32, code u32, what it says. The code is 0 for a failure of that rank alone, and all bits
/// are set where it may follow from another.
[[nodiscard]] std::string encode_failure(std::size_t rank, const std::exception_ptr& why);
/// One that is the same on all ranks.
[[nodiscard]] std::string encode_common_failure(const Error& error);
/// Errc::peer_failed, "rank <rank>: <what it says>", a FollowingError again; a common one, and Errc::peer_lost, as it
/// is.
[[nodiscard]] std::exception_ptr decode_failure(std::string_view body);

}  // namespace cairn::coord
