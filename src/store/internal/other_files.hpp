// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/internal/chunk_hash.hpp"
#include "io/internal/file.hpp"

namespace cairn::store {

/// Makes durable and hashes the files below the sub-directories of `staged` that `written` does not name: those that
/// handlers wrote without their context. The names become durable when the checkpoint is published. Sub-directories
/// called as `skipped` says are not looked at.
///
/// Blocks; holds one buffer of a chunk, however large the files are.
/// Errors: Errc::handler_failed when something is not a regular file, lies too deep, or has not the same size at the
///         end as at the beginning, because somebody still writes it; OS errors.
std::vector<io::FileDigest> digest_other_files(const io::Directory& staged,
                                               const std::map<std::string, io::FileDigest>& written,
                                               const std::set<std::string, std::less<>>& skipped = {});

/// The same for one of them.
///
/// Errors: as above; Errc::not_found.
io::FileDigest digest_other_file(const io::Directory& staged, const std::string& relative);

/// The files below a sub-directory of `staged` that are not in `known`.
std::vector<std::string> unknown_files(const io::Directory& staged, const std::string& directory,
                                       const std::set<std::string, std::less<>>& known);

}  // namespace cairn::store
