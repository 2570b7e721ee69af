// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <cairn/coord/coordinator.hpp>

namespace sharded {

/// The processes that mpirun has started: what the trainer lets MPI do, and what Cairn needs of it.
///
/// Threads: of one thread. Every rank calls the same methods in the same order.
class Job {
 public:
  /// Errors: std::runtime_error when this MPI serves one thread only; cairn::Error.
  Job();

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  /// For contexts: with it, they save together.
  [[nodiscard]] const std::shared_ptr<cairn::coord::Coordinator>& coordinator() const noexcept {
    return coordinator_;
  }

  /// Returns what rank 0 gives.
  [[nodiscard]] std::int64_t broadcast(std::int64_t value) const;

  /// Returns at rank 0 what each rank gives, in the order of the ranks; elsewhere nothing.
  [[nodiscard]] std::vector<std::int64_t> gather(std::int64_t value) const;

  /// Gives all ranks what each has computed: rank r brings the values from begins[r] to begins[r + 1].
  ///
  /// Shape: `begins` has size() + 1 numbers, from 0 to values.size().
  void exchange(std::span<float> values, std::span<const std::size_t> begins) const;

  /// Ends MPI, when all ranks are here. Contexts must be gone. A rank that fails ends without it, and mpirun
  /// ends the others.
  void finish();

 private:
  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;
  std::shared_ptr<cairn::coord::Coordinator> coordinator_;
};

}  // namespace sharded
