// SPDX-License-Identifier: Apache-2.0
#include "base/internal/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace cairn {

void fail_assertion(const char* rule, const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "cairn: %s:%d: this must hold: %s (%s)\n", file, line, rule, condition);
  std::abort();
}

}  // namespace cairn
