// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "cairn/contract/checkpointable.hpp"
#include "cairn/contract/registry.hpp"
#include "cairn/core/load.hpp"

namespace cairn::faults {

/// A protobuf message in a checkpoint, where Cairn was built with protobuf; else nothing.
class Message {
 public:
  Message() = default;
  virtual ~Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  virtual void add_to(Checkpointables& items) const = 0;
  [[nodiscard]] virtual bool is_in(Loaded& loaded) const = 0;
};

[[nodiscard]] std::unique_ptr<Message> make_message(std::int64_t number);
[[nodiscard]] HandlerRegistry message_handlers();

}  // namespace cairn::faults
