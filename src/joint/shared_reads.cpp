// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/shared_reads.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/checked.hpp"
#include "base/internal/packed.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/chunk_hash.hpp"
#include "io/internal/direct.hpp"
#include "staging/internal/range_reader.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::joint {
namespace {

/// Runs that one rank has on their way: while some are taken to where they belong, the next ones travel.
constexpr std::size_t kMostOnTheirWay = 4;

/// Texts of other ranks that are handled at the same time: while one is copied to its place, the next is heard.
constexpr std::size_t kReceiveTasks = 4;

/// A run of less is sent: it is copied sooner than memory is mapped.
constexpr std::size_t kMinSharedBytes = std::size_t{64} << 10;

/// Slots begin at pages, so that disks can be read into them past the page cache.
constexpr std::size_t kSlotAlignment = 4096;

/// The kinds of text that ranks send to each other.
enum class TextKind : std::uint8_t {
  run,         ///< Number u64, file u32, offset u64, and the bytes.
  shared_run,  ///< The same, but where the bytes are: offset u64, count u64; and the key of the memory.
  ack,         ///< Number u64.
  refusal,     ///< Number u64.
};

std::string text_of(TextKind kind, std::uint64_t number) {
  std::string text;
  put(text, static_cast<std::uint8_t>(kind));
  put(text, number);
  return text;
}

std::string text_of_run(TextKind kind, std::uint64_t number, std::uint32_t file, std::uint64_t offset_bytes) {
  std::string text = text_of(kind, number);
  put(text, file);
  put(text, offset_bytes);
  return text;
}

void put_key(std::string& text, const io::SharedMemoryKey& key) {
  put(text, key.process);
  put(text, key.fd);
  put(text, key.bytes);
  put_text(text, key.name);
}

io::SharedMemoryKey take_key(std::string_view text) {
  io::SharedMemoryKey key;
  key.process = take<std::uint32_t>(text);
  key.fd = take<std::uint32_t>(text);
  key.bytes = take<std::uint64_t>(text);
  key.name = take_text(text);
  return key;
}

/// The group of this rank. What is wrong with it is the same error on all ranks.
std::optional<RankGroup> agreed_group(const coord::Coordinator& coordinator,
                                      std::span<const std::uint32_t> group, const coord::Channel& channel) {
  try {
    return own_group(static_cast<std::uint32_t>(coordinator.rank()), group);
  } catch (const Error& error) {
    channel.refuse_together(error);
  }
}

}  // namespace

// outlives: the plane, the coordinator, and what `files` refers to outlive it.
SharedReads::SharedReads(staging::DataPlane& plane, const coord::Coordinator& coordinator,
                         std::span<const std::uint32_t> group, coord::Channel channel, Files files,
                         PiecesByFile pieces)
    : plane_(plane),
      hosts_(coordinator.hosts()),
      group_(agreed_group(coordinator, group, channel)),
      channel_(std::move(channel)),
      files_(std::move(files)),
      pieces_(std::move(pieces)),
      on_their_way_(kMostOnTheirWay) {}

Awaitable<> SharedReads::read() {
  Executor strand = plane_.strand;
  co_await async::run_on(std::move(strand), read_here());
}

Awaitable<> SharedReads::read_here() {
  std::string wants;
  std::function<void()> arrange = [&] {
    put_group(wants, group_);
    wants += encode_wants(arrange_pieces());
  };
  co_await plane_.run_call(std::move(arrange));
  Awaitable<SharedPlan> agreeing = agree_on_plan(std::move(wants));
  plan_ = co_await std::move(agreeing);
  std::map<std::uint32_t, std::vector<SharedPlan::Read>> by_file;
  to_receive_ = plan_.to_receive;
  for (const SharedPlan::Read& read : plan_.reads) {
    by_file[read.file].push_back(read);
    to_receive_ += plan_.groups.at(read.receivers).size();  // Each sends an ack.
  }
  co_await share_memory();
  std::vector<Awaitable<>> tasks;
  tasks.push_back(read_files(std::move(by_file)));
  tasks.push_back(receive_all());
  co_await async::when_all(std::move(tasks));
}

