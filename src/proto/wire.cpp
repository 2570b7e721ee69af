// SPDX-License-Identifier: Apache-2.0
#include "proto/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>

#include <google/protobuf/io/coded_stream.h>

namespace cairn::proto {

bool parse(std::string_view bytes, google::protobuf::Message& out, int most_nesting) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return false;
  }
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(most_nesting);
  return out.MergePartialFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

}  // namespace cairn::proto
