// SPDX-License-Identifier: Apache-2.0
#include "faults/message.hpp"

namespace cairn::faults {
namespace {

class Nothing final : public Message {
 public:
  void add_to(Checkpointables& /*items*/) const override {}
  [[nodiscard]] bool is_in(Loaded& /*loaded*/) const override { return true; }
};

}  // namespace

std::unique_ptr<Message> make_message(std::int64_t /*number*/) {
  return std::make_unique<Nothing>();
}

HandlerRegistry message_handlers() {
  return {};
}

}  // namespace cairn::faults
