// SPDX-License-Identifier: Apache-2.0
// A protobuf message in a checkpoint and one in chunks, with the component proto.
#include <exception>
#include <filesystem>
#include <iostream>

#include <cairn/cairn.hpp>
#include <cairn/handlers/proto.hpp>
#include <cairn/proto/auto_splitter.hpp>
#include <cairn/proto/chunked.pb.h>
#include <cairn/proto/merger.hpp>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/struct.pb.h>

namespace {

bool comes_back_from_chunks() {
  google::protobuf::Struct message;
  for (const char* key : {"a", "b", "c", "d"}) {
    (*message.mutable_fields())[key].set_string_value("text");
  }
  cairn::proto::SplitOptions options;
  options.max_size = 20;
  cairn::proto::AutoSplitter splitter(message, options);
  google::protobuf::Struct merged;
  cairn::proto::merge(splitter.chunks(), splitter.chunked_message(), merged);
  return splitter.chunked_message().chunked_fields_size() > 1 && merged.fields_size() == 4;
}

}  // namespace

int main() try {
  std::filesystem::remove_all("checkpoint of a message");
  cairn::register_handler<cairn::ProtoHandler>();
  google::protobuf::Duration saved;
  saved.set_seconds(7);
  cairn::save_checkpointables("checkpoint of a message", {{"trained_for", saved}});

  cairn::Loaded loaded = cairn::load_checkpointables("checkpoint of a message");
  const auto message = loaded.take<google::protobuf::Duration>("trained_for");
  return message.seconds() == 7 && comes_back_from_chunks() ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
