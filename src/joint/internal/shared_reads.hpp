// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/session.hpp"
#include "cairn/staging/pieces.hpp"

#include "async/internal/semaphore.hpp"
#include "base/internal/rank_groups.hpp"
#include "io/internal/shared_memory.hpp"
#include "joint/internal/shared_plan.hpp"
#include "staging/internal/checked_file.hpp"
#include "staging/internal/data_plane.hpp"

namespace cairn::joint {

/// Reads ranges of files together with the other ranks of a job: each byte is read and verified by one of the ranks
/// that want it, which passes it on to the others; where there are groups of ranks, in each group by one.
///
///   wants     which ranges each rank wants, and its group              up
///   plans     what each rank reads, for whom, and how much it hears    down, to each its own
///   runs      a run of a file, from its reader to who wants it         past the tree
///   acks      a run has come to where it belongs                       back
///   refusals  a run is where this rank cannot read it: send it         back
///   done      rank 0, another rank, has read its runs                  down, up
/// A rank has a few runs on their way to others at a time, so nobody needs memory for more of each. Runs for ranks of
/// its machine lie in memory that it shares with them, each in a slot, and only their places are sent. A slot is
/// written again when all to whom it was sent have sent an ack, and never after the load has failed, so nobody reads
/// what is half written; and what is in it was verified before. Other ranks are sent the bytes.
/// Ownership: the frame that awaits `read` owns it.
/// Threads:   coroutines on the plane's strand; copies and hashes run elsewhere.
class SharedReads {
 public:
  /// How to open a file that this rank reads.
  using Files = std::function<staging::FileToRead(const std::string& name)>;

  /// `group` are the ranks among which each byte is read once; none: all.
  ///
  /// Errors: Errc::invalid_argument when this rank is not in its group.
  // outlives: the plane, the coordinator, and what `files` refers to outlive it.
  SharedReads(staging::DataPlane& plane, const coord::Coordinator& coordinator,
              std::span<const std::uint32_t> group, coord::Channel channel, Files files, PiecesByFile pieces);

  /// Errors: as staging::RangeReader::read; those of the session, when another rank has failed; on all ranks
  ///         Errc::invalid_argument when groups contradict each other.
  Awaitable<> read();

 private:
  /// A run that is on its way: not all receivers have sent an ack.
  struct Sent {
    async::Permit permit;
    std::size_t unacknowledged = 0;
    std::uint32_t file = 0;
    std::uint64_t offset_bytes = 0;
    std::span<std::byte> slot;  // Its bytes, where they are shared.
  };

  Awaitable<> read_here();
  [[nodiscard]] Wants arrange_pieces();
  Awaitable<SharedPlan> agree_on_plan(std::string wants);
  /// At rank 0: the plan for each rank, encoded.
  [[nodiscard]] std::vector<std::string> plans_for(std::span<const std::string> texts) const;
  /// Makes room for the runs that this rank passes on to others of its machine.
  Awaitable<> share_memory();
  [[nodiscard]] bool is_neighbour(std::size_t rank) const;
  [[nodiscard]] bool is_shared(const SharedPlan::Read& read) const;
  [[nodiscard]] std::span<std::byte> take_slot(std::size_t bytes);
  Awaitable<> read_files(std::map<std::uint32_t, std::vector<SharedPlan::Read>> by_file);
  Awaitable<> read_file(std::uint32_t file, std::vector<SharedPlan::Read> reads);
  /// A slot for a run that is yet to be read, where it will be shared.
  Awaitable<std::span<std::byte>> lend(SharedPlan::Read read);
  // outlives: `data` is the caller's, who awaits this
  Awaitable<> pass_on(SharedPlan::Read read, std::span<const std::byte> data);
  Awaitable<> receive_all();
  Awaitable<> receive_one();
  /// Takes a run that another rank has read to where this one wants it.
  // outlives: `message` is the caller's, who awaits this
  Awaitable<> take_run(const coord::Message& message, bool is_shared);
  /// The bytes that another rank says it shares; nothing where its memory is out of reach.
  [[nodiscard]] std::optional<std::span<const std::byte>> find_shared(std::size_t from, std::string_view text,
                                                                      const std::string& file);
  /// Sends a run to a rank that cannot read where it is.
  Awaitable<> send_again(std::size_t to, std::uint64_t number);
  void take_ack(std::uint64_t number);

  staging::DataPlane& plane_;
  const std::span<const std::uint32_t> hosts_;  // By rank.
  const std::optional<RankGroup> group_;
  coord::Channel channel_;
  const Files files_;
  PiecesByFile pieces_;  // The reader of a file takes a copy of its own.
  SharedPlan plan_;
  std::optional<io::SharedMemory> memory_;  // Of the slots; nothing where nobody else needs any.
  std::vector<std::byte*> free_slots_;      // As many as there are permits left for runs that need one.
  std::vector<bool> has_neighbours_;        // By group of the plan: whether any of it is of this machine.
  std::set<std::size_t> out_of_reach_;      // Ranks of this machine that cannot read that memory.
  std::map<std::size_t, std::shared_ptr<const std::span<const std::byte>>>
      memory_of_;  // By rank: what it shares; null: out of reach.
  async::Semaphore on_their_way_;
  std::map<const std::byte*, Sent> lent_;  // By slot: what is being read.
  std::map<std::uint64_t, Sent> sent_;     // By number.
  std::uint64_t next_number_ = 0;
  std::uint64_t to_receive_ = 0;
};

}  // namespace cairn::joint
