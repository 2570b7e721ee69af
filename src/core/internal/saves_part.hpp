// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cairn::core {

/// Among the options for handlers of a save: it adds a part to a directory of parts, where no other save may be.
struct SavesPart {};

}  // namespace cairn::core
