// SPDX-License-Identifier: Apache-2.0
// A protobuf message, with the component proto.
#include <exception>
#include <filesystem>
#include <iostream>

#include <cairn/cairn.hpp>
#include <cairn/handlers/proto.hpp>
#include <google/protobuf/duration.pb.h>

int main() try {
  std::filesystem::remove_all("checkpoint of a message");
  cairn::register_handler<cairn::ProtoHandler>();
  google::protobuf::Duration saved;
  saved.set_seconds(7);
  cairn::save_checkpointables("checkpoint of a message", {{"trained_for", saved}});

  cairn::Loaded loaded = cairn::load_checkpointables("checkpoint of a message");
  const auto message = loaded.take<google::protobuf::Duration>("trained_for");
  return message.seconds() == 7 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
