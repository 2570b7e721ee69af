// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/joint_save.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/hash.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/packed.hpp"
#include "base/internal/probe.hpp"
#include "coord/internal/of_peer.hpp"

namespace cairn::joint {
namespace {

store::Uuid uuid_of(const Hash128& job, std::uint64_t number) {
  std::string text = "cairn save";
  put(text, job.high);
  put(text, job.low);
  put(text, number);
  const Hash128 hash = hash_text(text);
  const auto fill = [&hash](std::span<std::byte> bytes) {
    std::memcpy(bytes.data(), &hash, std::min(bytes.size(), sizeof hash));
  };
  return store::make_uuid(fill);
}

constexpr std::string_view kOptions = "the options";  // Their value for all ranks: their hash.

// What rank 0 answers to the values of all.
constexpr std::string_view kAgreed = "=";
constexpr std::string_view kSayOptions = "?";

/// A short text that is the same on two ranks only where their options are.
std::string hash_of(const RankValues& options) {
  std::string text;
  for (const auto& [what, mine] : options) {
    put_text(text, what);
    put_text(text, mine);
  }
  return text.empty() ? "none" : to_hex(hash_text(text));
}

// The coroutines below are given rounds that have begun, and share the session: none refers to the JointSave.

/// Ranks whose options have different hashes say them in words.
Awaitable<std::string> gather_options(std::shared_ptr<const coord::Session> work, std::string words) {
  coord::Channel channel = work->channel("options");
  coord::Channel::Merge merge = merge_rank_values;
  Awaitable<std::string> merged = channel.reduce(std::move(words), std::move(merge));
  co_return co_await std::move(merged);
}

Awaitable<> require_agreement(std::shared_ptr<const coord::Session> work, coord::Channel channel,
                              Awaitable<std::string> merged, std::string options) {
  const std::string answer = co_await std::move(merged);
  std::optional<Disagreement> difference = difference_in(answer);
  if (difference && difference->what == kOptions) {
    CAIRN_PROBE("joint.options_differ");
    static_cast<void>(channel.broadcast(std::string(kSayOptions)));
    Awaitable<std::string> saying = gather_options(work, std::move(options));
    const std::string words = co_await std::move(saying);
    if (std::optional<Disagreement> in_words = difference_in(words)) {
      difference = std::move(in_words);
    }
  }
  if (difference) {
    CAIRN_PROBE("joint.ranks_save_different_things");
    channel.refuse_together(
        Error(Errc::invalid_argument, fmt::format("the ranks do not save the same: {}", difference->text)));
  }
  static_cast<void>(channel.broadcast(std::string(kAgreed)));
}

Awaitable<> receive_agreement(std::shared_ptr<const coord::Session> work, coord::Channel channel,
                              Awaitable<std::string> answer, std::string options) {
  const std::string said = co_await std::move(answer);
  if (said == kSayOptions) {
    Awaitable<std::string> refused = channel.broadcast("");  // Which never comes: rank 0 fails the save.
    Awaitable<std::string> saying = gather_options(std::move(work), std::move(options));
    static_cast<void>(co_await std::move(saying));
    static_cast<void>(co_await std::move(refused));
  }
}

Awaitable<> discard_text(Awaitable<std::string> text) {
  co_await std::move(text);
}

Awaitable<std::vector<store::FileEntry>> decode_votes(Awaitable<std::vector<std::string>> votes) {
  const std::vector<std::string> texts = co_await std::move(votes);
  std::vector<store::FileEntry> files;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    std::string_view text = texts[rank];
    while (!text.empty()) {
      store::FileEntry& file = files.emplace_back();
      file.rank = static_cast<std::uint32_t>(rank);
      file.path = take_text(text);
      file.size_bytes = take<std::uint64_t>(text);
      file.root.high = take<std::uint64_t>(text);
      file.root.low = take<std::uint64_t>(text);
    }
  }
  co_return files;
}

Awaitable<Verdict> decode_verdict(Awaitable<std::string> told) {
  const std::string encoded = co_await std::move(told);
  std::string_view text = encoded;
  Verdict verdict;
  verdict.kind = static_cast<Verdict::Kind>(take<std::uint8_t>(text));
  verdict.is_superseded = take<std::uint8_t>(text) != 0;
  verdict.is_peer_lost = take<std::uint8_t>(text) != 0;
  verdict.files = take<std::uint64_t>(text);
  verdict.bytes = take<std::uint64_t>(text);
  verdict.words = take_text(text);
  co_return verdict;
}

/// Returns the verdict that rank 0 tells the others of its failure.
Verdict verdict_of(const std::exception_ptr& why) {
  const std::optional<std::error_code> code = code_of(why);
  CAIRN_ASSERT(why != nullptr, "a save is not committed for a reason");
  Verdict verdict(code == Errc::commit_unknown ? Verdict::Kind::unknown : Verdict::Kind::aborted, "");
  verdict.is_superseded = code == Errc::superseded;
  verdict.is_peer_lost = code == Errc::peer_lost;
  verdict.words = fmt::format("rank 0: {}", describe(why));
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    if (coord::is_of_peer(error.code())) {
      verdict.words = error.detail();  // It names its rank.
    }
  } catch (...) {  // What it says is there already.
  }
  return verdict;
}

}  // namespace

