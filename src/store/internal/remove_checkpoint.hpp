// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "cairn/store/reports.hpp"

#include "io/internal/file.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/checkpoint_lock.hpp"
#include "store/internal/uuid.hpp"

namespace cairn::store {

class Trash;

/// Says what is known of the directory of a checkpoint that is to go.
enum class Surroundings : std::uint8_t {
  unknown,  ///< It is listed.
  alone,  ///< A list that was just made has shown no other generation of it, and nothing that its saves have left.
};

/// Removes the checkpoint at `path` for good, with all its generations. Blocks.
///
/// After a crash at any moment the checkpoint is there, whole, or what is left of it is `recover`'s to remove:
/// 1. its directory is renamed to `.trash-<name>-<uuid>`, which no reader takes for a checkpoint;
/// 2. the parent is synced; from here on no power cut brings it back;
/// 3. the files are removed, COMMIT last. Older generations, and what an overwrite has replaced and left, go first,
///    so that none of them is ever taken for the checkpoint. Only what the manifest lists and Cairn's own few files
///    are removed. What else lies in the directory is kept: under the checkpoint's name, or, where that is taken,
///    under the one in the report. A checkpoint whose data is damaged is removed, too; one whose COMMIT or manifest
///    is damaged is not, because its files could not be told from others. Of one that is `alone` its directory is not
///    listed: to remove many of them takes as long as there are of them, not that times as many.
/// Threads: safe. A save to the same path at the same time may lose its checkpoint.
/// Errors:  Errc::invalid_argument (no name of a checkpoint), Errc::not_found, Errc::not_committed (a file, a link,
///          any other directory), Errc::malformed_metadata, Errc::checksum_mismatch and Errc::unsupported_version
///          (COMMIT or the manifest is damaged, or not ours to judge): nothing is removed. OS errors pass through;
///          when the checkpoint is gone from `path` then, it may come back after a power cut until `recover` has
///          removed the rest. `trash` learns what was renamed away and is not removed then. Null: nobody asks.
RemovalReport remove_checkpoint(io::Syscalls& syscalls, const std::filesystem::path& path,
                                const RandomSource& random = system_random, Trash* trash = nullptr,
                                Surroundings surroundings = Surroundings::unknown);
/// The same of the one called `name` in a directory that is open, wherever its path leads by now.
RemovalReport remove_checkpoint(const io::Directory& parent, const std::string& name,
                                const RandomSource& random = system_random, Trash* trash = nullptr,
                                Surroundings surroundings = Surroundings::unknown);

/// Takes the lock of the checkpoint `name`, for which it waits a while, so that nobody begins to keep it. Blocks.
///
/// A pin is one of the step that the manifest names, where the name ends with that number; else of the number with
/// which the name ends, because steps are called so.
/// Errors: as remove_checkpoint; EBUSY, which says who keeps it: a pin, a reader that holds it, or who pins, replaces
///         or removes it.
[[nodiscard]] CheckpointLock lock_to_remove(const io::Directory& parent, const std::string& name,
                                            const Clock& clock);

/// Removes a directory of a root in memory with all that lies in it, a checkpoint or not: there all is Cairn's. It
/// loses its name first. Blocks.
///
/// Errors: OS errors pass through: what was not reached is still there, under a reserved name.
void remove_whole(const io::Directory& root, const std::string& name,
                  const RandomSource& random = system_random);

}  // namespace cairn::store
