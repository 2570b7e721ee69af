// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "cairn/handlers/tree.hpp"

#include "verdicts/guarded_memory.hpp"

namespace cairn::verdicts {

/// Memory of a program that it lets the library use: an array, and the tree that refers to it.
///
/// Both lie in guarded memory: whoever uses either after it was given back is seen.
/// Threads: one at a time.
class Loan {
 public:
  Loan() = default;
  /// For `count` elements.
  Loan(std::size_t count, const std::string& owner)
      : memory_(GuardedMemory::the().lend(kFirstPage + count * sizeof(std::uint64_t), owner)) {}
  ~Loan() { give_back(); }
  Loan(Loan&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), tree_(std::exchange(other.tree_, nullptr)) {}
  Loan& operator=(Loan&& other) noexcept {
    if (this != &other) {
      give_back();
      memory_ = std::exchange(other.memory_, nullptr);
      tree_ = std::exchange(other.tree_, nullptr);
    }
    return *this;
  }

  [[nodiscard]] bool is_lent() const noexcept { return memory_ != nullptr; }

  [[nodiscard]] std::span<std::uint64_t> array(std::size_t count) const {
    return {reinterpret_cast<std::uint64_t*>(memory_ + kFirstPage), count};
  }

  /// A tree that refers to the array, made with the first call.
  const Tree& tree(std::uint64_t number, std::size_t count) {
    if (tree_ == nullptr) {
      tree_ = new (memory_) Tree;
      (*tree_)["n"] = number;
      (*tree_)["a"] = array(count);
    }
    return *tree_;
  }

  void give_back() noexcept {
    if (std::byte* memory = std::exchange(memory_, nullptr)) {
      if (Tree* tree = std::exchange(tree_, nullptr)) {
        std::destroy_at(tree);
      }
      GuardedMemory::the().give_back(memory);
    }
  }

 private:
  static constexpr std::size_t kFirstPage = 4096;
  static_assert(sizeof(Tree) <= kFirstPage);

  std::byte* memory_ = nullptr;
  Tree* tree_ = nullptr;
};

}  // namespace cairn::verdicts