Awaitable<> SharedReads::read_files(std::map<std::uint32_t, std::vector<SharedPlan::Read>> by_file) {
  // Nobody awaits the two rounds: by them all know for whom they wait.
  const bool is_primary = channel_.rank() == 0;
  if (!is_primary) {
    static_cast<void>(channel_.broadcast(""));
  }
  std::vector<Awaitable<>> tasks;
  for (auto& [file, reads] : by_file) {
    tasks.push_back(read_file(file, std::move(reads)));
  }
  co_await async::when_all(std::move(tasks));
  if (is_primary) {
    static_cast<void>(channel_.broadcast(""));
  }
  static_cast<void>(channel_.gather(""));
}

Wants SharedReads::arrange_pieces() {
  Wants wants;
  for (auto& [name, pieces] : pieces_) {
    const staging::FileToRead file = files_(name);
    arrange(pieces, file.size_bytes);
    // A hash covers a whole chunk, and what passes the page cache by are whole pages.
    const std::uint64_t unit = file.digest ? io::kChunkBytes : io::kDirectBytes;
    wants.emplace(name, staging::plan_runs(pieces, file.size_bytes, unit));
  }
  return wants;
}

Awaitable<SharedPlan> SharedReads::agree_on_plan(std::string wants) {
  Awaitable<std::vector<std::string>> gathering = channel_.gather(std::move(wants));
  std::vector<std::string> texts = co_await std::move(gathering);
  std::vector<std::string> plans;
  std::function<void()> plan = [&] { plans = plans_for(texts); };
  if (channel_.rank() == 0) {
    co_await plane_.run(std::move(plan));
  }
  Awaitable<std::string> scattering = channel_.scatter(std::move(plans));
  const std::string own = co_await std::move(scattering);
  co_return decode_plan(own);
}

std::vector<std::string> SharedReads::plans_for(std::span<const std::string> texts) const {
  std::vector<Wants> by_rank;
  std::vector<std::optional<RankGroup>> groups;
  for (std::string_view text : texts) {
    groups.push_back(take_group(text));
    by_rank.push_back(decode_wants(text));
  }
  std::vector<std::uint32_t> group_of_rank;
  try {
    group_of_rank = number_groups(groups);
  } catch (const Error& error) {
    channel_.refuse_together(error);  // No rank alone has done wrong.
  }
  std::vector<std::string> plans;
  for (const SharedPlan& each : plan_shared_reads(by_rank, group_of_rank)) {
    plans.push_back(encode_plan(each));
  }
  return plans;
}

Awaitable<> SharedReads::share_memory() {
  for (const std::vector<std::size_t>& group : plan_.groups) {
    has_neighbours_.push_back(
        std::any_of(group.begin(), group.end(), [this](std::size_t rank) { return is_neighbour(rank); }));
  }
  std::size_t slots = 0;
  CAIRN_ASSERT(has_neighbours_.size() == plan_.groups.size(),
               "of each group it is known whether somebody is near");
  std::size_t slot_bytes = 0;
  for (const SharedPlan::Read& read : plan_.reads) {
    if (has_neighbours_[read.receivers] && read.run.bytes >= kMinSharedBytes) {
      slots = std::min(slots + 1, kMostOnTheirWay);
      slot_bytes = std::max(slot_bytes, round_up(read.run.bytes, kSlotAlignment));
    }
  }
  if (slots == 0) {
    co_return;
  }
  std::function<void()> make = [&] {
    try {
      memory_.emplace(plane_.engine.syscalls(),
                      fmt::format("cairn-{}", store::to_string(store::make_uuid(store::system_random))),
                      slots * slot_bytes);
    } catch (const Error& error) {
      CAIRN_PROBE("joint.no_shared_memory");
      plane_.meter.add_fallback(
          fmt::format("no memory that ranks of one machine share ({}); sent in packets", error.what()),
          plan_.files.at(plan_.reads.front().file));
    }
  };
  co_await plane_.run_call(std::move(make));
  for (std::size_t slot = 0; memory_ && slot < slots; ++slot) {
    free_slots_.push_back(memory_->bytes().data() + slot * slot_bytes);
  }
}

bool SharedReads::is_neighbour(std::size_t rank) const {
  return rank < hosts_.size() && hosts_[rank] == hosts_[channel_.rank()];
}

bool SharedReads::is_shared(const SharedPlan::Read& read) const {
  return memory_ && has_neighbours_[read.receivers] && read.run.bytes >= kMinSharedBytes;
}

