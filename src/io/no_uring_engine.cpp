// SPDX-License-Identifier: Apache-2.0
// Takes the place of uring_engine.cpp where liburing is missing.
#include <cerrno>

#include "io/uring_engine.hpp"

namespace cairn::io {

std::unique_ptr<Engine> make_uring_engine(std::uint32_t, Syscalls&, std::unique_ptr<Engine>&, int& error) {
  error = ENOSYS;
  return nullptr;
}

}  // namespace cairn::io
