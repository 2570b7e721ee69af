// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An example whose main is a function of a program of many, which calls it by name.
struct JoinedExample {
  JoinedExample(const char* name, int (*main)());
  JoinedExample(const char* name, int (*main)(int, char**));
};
