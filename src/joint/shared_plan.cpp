// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/shared_plan.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/internal/assert.hpp"
#include "base/internal/packed.hpp"
#include "io/internal/chunk_hash.hpp"
#include "staging/internal/buffer_pool.hpp"

namespace cairn::joint {
namespace {

using Ranks = std::vector<std::size_t>;

/// Where a rank begins or ceases to want a file.
struct Edge {
  std::uint64_t offset_bytes;
  std::size_t rank;
  bool is_begin;
};

class Planner {
 public:
  Planner(std::span<const Wants> by_rank, std::span<const std::uint32_t> group_of_rank)
      : by_rank_(by_rank),
        group_of_rank_(group_of_rank),
        plans_(by_rank.size()),
        groups_(by_rank.size()),
        bytes_(by_rank.size()) {}

  std::vector<SharedPlan> plan() {
    std::set<std::string, std::less<>> files;
    for (const Wants& wants : by_rank_) {
      for (const auto& [file, runs] : wants) {
        files.insert(file);
      }
    }
    std::uint32_t number = 0;
    for (const std::string& file : files) {
      divide(number++, edges_of(file));
    }
    for (SharedPlan& plan : plans_) {
      plan.files.assign(files.begin(), files.end());
    }
    return std::move(plans_);
  }

 private:
  [[nodiscard]] std::vector<Edge> edges_of(const std::string& file) const {
    std::vector<Edge> edges;
    for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
      const auto wanted = by_rank_[rank].find(file);
      if (wanted == by_rank_[rank].end()) {
        continue;
      }
      for (const staging::Run& run : wanted->second) {
        edges.push_back({run.offset_bytes, rank, true});
        edges.push_back({run.offset_bytes + run.bytes, rank, false});
      }
    }
    std::sort(edges.begin(), edges.end(),
              [](const Edge& one, const Edge& other) { return one.offset_bytes < other.offset_bytes; });
    return edges;
  }

  /// Between two edges the same ranks want all of a file.
  void divide(std::uint32_t file, const std::vector<Edge>& edges) {
    std::vector<int> depths(by_rank_.size());  // A rank's runs may touch: one ends where the next begins.
    std::set<std::size_t> wanting;
    std::uint64_t begin = 0;
    for (const Edge& edge : edges) {
      if (edge.offset_bytes > begin && !wanting.empty()) {
        share_out_in_groups(file, begin, edge.offset_bytes, {wanting.begin(), wanting.end()});
      }
      begin = edge.offset_bytes;
      depths[edge.rank] += edge.is_begin ? 1 : -1;
      if (depths[edge.rank] > 0) {
        wanting.insert(edge.rank);
      } else {
        wanting.erase(edge.rank);
      }
    }
  }

  void share_out_in_groups(std::uint32_t file, std::uint64_t begin, std::uint64_t end, const Ranks& wanting) {
    if (group_of_rank_.empty()) {
      return share_out(file, begin, end, wanting);
    }
    std::map<std::uint32_t, Ranks> by_group;
    for (const std::size_t rank : wanting) {
      by_group[group_of_rank_[rank]].push_back(rank);
    }
    for (const auto& [group, ranks] : by_group) {
      share_out(file, begin, end, ranks);
    }
  }

  /// Gives a range to those who want it: in large runs, but so that each may have one.
  void share_out(std::uint32_t file, std::uint64_t begin, std::uint64_t end, const Ranks& wanting) {
    CAIRN_ASSERT(begin < end && !wanting.empty(),
                 "a range that is shared out has bytes, and ranks that want it");
    const std::uint64_t share = (end - begin) / wanting.size() / io::kChunkBytes * io::kChunkBytes;
    const std::uint64_t most = std::clamp<std::uint64_t>(share, io::kChunkBytes, staging::kBufferBytes);
    for (const staging::Run& run : staging::cut_at_windows(begin, end)) {
      for (std::uint64_t done = 0; done < run.bytes; done += most) {
        const std::uint64_t bytes = std::min(most, run.bytes - done);
        assign(file, {run.offset_bytes + done, static_cast<std::size_t>(bytes)}, wanting);
      }
    }
  }

