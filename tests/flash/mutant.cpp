// SPDX-License-Identifier: Apache-2.0
// Which mutant is on in a program: CAIRN_MUTANT, and in those that it starts.
#include "support/number_from.hpp"

int cairn_mutant = static_cast<int>(cairn::testing::number_from("CAIRN_MUTANT", 0));
