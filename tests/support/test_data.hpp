// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace cairn::testing {

/// The folder tests/data. A function, so that one source alone names a folder of this machine, and the compiler's
/// cache knows the others in each clone.
[[nodiscard]] std::filesystem::path test_data();

}  // namespace cairn::testing
