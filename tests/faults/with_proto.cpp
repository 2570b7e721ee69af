// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/wrappers.pb.h>

#include "cairn/handlers/proto.hpp"

#include "faults/message.hpp"

namespace cairn::faults {
namespace {

class Number final : public Message {
 public:
  explicit Number(std::int64_t number) { value_.set_value(number); }

  void add_to(Checkpointables& items) const override { items.emplace_back("message", value_); }

  [[nodiscard]] bool is_in(Loaded& loaded) const override {
    return loaded.take<google::protobuf::Int64Value>("message").value() == value_.value();
  }

 private:
  google::protobuf::Int64Value value_;
};

}  // namespace

std::unique_ptr<Message> make_message(std::int64_t number) {
  return std::make_unique<Number>(number);
}

HandlerRegistry message_handlers() {
  return HandlerRegistry().add<ProtoHandler>();
}

}  // namespace cairn::faults
