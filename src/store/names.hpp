// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/internal/file.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// In place of `.owner` in a directory that has its final name, but no COMMIT yet (marker mode).
inline constexpr std::string_view kUncommittedName = ".uncommitted";

/// What a directory is called in the temporary one before it gets its final name (marker mode).
inline constexpr std::string_view kPublishingName = ".publishing";

/// How the directory is called that holds the parts of a checkpoint: before its name.
inline constexpr std::string_view kPartialPrefix = ".partial-";

/// How the names of what a training keeps beside its steps begin: pins, histories of runs, steps that were set aside.
inline constexpr std::string_view kRunPrefix = ".cairn-";

/// In a root of a memory: the claim of the program that fills it.
inline constexpr std::string_view kProgramName = ".cairn-program";

/// In a root of a memory: the files whose memory is used again.
inline constexpr std::string_view kSpareName = ".cairn-spare";

/// Longest name of a checkpoint: leaves room for what is put around it in a name of 255 bytes.
inline constexpr std::size_t kMostTargetBytes = 200;

/// ".tmp-<name>-<uuid>": what is being written, or what an overwrite has replaced.
[[nodiscard]] std::string temporary_name(std::string_view name, const Uuid& uuid);
/// ".trash-<name>-<uuid>": what somebody has asked to be removed. It never comes back.
[[nodiscard]] std::string trash_name(std::string_view name, const Uuid& uuid);

enum class ReservedKind : std::uint8_t { temporary, trash };

/// The parts of a name that Cairn keeps for itself.
struct ReservedName {
  ReservedKind kind = ReservedKind::temporary;
  std::string_view base;  ///< Of the checkpoint.
  Uuid uuid;              ///< Of the save, or of nobody.
};

/// Nothing for any other name.
[[nodiscard]] std::optional<ReservedName> parse_reserved(std::string_view name);

/// Returns whether `name` begins as these do; somebody may have cut or mended what follows.
[[nodiscard]] bool has_reserved_prefix(std::string_view name) noexcept;

/// Which of the two `name` is; nothing for any other name.
[[nodiscard]] std::optional<ReservedKind> reserved_kind(std::string_view name);

/// "<name>" for 1, "<name>.g<generation>" above.
[[nodiscard]] std::string generation_name(std::string_view name, std::uint32_t generation);

struct GenerationName {
  std::string_view base;
  std::uint32_t generation = 1;
};

/// Splits what `generation_name` makes; any other name is the first generation of itself.
[[nodiscard]] GenerationName parse_generation(std::string_view name) noexcept;

/// Returns what a directory holds, in no order; nothing when it may be entered, but not listed.
[[nodiscard]] std::optional<std::vector<io::DirectoryEntry>> list_if_allowed(const io::Directory& directory);

/// The directories of `parent` that are called as a generation of `name`, the highest first. When `parent` may
/// not be listed, only the first generation is found.
[[nodiscard]] std::vector<std::uint32_t> list_generations(const io::Directory& parent, std::string_view name);

}  // namespace cairn::store
