// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/selection.hpp"
#include "cli/window.hpp"

namespace cairn::cli {

/// Writes all that is selected of an array, row-major, for other programs: as a file of numpy, as text with a row of
/// the last dimension on each line (of an array of one dimension an element), or as the bytes of the elements.
///
/// What is read is verified, and two batches of 64 MiB are held at a time.
/// Errors: Errc::invalid_argument, which names `title` and what can be done: numpy has no such type, or a part of an
///         array was selected whose elements share bytes. As ArrayReader's constructor and `start`, and
///         ArrayReading::wait: then the text ends early.
void write_elements(Output& out, const std::string& title, const ArrayPlace& array,
                    const Selection& selection, ElementForm form);

}  // namespace cairn::cli
