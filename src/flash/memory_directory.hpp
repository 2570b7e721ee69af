// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "flash/memory.hpp"
#include "store/internal/memory_mark.hpp"
#include "store/internal/memory_root.hpp"

namespace cairn::flash {

/// Returns what the mark of a memory says that a program fills in this way.
[[nodiscard]] store::MemoryMark mark_of(const Memory::Options& options, const std::string& run);

/// Opens the directory of a memory, or makes it, and claims the root of the rank. A program that was killed has it
/// until the kernel has taken it apart: it is waited for, for some seconds.
///
/// Errors: as FlashCheckpointer.
[[nodiscard]] std::shared_ptr<store::MemoryRoot> claim_memory(const Memory::Options& options,
                                                              io::Syscalls& syscalls,
                                                              const store::RandomSource& random);

}  // namespace cairn::flash
