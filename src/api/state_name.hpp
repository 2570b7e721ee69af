// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn {

/// The checkpointable that `save` and `load` of one tree speak of.
inline constexpr const char* kStateName = "state";

}  // namespace cairn
