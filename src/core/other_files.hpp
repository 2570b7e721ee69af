// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/internal/chunk_hash.hpp"
#include "io/internal/file.hpp"

namespace cairn::core {

/// Makes durable and hashes the files below the sub-directories of `staged` that `written` does not name: those
/// that handlers wrote without their context. The names become durable when the checkpoint is published.
///
/// Blocks; holds one buffer of a chunk, however large the files are.
/// Errors: Errc::handler_failed when something is not a regular file, lies too deep, or has not the same size at the
///         end as at the beginning, because somebody still writes it; OS errors.
std::vector<io::FileDigest> digest_other_files(const io::Directory& staged,
                                               const std::map<std::string, io::FileDigest>& written);

}  // namespace cairn::core
