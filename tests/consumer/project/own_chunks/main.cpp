// SPDX-License-Identifier: Apache-2.0
// Messages of the names that TensorFlow's have, beside Cairn's own.
#include <exception>
#include <iostream>
#include <string>

#include <cairn/base/error.hpp>
#include <cairn/proto/auto_splitter.hpp>
#include <cairn/proto/chunked.pb.h>
#include <cairn/proto/chunked_file.hpp>

#include "chunk.pb.h"

int main() try {
  tensorflow::proto_splitter::ChunkMetadata message;
  for (unsigned i = 0; i < 100; ++i) {
    message.add_chunks()->set_size(1000 + i);
  }
  cairn::proto::SplitOptions options;
  options.max_size = 60;
  cairn::proto::AutoSplitter splitter(message, options);
  tensorflow::proto_splitter::ChunkMetadata merged;
  cairn::proto::merge(splitter.chunks(), splitter.chunked_message(), merged);
  if (splitter.chunks().size() < 3 || merged.SerializeAsString() != message.SerializeAsString()) {
    return 1;
  }
  try {
    splitter.write("own_chunks");
    tensorflow::proto_splitter::ChunkMetadata read;
    cairn::proto::read("own_chunks", read);
    return read.SerializeAsString() == message.SerializeAsString() ? 0 : 1;
  } catch (const cairn::Error& error) {
    return error.code() == cairn::Errc::feature_missing ? 0 : 1;  // Where Cairn was built without records.
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
