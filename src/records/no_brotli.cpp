// SPDX-License-Identifier: Apache-2.0
#include "records/codec.hpp"

namespace cairn::records {

CodecFunctions brotli_functions() noexcept {
  return {};
}

}  // namespace cairn::records
