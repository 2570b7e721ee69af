// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/internal/file.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// What a program says of itself in `.cairn-program` of the root in memory that it fills.
struct ClaimRecord {
  ClaimRecord() = default;

  std::uint32_t rank = 0;
  std::uint64_t pid = 0;
  std::uint64_t start_time = 0;            ///< Clock ticks after boot, as that of an Owner.
  Uuid program;                            ///< Random: the next program has another.
  std::optional<std::uint64_t> left_step;  ///< What it has left to the agent to persist.
  bool has_ended = false;                  ///< In order: what follows is no failure.
  friend bool operator==(const ClaimRecord&, const ClaimRecord&) = default;
};

/// Opens a file of this user that programs lock to say that they are there; makes it where it is missing.
///
/// Errors: Errc::malformed_metadata: it is not a regular file; OS errors.
[[nodiscard]] io::FileHandle open_to_lock(const io::Directory& directory, std::string_view name);

/// 128 bytes.
[[nodiscard]] std::string encode_claim(const ClaimRecord& record);
/// Nothing for any other bytes than those of `encode_claim`.
[[nodiscard]] std::optional<ClaimRecord> parse_claim(std::string_view bytes);

/// What somebody sees who looks at a claim.
struct ClaimLook {
  bool is_free = true;                ///< No program has it.
  std::optional<ClaimRecord> record;  ///< Of the last program; nothing where that cannot be read.
};

/// Looks at the claim of a root. Not for the process that has it, which would lose it by that.
///
/// Errors: OS errors.
[[nodiscard]] ClaimLook look_at_claim(const io::Directory& root);

/// The right to fill checkpoints in a root in memory, and to change their files: a lock of the process on
/// `.cairn-program`, which ends with it, however it ends.
///
/// The lock does not keep out the same process, and any close of the file in it gives the lock back: who makes a claim
/// knows that this process has none there (MemoryRoot), and renews it before it relies on it.
class ProgramClaim {
 public:
  /// Takes it, and writes who has it.
  ///
  /// Errors: EBUSY, which says who has it; OS errors.
  ProgramClaim(const io::Directory& root, std::uint32_t rank, const RandomSource& random);

  [[nodiscard]] const ClaimRecord& record() const noexcept { return record_; }
  /// What the file said of the program before; nothing where there was none, or it cannot be read.
  [[nodiscard]] const std::optional<ClaimRecord>& before() const noexcept { return before_; }
  /// Asks for the lock once more.
  ///
  /// Errors: EBUSY when another program has it, or has had it meanwhile; ENOENT when the file has lost its name.
  void renew() const;
  /// Says that the program ends in order, and leaves the agent a step to persist, if it does.
  void end(std::optional<std::uint64_t> left_step);

 private:
  void write();

  const std::filesystem::path path_;
  io::FileHandle file_;
  std::optional<ClaimRecord> before_;
  ClaimRecord record_;
};

}  // namespace cairn::store