std::unique_ptr<JointSave> JointSave::join(coord::Coordinator& coordinator, std::string path,
                                           Timeout join_timeout) {
  return coordinator.size() == 1 ? nullptr
                                 : std::make_unique<JointSave>(coordinator, std::move(path), join_timeout);
}

JointSave::JointSave(coord::Coordinator& coordinator, std::string path, Timeout join_timeout)
    : JointSave(coordinator,
                coordinator.join_several(std::vector{coord::FailureScope::job, coord::FailureScope::root},
                                         {"saves", std::move(path)}, join_timeout)) {}

JointSave::JointSave(const coord::Coordinator& coordinator, std::vector<coord::Session> sessions)
    : rank_(static_cast<std::uint32_t>(coordinator.rank())),
      work_(std::make_shared<coord::Session>(std::move(sessions[0]))),
      last_word_(std::move(sessions[1])),
      uuid_(uuid_of(coordinator.job(), work_->number())) {
  CAIRN_ASSERT(sessions.size() == 2, "a save has a session for its work and one for its verdict");
  if (!is_primary()) {
    created_ = work_->channel("directory").broadcast("");
    verdict_ = last_word_.channel("verdict").broadcast("");
  }
}

JointSave::~JointSave() {
  fail(std::make_exception_ptr(Error(Errc::closed, "the save was dropped")));
  leave();
}

void JointSave::fail(const std::exception_ptr& why) noexcept {
  listener_.note_own_failure();
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    if (error.code() == Errc::superseded) {
      work_->fail_together(error);  // Not a failure of any rank.
    }
  } catch (...) {  // That of this rank.
  }
  work_->fail(why);
  if (is_primary()) {
    try {
      send_verdict(verdict_of(why));
    } catch (...) {  // No memory for a sentence.
      CAIRN_PROBE("joint.no_memory_for_a_verdict");
      send_verdict(Verdict());
    }
  }
}

void JointSave::call_off(const Error& why) noexcept {
  work_->fail_together(why);
  fail(std::make_exception_ptr(why));
}

SomeRanks JointSave::missing() const {
  SomeRanks missing = work_->missing();
  return missing.count == 0 && has_voted_ ? last_word_.missing() : missing;
}

void JointSave::on_failure(FailureListener::Work work) {
  listener_.listen(*work_, std::move(work));
}

Awaitable<> JointSave::agree(RankValues rank_values, const RankValues& options) {
  coord::Channel channel = work_->channel("claims");
  CAIRN_ASSERT(!has_voted_, "ranks agree before any of them votes");
  rank_values.emplace_back(kOptions, hash_of(options));
  Awaitable<std::string> merged = channel.reduce(encode_rank_values(rank_, rank_values), merge_rank_values);
  std::string words = encode_rank_values(rank_, options);
  if (is_primary()) {
    return require_agreement(work_, channel, std::move(merged), std::move(words));
  }
  Awaitable<std::string> answer = channel.broadcast("");
  return receive_agreement(work_, channel, std::move(answer), std::move(words));
}

void JointSave::send_created() {
  CAIRN_ASSERT(is_primary(), "rank 0 makes the directory");
  static_cast<void>(work_->channel("directory").broadcast(""));
}

Awaitable<> JointSave::receive_created() {
  CAIRN_ASSERT(!is_primary() && created_.has_value(), "the other ranks hear of the directory");
  return discard_text(std::move(*created_));
}

void JointSave::vote(std::span<const store::FileEntry> files) {
  CAIRN_ASSERT(!is_primary() && !has_voted_, "each rank but rank 0 votes once");
  std::string text;
  for (const store::FileEntry& file : files) {
    put_text(text, file.path);
    put(text, file.size_bytes);
    put(text, file.root.high);
    put(text, file.root.low);
  }
  static_cast<void>(work_->channel("votes").gather(std::move(text)));
  has_voted_ = true;
}

Awaitable<std::vector<store::FileEntry>> JointSave::collect_votes() {
  CAIRN_ASSERT(is_primary(), "rank 0 collects the votes");
  return decode_votes(work_->channel("votes").gather(""));
}

void JointSave::send_verdict(const Verdict& verdict) noexcept {
  CAIRN_ASSERT(is_primary(), "rank 0 gives the verdict");
  if (is_verdict_sent_.exchange(true)) {
    return;
  }
  try {
    std::string text;
    put(text, static_cast<std::uint8_t>(verdict.kind));
    put(text, static_cast<std::uint8_t>(verdict.is_superseded));
    put(text, static_cast<std::uint8_t>(verdict.is_peer_lost));
    put(text, verdict.files);
    put(text, verdict.bytes);
    put_text(text, verdict.words);
    static_cast<void>(last_word_.channel("verdict").broadcast(std::move(text)));
  } catch (...) {  // No memory: the others let the disk decide.
    CAIRN_PROBE("joint.verdict_not_sent");
    last_word_.fail(std::current_exception());
  }
}

Awaitable<Verdict> JointSave::receive_verdict() {
  CAIRN_ASSERT(!is_primary() && verdict_.has_value(), "the other ranks hear the verdict");
  return decode_verdict(std::move(*verdict_));
}

void JointSave::leave() noexcept {
  if (!has_left_.exchange(true)) {
    work_->leave_later();
    last_word_.leave_later();
  }
}

}  // namespace cairn::joint
