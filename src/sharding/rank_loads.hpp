// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace cairn::sharding_detail {

/// How many bytes each rank writes so far, and who has least of the ranks that hold a part.
///
/// Ranks that hold the same parts are a group. A group knows how much is still to be given to it, and so the level at
/// which its ranks end when all have the same. A part that is cut fills one rank after the other up to that level, so
/// that each piece ends a part or fills a rank: a group has about as many pieces as parts and ranks together.
class RankLoads {
 public:
  using Group = std::uint32_t;

  /// The bytes of a part that a rank gets.
  struct Amount {
    std::uint32_t rank = 0;
    std::uint64_t bytes = 0;
  };

  explicit RankLoads(std::uint32_t ranks) : loads_(ranks, 0) {}

  /// How much each would write if all wrote the same: what the tolerances are fractions of. At least 1.
  void set_share(std::uint64_t bytes) noexcept { share_ = bytes; }

  /// The group of these ranks, which are in order.
  [[nodiscard]] Group group_of(std::vector<std::uint32_t> ranks);

  /// Says that a part of so many bytes will be given to the group.
  void expect(Group group, std::uint64_t bytes);

  /// Says that it has been given.
  void settle(Group group, std::uint64_t bytes);

  void add(std::uint32_t rank, std::uint64_t bytes) { loads_[rank] += bytes; }

  [[nodiscard]] std::span<const std::uint64_t> loads() const noexcept { return loads_; }

  /// The lowest of the ranks that have least.
  [[nodiscard]] std::uint32_t least_loaded(Group group);

  /// Returns whether an expected part would leave even the least loaded with too much, and is worth a cut.
  [[nodiscard]] bool is_too_much(std::uint64_t bytes, Group group);

  /// Returns which ranks get how much of an expected part: the least loaded first, and as few as keep the
  /// balance. Adds nothing yet.
  [[nodiscard]] std::vector<Amount> divide(Group group, std::uint64_t bytes);

  /// Returns whether a piece is about as large as it should be.
  [[nodiscard]] bool is_close(std::uint64_t bytes, std::uint64_t wanted) const noexcept;

 private:
  struct Entry {
    std::uint64_t bytes = 0;  // The load of the rank when the entry was made; loads only grow.
    std::uint32_t rank = 0;
  };

  struct Members {
    const std::vector<std::uint32_t>* ranks = nullptr;  // A key of `groups_`.
    std::uint64_t expected_bytes = 0;
    std::optional<std::uint64_t> level;  // Of each rank in the end; worked out when it is first needed.
    std::vector<Entry> heap;             // The least first; made when it is first needed.
  };

  static bool has_more(const Entry& a, const Entry& b) noexcept;
  static void pop(std::vector<Entry>& heap);
  static void push(std::vector<Entry>& heap, Entry entry);

  [[nodiscard]] Entry least(Members& members);
  [[nodiscard]] std::vector<Entry> take(Members& members, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t level_of(const Members& members) const;
  [[nodiscard]] static std::vector<Amount> fill(std::span<const Entry> entries, std::uint64_t bytes,
                                                std::uint64_t level);
  [[nodiscard]] std::uint64_t smallest_piece() const noexcept;
  [[nodiscard]] std::uint64_t tolerance() const noexcept;

  std::vector<std::uint64_t> loads_;
  std::uint64_t share_ = 1;
  std::map<std::vector<std::uint32_t>, Group> groups_;
  std::vector<Members> members_;  // By group.
};

}  // namespace cairn::sharding_detail
