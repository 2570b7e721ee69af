// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/shared_reads.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/packed.hpp"
#include "io/internal/chunk_hash.hpp"
#include "staging/internal/range_reader.hpp"

namespace cairn::joint {
namespace {

/// Runs that one rank has on their way: while some are taken to where they belong, the next ones travel.
constexpr std::size_t kMostOnTheirWay = 4;

/// Texts of other ranks that are handled at the same time: while one is copied to its place, the next is heard.
constexpr std::size_t kHearers = 4;

constexpr std::uint8_t kRun = 0;
constexpr std::uint8_t kThanks = 1;

}  // namespace

// outlives: the plane and what `files` refers to outlive it.
SharedReads::SharedReads(staging::DataPlane& plane, Subject subject, Files files, PiecesByFile pieces)
    : plane_(plane),
      subject_(std::move(subject)),
      files_(std::move(files)),
      pieces_(std::move(pieces)),
      on_their_way_(kMostOnTheirWay) {}

Awaitable<> SharedReads::read() {
  Executor strand = plane_.strand;
  co_await async::run_on(std::move(strand), read_here());
}

Awaitable<> SharedReads::read_here() {
  std::string wants;
  std::function<void()> arrange = [&] { wants = encode_wants(arrange_pieces()); };
  co_await plane_.run_call(std::move(arrange));
  Awaitable<SharedPlan> agreeing = agree_on_plan(std::move(wants));
  plan_ = co_await std::move(agreeing);
  std::map<std::uint32_t, std::vector<SharedPlan::Read>> by_file;
  to_hear_ = plan_.to_hear;
  for (const SharedPlan::Read& read : plan_.reads) {
    by_file[read.file].push_back(read);
    to_hear_ += plan_.groups.at(read.receivers).size();  // Each says thanks.
  }
  std::vector<Awaitable<>> tasks;
  tasks.push_back(read_files(std::move(by_file)));
  tasks.push_back(hear_all());
  co_await async::when_all(std::move(tasks));
}

Awaitable<> SharedReads::read_files(std::map<std::uint32_t, std::vector<SharedPlan::Read>> by_file) {
  // Nobody awaits the two steps: by them all know for whom they wait.
  const bool is_primary = subject_.rank() == 0;
  if (!is_primary) {
    static_cast<void>(subject_.broadcast(""));
  }
  std::vector<Awaitable<>> tasks;
  for (auto& [file, reads] : by_file) {
    tasks.push_back(read_file(file, std::move(reads)));
  }
  co_await async::when_all(std::move(tasks));
  if (is_primary) {
    static_cast<void>(subject_.broadcast(""));
  }
  static_cast<void>(subject_.gather(""));
}

Wants SharedReads::arrange_pieces() {
  Wants wants;
  for (auto& [name, pieces] : pieces_) {
    const std::uint64_t bytes = files_(name).size_bytes;
    arrange(pieces, bytes);
    wants.emplace(name, staging::plan_runs(pieces, bytes, io::kChunkBytes));
  }
  return wants;
}

Awaitable<SharedPlan> SharedReads::agree_on_plan(std::string wants) {
  Awaitable<std::vector<std::string>> gathering = subject_.gather(std::move(wants));
  std::vector<std::string> texts = co_await std::move(gathering);
  std::vector<std::string> plans;
  std::function<void()> plan = [&] {
    std::vector<Wants> by_rank;
    for (const std::string& text : texts) {
      by_rank.push_back(decode_wants(text));
    }
    for (const SharedPlan& each : plan_shared_reads(by_rank)) {
      plans.push_back(encode_plan(each));
    }
  };
  if (subject_.rank() == 0) {
    co_await plane_.run(std::move(plan));
  }
  Awaitable<std::string> scattering = subject_.scatter(std::move(plans));
  const std::string own = co_await std::move(scattering);
  co_return decode_plan(own);
}

Awaitable<> SharedReads::read_file(std::uint32_t file, std::vector<SharedPlan::Read> reads) {
  const std::string& name = plan_.files.at(file);
  std::vector<staging::Run> runs;
  std::map<std::uint64_t, std::uint32_t> receivers;  // By the offset of the run.
  for (const SharedPlan::Read& read : reads) {
    runs.push_back(read.run);
    receivers.emplace(read.run.offset_bytes, read.receivers);
  }
  staging::RangeReader::PassOn pass = [&](staging::Run run, std::span<const std::byte> data) {
    return pass_on(file, receivers.at(run.offset_bytes), run, data);
  };
  staging::FileToRead to_read = files_(name);
  std::vector<DestinationPiece> pieces = pieces_.find(name)->second;
  staging::RangeReader reader(plane_, std::move(to_read), std::move(pieces), std::move(runs),
                              std::move(pass));
  co_await reader.read();
}

// outlives: `data` is the caller's, who awaits this
Awaitable<> SharedReads::pass_on(std::uint32_t file, std::uint32_t receivers, staging::Run run,
                                 std::span<const std::byte> data) {
  const std::vector<std::size_t>& ranks = plan_.groups.at(receivers);
  if (ranks.empty()) {
    co_return;
  }
  Sent sent;
  sent.permit = co_await on_their_way_.acquire();
  sent.unthanked = ranks.size();
  const std::uint64_t number = next_number_++;
  sent_.emplace(number, std::move(sent));
  std::string text;
  put(text, kRun);
  put(text, number);
  put(text, file);
  put(text, run.offset_bytes);
  std::function<void()> send = [&] { subject_.tell(ranks, text, data); };
  co_await plane_.run(std::move(send));
}

Awaitable<> SharedReads::hear_all() {
  std::vector<Awaitable<>> hearers;
  for (std::size_t i = 0; i < kHearers; ++i) {
    hearers.push_back(hear_one());
  }
  co_await async::when_all(std::move(hearers));
}

Awaitable<> SharedReads::hear_one() {
  while (to_hear_ > 0) {
    --to_hear_;
    Awaitable<Told> hearing = subject_.hear();
    Told told = co_await std::move(hearing);
    if (take<std::uint8_t>(told.text) == kRun) {
      co_await take_run(told);
      continue;
    }
    const auto sent = sent_.find(take<std::uint64_t>(told.text));
    if (sent != sent_.end() && --sent->second.unthanked == 0) {
      sent_.erase(sent);
    }
  }
}

// outlives: `told` is the caller's, who awaits this
Awaitable<> SharedReads::take_run(const Told& told) {
  std::string_view text = told.text;
  const auto number = take<std::uint64_t>(text);
  const auto file = take<std::uint32_t>(text);
  const auto offset = take<std::uint64_t>(text);
  if (file >= plan_.files.size() || !pieces_.contains(plan_.files[file])) {
    throw Error(Errc::malformed_metadata,
                fmt::format("rank {} sent data of a file that was not requested", told.from));
  }
  const std::string& name = plan_.files[file];
  const std::vector<DestinationPiece>& pieces = pieces_.find(name)->second;
  plane_.wanted_bytes += text.size();
  const async::Gate::Visit inside = plane_.touch_memory();
  std::function<void()> place = [&] {
    const observe::WorkSpan span(plane_.meter, Work::place, name, offset, text.size());
    scatter(pieces, offset, std::as_bytes(std::span(text)));
  };
  co_await plane_.run(std::move(place));
  plane_.loaded_bytes += text.size();
  std::string thanks;
  put(thanks, kThanks);
  put(thanks, number);
  const std::array<std::size_t, 1> reader = {told.from};
  subject_.tell(reader, thanks);
}

}  // namespace cairn::joint
