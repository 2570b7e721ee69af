// SPDX-License-Identifier: Apache-2.0
#include "coord/packet.hpp"

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/packed.hpp"
#include "base/internal/probe.hpp"
#include "coord/internal/of_peer.hpp"

namespace cairn::coord {
namespace {

constexpr std::uint32_t kNobody = 0xFFFFFFFF;     // In place of a rank: the text names one.
constexpr std::uint32_t kOfOneRank = 0;           // In place of an error code.
constexpr std::uint32_t kMayFollow = 0xFFFFFFFF;  // The same of a failure that may follow from another.

}  // namespace

std::string encode(const PacketHead& head, std::string_view body) {
  std::string packet;
  packet.reserve(17 + head.channel.size() + body.size());
  put(packet, head.session);
  put(packet, static_cast<std::uint8_t>(head.kind));
  put(packet, head.round);
  put(packet, static_cast<std::uint32_t>(head.channel.size()));
  packet.append(head.channel).append(body);
  CAIRN_ASSERT(packet.size() == 17 + head.channel.size() + body.size(),
               "a packet has its head, the channel's name and its body");
  return packet;
}

DecodedPacket decode(std::string_view packet) {
  DecodedPacket decoded;
  decoded.head.session = take<std::uint64_t>(packet);
  const auto kind = take<std::uint8_t>(packet);
  if (kind > static_cast<std::uint8_t>(PacketKind::joined)) {
    throw Error(Errc::malformed_metadata, fmt::format("a packet of unknown kind {}", kind));
  }
  decoded.head.kind = static_cast<PacketKind>(kind);
  decoded.head.round = take<std::uint32_t>(packet);
  const auto channel_bytes = take<std::uint32_t>(packet);
  decoded.head.channel = take_bytes(packet, channel_bytes);
  decoded.body = packet;
  return decoded;
}

std::string encode_texts(const std::vector<RankedText>& texts) {
  std::string body;
  for (const auto& [rank, text] : texts) {
    put(body, static_cast<std::uint32_t>(rank));
    put(body, static_cast<std::uint64_t>(text.size()));
    body += text;
  }
  return body;
}

std::vector<RankedText> decode_texts(std::string_view body) {
  std::vector<RankedText> texts;
  while (!body.empty()) {
    const auto rank = take<std::uint32_t>(body);
    const auto bytes = take<std::uint64_t>(body);
    texts.emplace_back(rank, take_bytes(body, bytes));
  }
  return texts;
}

std::string encode_failure(std::size_t rank, const std::exception_ptr& why) {
  std::string body;
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    if (error.code() == Errc::peer_lost) {
      CAIRN_PROBE("coord.lost_rank_is_told");
      return encode_common_failure(error);
    }
    const bool names_rank = error.code() == Errc::peer_failed;
    put(body, names_rank ? kNobody : static_cast<std::uint32_t>(rank));
    put(body, is_following(why) ? kMayFollow : kOfOneRank);
    body += names_rank ? error.detail() : error.what();
  } catch (...) {
    put(body, static_cast<std::uint32_t>(rank));
    put(body, kOfOneRank);
    body += describe(std::current_exception());
  }
  return body;
}

std::string encode_common_failure(const Error& error) {
  std::string body;
  put(body, kNobody);
  put(body, static_cast<std::uint32_t>(error.code().value()));
  body += error.detail();
  return body;
}

std::exception_ptr decode_failure(std::string_view body) {
  const auto rank = take<std::uint32_t>(body);
  const auto code = take<std::uint32_t>(body);
  if (code != kOfOneRank && code != kMayFollow) {
    return std::make_exception_ptr(Error(static_cast<Errc>(code), std::string(body)));
  }
  std::string text = rank == kNobody ? std::string(body) : fmt::format("rank {}: {}", rank, body);
  if (code == kMayFollow) {
    return std::make_exception_ptr(FollowingError(Errc::peer_failed, std::move(text)));
  }
  return std::make_exception_ptr(Error(Errc::peer_failed, std::move(text)));
}

}  // namespace cairn::coord
