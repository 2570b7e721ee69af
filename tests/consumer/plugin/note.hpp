// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// What the host saves and the plugin has a handler for.
struct Note {
  std::string text;
};

/// What a note is described by; nothing about it can be wanted otherwise.
struct AbstractNote {};
