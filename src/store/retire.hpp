// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/internal/file.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

/// Why a checkpoint goes.
enum class Retirement : std::uint8_t {
  replaced,  ///< Another one stands in its place: until all of it is gone, it may have to come back.
  removed,   ///< Somebody has asked for it: it never comes back.
};

/// Removes the checkpoint in `directory`, which `parent` calls `name`, in an order that a crash may interrupt anywhere.
///
/// 1. The name gives way to a reserved one with `base` in it: a half-removed checkpoint must not bear the name of one.
/// 2. The parent is synced, or a power cut could bring that name back. When this fails, nothing is removed.
/// 3. `remove_retired`.
/// The caller has looked at `directory` and knows that it is ours. Whatever somebody puts in the place of its
/// name meanwhile keeps its contents.
/// Returns what was kept and where, for people; empty when nothing was.
/// Errors: OS errors pass through.
std::string retire(const io::Directory& parent, const std::string& name, std::string_view base,
                   const io::Directory& directory, Retirement why, const RandomSource& random);

/// Does the first step of `retire`: gives it the name `aside`, which is nobody's. Nothing is synced.
///
/// Errors: OS errors pass through. It may be done all the same, where it cannot be seen: who goes on then looks again.
void set_aside(const io::Directory& parent, const std::string& name, const std::string& aside,
               const io::Directory& directory);

/// Removes the checkpoint in `directory`, which `parent` calls by the reserved name `name`: what its manifest lists and
/// our own few files, COMMIT last. What else is there is not ours: it stays, under the name that the checkpoint had,
/// where that is free, or under the one that it has. Links are removed or kept, never followed.
///
/// Returns and Errors: as `retire`; Errc::malformed_metadata when nobody can tell which files are the checkpoint's:
///         then nothing is removed.
std::string remove_retired(const io::Directory& parent, const std::string& name,
                           const io::Directory& directory);

/// Removes all that a save that was never finished has left in `directory`, which `parent` calls `name`. COMMIT goes
/// first and for good: without the mark of its owner this would be taken for a checkpoint. The marks go last.
void remove_unfinished(const io::Directory& parent, const std::string& name, const io::Directory& directory);

/// Gives `name` a name that nobody has, with a rename that refuses to replace where there is one.
///
/// Errors: OS errors pass through: EEXIST or ENOTEMPTY when the name is taken.
void rename_to_free_name(const io::Directory& parent, const std::string& name, const std::string& free_name);
/// The same in another directory.
void rename_to_free_name(const io::Directory& parent, const std::string& name, const io::Directory& to,
                         const std::string& free_name);

/// Returns whether `parent` is seen to have `directory` under that name. False says nothing: it may not have
/// been seen.
[[nodiscard]] bool is_called(const io::Directory& parent, const std::string& name,
                             const io::Directory& directory) noexcept;

}  // namespace cairn::store