  void assign(std::uint32_t file, staging::Run run, const Ranks& wanting) {
    CAIRN_ASSERT(run.bytes > 0 && run.bytes <= staging::kBufferBytes,
                 "what a rank reads for others fits into a buffer");
    const std::size_t reader =
        *std::min_element(wanting.begin(), wanting.end(),
                          [this](std::size_t one, std::size_t other) { return bytes_[one] < bytes_[other]; });
    bytes_[reader] += run.bytes;
    Ranks others;
    for (const std::size_t rank : wanting) {
      if (rank != reader) {
        others.push_back(rank);
        ++plans_[rank].to_receive;
      }
    }
    SharedPlan& plan = plans_[reader];
    CAIRN_ASSERT(others.size() + 1 == wanting.size(), "a run is read by one of those that want it");
    const auto [group, is_new] =
        groups_[reader].emplace(std::move(others), static_cast<std::uint32_t>(plan.groups.size()));
    if (is_new) {
      plan.groups.push_back(group->first);
    }
    plan.reads.push_back({file, group->second, run});
  }

  const std::span<const Wants> by_rank_;
  const std::span<const std::uint32_t> group_of_rank_;  // None: all are in one.
  std::vector<SharedPlan> plans_;
  std::vector<std::map<Ranks, std::uint32_t>> groups_;  // Of each plan, by who is in them.
  std::vector<std::uint64_t> bytes_;                    // That each rank reads.
};

}  // namespace

std::vector<SharedPlan> plan_shared_reads(std::span<const Wants> by_rank,
                                          std::span<const std::uint32_t> group_of_rank) {
  return Planner(by_rank, group_of_rank).plan();
}

std::string encode_wants(const Wants& wants) {
  std::string text;
  for (const auto& [file, runs] : wants) {
    put_text(text, file);
    put(text, std::uint64_t{runs.size()});
    for (const staging::Run& run : runs) {
      put(text, run.offset_bytes);
      put(text, std::uint64_t{run.bytes});
    }
  }
  return text;
}

Wants decode_wants(std::string_view text) {
  Wants wants;
  while (!text.empty()) {
    auto& runs = wants[std::string(take_text(text))];
    for (auto left = take<std::uint64_t>(text); left > 0; --left) {
      const auto offset = take<std::uint64_t>(text);
      runs.push_back({offset, static_cast<std::size_t>(take<std::uint64_t>(text))});
    }
  }
  return wants;
}

std::string encode_plan(const SharedPlan& plan) {
  std::string text;
  put(text, plan.to_receive);
  put(text, std::uint64_t{plan.files.size()});
  for (const std::string& file : plan.files) {
    put_text(text, file);
  }
  put(text, std::uint64_t{plan.groups.size()});
  for (const Ranks& group : plan.groups) {
    put(text, std::uint64_t{group.size()});
    for (const std::size_t rank : group) {
      put(text, static_cast<std::uint32_t>(rank));
    }
  }
  for (const SharedPlan::Read& read : plan.reads) {
    put(text, read.file);
    put(text, read.receivers);
    put(text, read.run.offset_bytes);
    put(text, std::uint64_t{read.run.bytes});
  }
  return text;
}

SharedPlan decode_plan(std::string_view text) {
  SharedPlan plan;
  plan.to_receive = take<std::uint64_t>(text);
  for (auto left = take<std::uint64_t>(text); left > 0; --left) {
    plan.files.emplace_back(take_text(text));
  }
  for (auto left = take<std::uint64_t>(text); left > 0; --left) {
    Ranks& group = plan.groups.emplace_back();
    for (auto members = take<std::uint64_t>(text); members > 0; --members) {
      group.push_back(take<std::uint32_t>(text));
    }
  }
  while (!text.empty()) {
    SharedPlan::Read& read = plan.reads.emplace_back();
    read.file = take<std::uint32_t>(text);
    read.receivers = take<std::uint32_t>(text);
    read.run.offset_bytes = take<std::uint64_t>(text);
    read.run.bytes = static_cast<std::size_t>(take<std::uint64_t>(text));
  }
  return plan;
}

}  // namespace cairn::joint
