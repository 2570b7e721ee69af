// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/coord/conversation.hpp"
#include "cairn/staging/pieces.hpp"

#include "async/internal/semaphore.hpp"
#include "joint/internal/shared_plan.hpp"
#include "staging/internal/checked_file.hpp"
#include "staging/internal/data_plane.hpp"

namespace cairn::joint {

/// Reads ranges of files together with the other ranks of a job: each byte is read and verified by one of the ranks that want it, which
/// passes it on to the others.
///
///   wants    which ranges each rank wants                             up
///   plans    what each rank reads, for whom, and how much it hears    down, to each its own
///   runs     a run of a file, from its reader to who wants it         past the tree
///   thanks   a run has come to where it belongs                       back
///   done     rank 0, another rank, has read its runs                  down, up
/// A rank has a few runs on their way to others at a time, so nobody needs memory for more of each.
/// Ownership: the frame that awaits `read` owns it.
/// Threads:   coroutines on the plane's strand; copies and hashes run elsewhere.
class SharedReads {
 public:
  /// How to open a file that this rank reads.
  using Files = std::function<staging::FileToRead(const std::string& name)>;

  // outlives: the plane and what `files` refers to outlive it.
  SharedReads(staging::DataPlane& plane, Subject subject, Files files, PiecesByFile pieces);

  /// Errors: as staging::RangeReader::read; those of the conversation, when another rank has failed.
  Awaitable<> read();

 private:
  /// A run that was sent, and for which not all receivers have said thanks.
  struct Sent {
    async::Permit permit;
    std::size_t unthanked = 0;
  };

  Awaitable<> read_here();
  [[nodiscard]] Wants arrange_pieces();
  Awaitable<SharedPlan> agree_on_plan(std::string wants);
  Awaitable<> read_files(std::map<std::uint32_t, std::vector<SharedPlan::Read>> by_file);
  Awaitable<> read_file(std::uint32_t file, std::vector<SharedPlan::Read> reads);
  // outlives: `data` is the caller's, who awaits this
  Awaitable<> pass_on(std::uint32_t file, std::uint32_t receivers, staging::Run run,
                      std::span<const std::byte> data);
  Awaitable<> hear_all();
  Awaitable<> hear_one();
  /// Takes a run that another rank has read to where this one wants it.
  // outlives: `told` is the caller's, who awaits this
  Awaitable<> take_run(const Told& told);

  staging::DataPlane& plane_;
  Subject subject_;
  const Files files_;
  PiecesByFile pieces_;  // The reader of a file takes a copy of its own.
  SharedPlan plan_;
  async::Semaphore on_their_way_;
  std::map<std::uint64_t, Sent> sent_;  // By number.
  std::uint64_t next_number_ = 0;
  std::uint64_t to_hear_ = 0;
};

}  // namespace cairn::joint
