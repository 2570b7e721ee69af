// SPDX-License-Identifier: Apache-2.0
#include "support/test_data.hpp"

namespace cairn::testing {

std::filesystem::path test_data() {
  return CAIRN_TEST_DATA;
}

}  // namespace cairn::testing
