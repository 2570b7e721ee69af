// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <google/protobuf/message.h>

namespace cairn::detail {

/// Fills `message` from the bytes of a file that may hold anything; `path` names it.
///
/// Errors: Errc::malformed_metadata when they are not a message of its type, or required fields are missing.
void parse_message(const std::string& bytes, google::protobuf::Message& message, std::string_view path);

/// Refuses a message that parse_message would not read again, for its depth. `bytes` are its binary form, `name` is
/// that of the checkpointable.
///
/// Errors: Errc::invalid_argument.
void check_nesting(const std::string& bytes, const google::protobuf::Message& message, std::string_view name);

/// The full name of a type, from the text of the file that has nothing but it in one line.
///
/// Errors: Errc::malformed_metadata, naming `path`.
[[nodiscard]] std::string parse_type_name(std::string text, std::string_view path);

}  // namespace cairn::detail
