// SPDX-License-Identifier: Apache-2.0
// Saves a protobuf message beside a tree. Any message type will do; this one comes with protobuf itself.
#include <exception>
#include <iostream>

#include <cairn/cairn.hpp>
#include <cairn/handlers/proto.hpp>
#include <google/protobuf/duration.pb.h>

#include "own_folder.hpp"

int main() try {
  enter_own_folder("protobuf_message");
  const cairn::Tree model = {{"step", 100}};
  // [use]
  cairn::register_handler<cairn::ProtoHandler>();
  google::protobuf::Duration trained_for;
  trained_for.set_seconds(90);
  cairn::save_checkpointables("run/proto", {{"model", model}, {"trained_for", trained_for}});

  cairn::Loaded loaded = cairn::load_checkpointables("run/proto", {"trained_for"});
  const auto restored = loaded.take<google::protobuf::Duration>("trained_for");

  const auto metadata = cairn::checkpointables_metadata("run/proto");
  const auto type = metadata.at("trained_for").as<cairn::AbstractProto>();
  // [/use]
  std::cout << type.full_name() << " of " << restored.seconds() << " s\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
