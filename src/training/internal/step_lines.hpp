// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "io/internal/file.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::training {

/// A root keeps here what programs with steps in memory need to know.
inline constexpr std::string_view kFlashName = ".cairn-flash";
inline constexpr std::string_view kLineName = "line";  ///< In it.

/// The lines of steps of a root: 0 at first, and another one from each rewind on. A later line has left an earlier one
/// at a step; what that has from there on is given up, wherever it lies.
///
/// Source: docs/format.md, "Steps of a training".
class StepLines {
 public:
  /// Errors: Errc::malformed_metadata; OS errors.
  [[nodiscard]] static StepLines read(const io::Directory& root);

  /// The line of new steps.
  [[nodiscard]] std::uint64_t newest() const noexcept { return newest_; }
  enum class Standing : std::uint8_t { kept, given_up, unknown };
  /// Returns whether a step of a line is given up; nobody knows of a line that comes after the newest.
  [[nodiscard]] Standing standing(std::uint64_t line, std::uint64_t step) const noexcept;

  /// Begins another line, which the steps from one on are in.
  void begin(std::uint64_t from);
  /// Replaces what `read` reads, durably.
  ///
  /// Errors: OS errors.
  void write(const io::Directory& root, const store::RandomSource& random) const;
  /// The same after a rewind that has failed. Where the disk refuses that, too, what it was to give up is given up.
  void write_back(const io::Directory& root, const store::RandomSource& random) const noexcept;

 private:
  struct Fork {
    std::uint64_t line = 0;
    std::uint64_t from = 0;  // What earlier lines have from here on is given up.
  };

  std::uint64_t newest_ = 0;
  std::vector<Fork> forks_;  // Both rise.
};

/// Begins another line of steps, durably, in a root where programs have had steps in memory: nobody would ask
/// elsewhere. Returns the lines that were there before, which are written back where this fails.
///
/// Errors: as StepLines::read and StepLines::write.
std::optional<StepLines> begin_line(const io::Directory& root, std::uint64_t from,
                                    const store::RandomSource& random);

}  // namespace cairn::training
