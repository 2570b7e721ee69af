// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The version of these headers; the build reads it from here. Before 1.0 a new minor version may change interfaces.
#define CAIRN_VERSION_MAJOR 0
#define CAIRN_VERSION_MINOR 1
#define CAIRN_VERSION_PATCH 0

/// The version as one number that grows with it, for `#if CAIRN_VERSION >= 102` (0.1.2).
#define CAIRN_VERSION (CAIRN_VERSION_MAJOR * 10000 + CAIRN_VERSION_MINOR * 100 + CAIRN_VERSION_PATCH)