std::span<std::byte> SharedReads::take_slot(std::size_t bytes) {
  CAIRN_ASSERT(!free_slots_.empty(), "whoever takes a slot has a permit for it");
  std::byte* const slot = free_slots_.back();  // There is one: whoever takes it has a permit.
  free_slots_.pop_back();
  return {slot, bytes};
}

Awaitable<> SharedReads::read_file(std::uint32_t file, std::vector<SharedPlan::Read> reads) {
  const std::string& name = plan_.files.at(file);
  std::vector<staging::Run> runs;
  std::map<std::uint64_t, SharedPlan::Read> by_offset;
  for (const SharedPlan::Read& read : reads) {
    runs.push_back(read.run);
    by_offset.emplace(read.run.offset_bytes, read);
  }
  staging::RangeReader::Lend lend_one = [&](staging::Run run) {
    return lend(by_offset.at(run.offset_bytes));
  };
  staging::RangeReader::PassOn pass = [&](staging::Run run, std::span<const std::byte> data) {
    return pass_on(by_offset.at(run.offset_bytes), data);
  };
  staging::FileToRead to_read = files_(name);
  std::vector<DestinationPiece> pieces = pieces_.find(name)->second;
  staging::RangeReader reader(plane_, std::move(to_read), std::move(pieces), std::move(runs),
                              std::move(lend_one), std::move(pass));
  co_await reader.read();
}

Awaitable<std::span<std::byte>> SharedReads::lend(SharedPlan::Read read) {
  std::span<std::byte> slot;
  if (is_shared(read)) {
    Sent sent;
    sent.permit = co_await on_their_way_.acquire();
    slot = sent.slot = take_slot(read.run.bytes);
    lent_.emplace(slot.data(), std::move(sent));
  }
  co_return slot;
}

// outlives: `data` is the caller's, who awaits this
Awaitable<> SharedReads::pass_on(SharedPlan::Read read, std::span<const std::byte> data) {
  const std::vector<std::size_t>& ranks = plan_.groups.at(read.receivers);
  if (ranks.empty()) {
    co_return;
  }
  Sent sent;
  if (auto lent = lent_.extract(data.data()); !lent.empty()) {
    sent = std::move(lent.mapped());
  } else {
    sent.permit = co_await on_their_way_.acquire();
    sent.slot = is_shared(read) ? take_slot(read.run.bytes) : std::span<std::byte>();
  }
  sent.unacknowledged = ranks.size();
  sent.file = read.file;
  sent.offset_bytes = read.run.offset_bytes;
  const std::span<std::byte> slot = sent.slot;
  CAIRN_ASSERT(slot.empty() || slot.size() == data.size(), "a slot has the size of what is sent in it");
  std::vector<std::size_t> near;
  std::vector<std::size_t> far;
  for (const std::size_t rank : ranks) {
    const bool is_near = !slot.empty() && is_neighbour(rank) && !out_of_reach_.contains(rank);
    (is_near ? near : far).push_back(rank);
  }
  const std::uint64_t number = next_number_++;
  sent_.emplace(number, std::move(sent));
  std::function<void()> send = [&] {
    if (!near.empty()) {
      if (slot.data() != data.data()) {
        std::memcpy(slot.data(), data.data(), data.size());
      }
      std::string text = text_of_run(TextKind::shared_run, number, read.file, read.run.offset_bytes);
      put(text, static_cast<std::uint64_t>(slot.data() - memory_->bytes().data()));
      put(text, std::uint64_t{slot.size()});
      put_key(text, memory_->key());
      channel_.send(near, text);
    }
    if (!far.empty()) {
      channel_.send(far, text_of_run(TextKind::run, number, read.file, read.run.offset_bytes), data);
    }
  };
  co_await plane_.run(std::move(send));
}

Awaitable<> SharedReads::receive_all() {
  std::vector<Awaitable<>> receive_tasks;
  for (std::size_t i = 0; i < kReceiveTasks; ++i) {
    receive_tasks.push_back(receive_one());
  }
  co_await async::when_all(std::move(receive_tasks));
}

