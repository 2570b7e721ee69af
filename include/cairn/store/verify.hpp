// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/io/syscalls.hpp"

namespace cairn::store {

/// In which way a part of a checkpoint is not what was written.
enum class Damage : std::uint8_t {
  missing,     ///< The file is not there.
  wrong_kind,  ///< A directory, a link or a device is in the file's place.
  wrong_size,  ///< The file is shorter or longer; its bytes were not compared.
  altered,     ///< Bytes differ from what was written.
  unreadable,  ///< The operating system could not read the bytes.
};

/// "missing", "wrong kind", …
[[nodiscard]] std::string_view name(Damage damage) noexcept;

struct VerifyProblem {
  Damage damage = Damage::altered;
  std::string file;  ///< Relative to the checkpoint.
  /// Which chunk of the file; nothing when the whole file is concerned, or nobody can tell which part.
  std::optional<std::uint64_t> chunk;
  std::uint64_t begin_bytes =
      0;  ///< The bytes concerned: [begin_bytes, end_bytes) of the file as it was written.
  std::uint64_t end_bytes = 0;
  std::string text;  ///< For people: the path, the chunk and its range, and what is wrong.
};

struct VerifyProgress {
  std::uint64_t total_bytes = 0;  ///< Of all files that are to be compared.
  std::uint64_t checked_bytes = 0;
  std::uint64_t problems = 0;
};

struct VerifyReport {
  std::filesystem::path path;
  std::uint64_t files = 0;              ///< That the checkpoint lists, its own three included.
  std::uint64_t bytes = 0;              ///< That were read and compared.
  std::uint64_t problem_count = 0;      ///< All of them, also those beyond VerifyOptions::max_problems.
  std::vector<VerifyProblem> problems;  ///< Sorted by file, then by position.
  /// What lies in the checkpoint's directory and is not the checkpoint's, relative and sorted; of a whole tree its top.
  /// Not a problem: nothing of it is read, and nothing of Cairn removes it.
  std::vector<std::string> foreign;
  std::uint64_t foreign_count = 0;  ///< All of it, also beyond VerifyOptions::max_problems.

  [[nodiscard]] bool is_sound() const noexcept { return problem_count == 0; }
};

struct VerifyOptions {
  VerifyOptions() = default;

  /// Threads that hash, and read what is small or in the page cache; 0: as many as the machine has cores. Each costs up to
  /// 20 MiB of memory, for the transfers that it keeps in flight.
  std::size_t threads = 0;
  /// Check only what lies below this directory of the checkpoint; empty: everything.
  std::string directory;
  /// Problems that are kept, and foreign files; more are counted. Bounds memory when a large checkpoint is destroyed.
  std::size_t max_problems = 10'000;
  /// Called about ten times a second and once at the end, on the calling thread. What it throws ends the check.
  std::function<void(const VerifyProgress&)> progress;
};

/// Compares every byte of a committed checkpoint with the chain COMMIT, checkpoint.json, chunk hashes, chunks.
///
/// Does not stop at damage: the report lists all that was found. A damaged chunks.xxh3 does not hide the state of the
/// data, which is then compared with the root of each file. Large files that are not in the page cache are read past it.
/// Memory: besides that of the threads, eight bytes for each MiB of the files being read. Begins again when the checkpoint is replaced meanwhile. Blocks.
///
/// Errors: Errc::not_found, Errc::not_committed, and what else makes CommittedDirectory::open fail: without a sound COMMIT
///         and checkpoint.json there is nothing to compare with. Errc::not_found when `directory` is none of the checkpoint. EAGAIN
///         when the system has not one thread left.
[[nodiscard]] VerifyReport verify(io::Syscalls& syscalls, const std::filesystem::path& path,
                                  const VerifyOptions& options = {});

}  // namespace cairn::store
