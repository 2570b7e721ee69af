// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/cairn.hpp"

namespace cairn::kill {

/// What trainings on one root have said, and whether the disk agrees.
class TrainingDiary {
 public:
  /// Enters what one trainee has said, see trainee.cpp. Of trainees that ran at the same time it does not matter who
  /// is first.
  void read(const std::vector<std::string>& lines);

  /// Returns what is wrong with the steps of `root`, empty when nothing is: `lost` (the newest that was committed,
  /// one that the policy keeps for ever, one that is pinned), `damage` (wrong bytes, or not to be loaded), `foreign`
  /// (nobody has saved it), `excess` (a step that should have been removed), `failed` (what a trainee may not be
  /// told).
  [[nodiscard]] std::string complaint(const std::filesystem::path& root, const Context& context);

  /// The same after a recovery, which leaves nothing but steps and pins.
  [[nodiscard]] std::string complaint_once_recovered(const std::filesystem::path& root,
                                                     const Context& context);

  /// Steps of trainees that ran beside each other: each keeps what it sees, so more than the policy says may be there.
  void expect_others() { are_others_expected_ = true; }

  [[nodiscard]] std::uint64_t begun() const { return begun_.size(); }
  [[nodiscard]] std::uint64_t pinned() const { return pins_; }
  [[nodiscard]] std::uint64_t closed() const { return closed_; }
  [[nodiscard]] std::uint64_t resumed() const { return resumed_; }
  [[nodiscard]] std::uint64_t highest() const { return begun_.empty() ? 0 : *begun_.rbegin(); }

 private:
  void enter(const std::string& word, const std::string& rest);
  void know(std::uint64_t committed);
  void retain(std::uint64_t committed);
  [[nodiscard]] std::string complaint_about(const std::vector<std::uint64_t>& steps,
                                            const std::set<std::uint64_t>& pinned) const;
  [[nodiscard]] std::string verify(const std::filesystem::path& root, std::uint64_t step,
                                   const Context& context);
  [[nodiscard]] std::uint64_t surplus(const std::vector<std::uint64_t>& steps) const;

  std::set<std::uint64_t> begun_;
  std::optional<std::uint64_t> newest_;    // That was said to be committed.
  std::optional<std::uint64_t> retained_;  // Up to here only what is kept is there.
  std::set<std::uint64_t> for_ever_;       // Those of the policy that were there once.
  std::set<std::uint64_t> pinned_;         // Said to be pinned, and nobody began to unpin them.
  std::set<std::uint64_t> perhaps_;        // Pinned perhaps, or lately.
  std::map<std::uint64_t, std::uint64_t>
      unpinned_;  // Those of them that go with a retention after that step.
  std::set<std::uint64_t> verified_;
  std::string failures_;
  std::uint64_t pins_ = 0;
  std::uint64_t closed_ = 0;
  std::uint64_t resumed_ = 0;
  bool are_others_expected_ = false;
};

}  // namespace cairn::kill