Awaitable<> SharedReads::receive_one() {
  while (to_receive_ > 0) {
    --to_receive_;
    Awaitable<coord::Message> receiving = channel_.receive();
    coord::Message message = co_await std::move(receiving);
    switch (const auto kind = static_cast<TextKind>(take<std::uint8_t>(message.text))) {
      case TextKind::run:
      case TextKind::shared_run:
        co_await take_run(message, kind == TextKind::shared_run);
        break;
      case TextKind::ack:
        take_ack(take<std::uint64_t>(message.text));
        break;
      case TextKind::refusal:
        co_await send_again(message.from, take<std::uint64_t>(message.text));
        break;
      default:
        throw Error(Errc::malformed_metadata, fmt::format("rank {} sent an unknown word", message.from));
    }
  }
}

// outlives: `message` is the caller's, who awaits this
Awaitable<> SharedReads::take_run(const coord::Message& message, bool is_shared) {
  std::string_view text = message.text;
  const auto number = take<std::uint64_t>(text);
  const auto file = take<std::uint32_t>(text);
  const auto offset = take<std::uint64_t>(text);
  if (file >= plan_.files.size() || !pieces_.contains(plan_.files[file])) {
    throw Error(Errc::malformed_metadata,
                fmt::format("rank {} sent data of a file that was not requested", message.from));
  }
  const std::string& name = plan_.files[file];
  const std::array<std::size_t, 1> reader = {message.from};
  std::span<const std::byte> data = std::as_bytes(std::span(text));
  if (is_shared) {
    const std::optional<std::span<const std::byte>> found = find_shared(message.from, text, name);
    if (!found) {
      CAIRN_PROBE("joint.shared_memory_out_of_reach");
      ++to_receive_;
      channel_.send(reader, text_of(TextKind::refusal, number));
      co_return;
    }
    data = *found;
  }
  const std::vector<DestinationPiece>& pieces = pieces_.find(name)->second;
  plane_.wanted_bytes += data.size();
  const async::Gate::Visit inside = plane_.touch_memory();
  std::function<void()> place = [&] {
    const observe::WorkSpan span(plane_.meter, Work::place, name, offset, data.size());
    scatter(pieces, offset, data);
  };
  co_await plane_.run(std::move(place));
  plane_.loaded_bytes += data.size();
  channel_.send(reader, text_of(TextKind::ack, number));
}

std::optional<std::span<const std::byte>> SharedReads::find_shared(std::size_t from, std::string_view text,
                                                                   const std::string& file) {
  const auto begin = take<std::uint64_t>(text);
  const auto bytes = take<std::uint64_t>(text);
  const auto [known, is_new] = memory_of_.try_emplace(from);
  if (is_new) {
    try {  // Here: nothing of it waits for a disk.
      known->second = io::map_shared(plane_.engine.syscalls(), take_key(text));
    } catch (const Error& error) {
      plane_.meter.add_fallback(
          fmt::format("memory that rank {} shares is out of reach ({}); sent in packets", from, error.what()),
          file);
    }
  }
  if (!known->second) {
    return std::nullopt;
  }
  const std::span<const std::byte> memory = *known->second;
  if (begin > memory.size() || bytes > memory.size() - begin) {
    throw Error(Errc::malformed_metadata,
                fmt::format("rank {} told of {} bytes at {} of the {} that it shares", from, bytes, begin,
                            memory.size()));
  }
  return memory.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
}

Awaitable<> SharedReads::send_again(std::size_t to, std::uint64_t number) {
  const auto sent = sent_.find(number);
  if (sent == sent_.end() || sent->second.slot.empty()) {
    co_return;
  }
  out_of_reach_.insert(to);
  CAIRN_PROBE("joint.run_sent_again");
  CAIRN_ASSERT(sent->second.unacknowledged > 0, "what is sent again was not acknowledged");
  ++to_receive_;  // It sends an ack for this.
  const std::array<std::size_t, 1> receiver = {to};
  const std::string text = text_of_run(TextKind::run, number, sent->second.file, sent->second.offset_bytes);
  const std::span<const std::byte> data = sent->second.slot;
  std::function<void()> send = [&] { channel_.send(receiver, text, data); };
  co_await plane_.run(std::move(send));
}

void SharedReads::take_ack(std::uint64_t number) {
  const auto sent = sent_.find(number);
  if (sent == sent_.end() || --sent->second.unacknowledged > 0) {
    return;
  }
  if (!sent->second.slot.empty()) {
    CAIRN_ASSERT(free_slots_.size() < kMostOnTheirWay, "no more slots are free than there are");
    free_slots_.push_back(sent->second.slot.data());
  }
  sent_.erase(sent);
}

}  // namespace cairn::joint
