// SPDX-License-Identifier: Apache-2.0
// The input is the text of a path and, behind a line end, chunks and the tree that puts them together. An Error, or a
// message that is the same after it was cut and merged again. The types are of protobuf itself: maps that nest, and
// lists, enums and required fields.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/stubs/logging.h>

#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/merger.hpp"
#include "cairn/proto/path.hpp"

#include "fuzz/fuzzing.hpp"

namespace {

using cairn::Errc;
using cairn::fuzz::attempt;
using cairn::fuzz::require;
using cairn::proto::Chunk;
using google::protobuf::Message;

/// The types of chunks; the first two are those of what is merged.
const std::array<const Message*, 5>& prototypes() {
  static const std::array<const Message*, 5> all = {
      &google::protobuf::Struct::default_instance(),
      &google::protobuf::FileDescriptorProto::default_instance(),
      &google::protobuf::Value::default_instance(), &google::protobuf::DescriptorProto::default_instance(),
      &google::protobuf::FieldDescriptorProto::default_instance()};
  return all;
}

std::string serialised(const Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  {
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializePartialToCodedStream(&coded);
  }
  return bytes;
}

void check_path(std::string_view text) {
  const auto path = attempt({Errc::invalid_argument}, [&] { return cairn::proto::parse_path(text); });
  if (path) {
    require(cairn::proto::parse_path(cairn::proto::to_text(*path)) == *path,
            "a path comes back from its text");
  }
}

std::vector<Chunk> take_chunks(cairn::fuzz::Input& input) {
  std::vector<Chunk> chunks;
  for (int left = input.take<std::uint8_t>() % 8; left > 0; --left) {
    const std::size_t type = input.take<std::uint8_t>() % (prototypes().size() + 1);
    std::string bytes(input.take_text(input.take<std::uint8_t>()));
    if (type == prototypes().size()) {
      chunks.emplace_back(std::move(bytes));
      continue;
    }
    std::shared_ptr<Message> message(prototypes()[type]->New());
    (void)message->ParsePartialFromString(bytes);
    chunks.emplace_back(std::shared_ptr<const Message>(std::move(message)));
  }
  return chunks;
}

void check_cut_again(const Message& message, std::uint64_t max_size) {
  cairn::proto::SplitOptions options;
  options.max_size = max_size;
  cairn::proto::AutoSplitter splitter(message, options);
  const auto split = attempt({Errc::invalid_argument}, [&] { return splitter.split(); });
  if (split) {
    const std::unique_ptr<Message> again(message.New());
    cairn::proto::merge(split->chunks, split->chunked_message, *again);
    require(serialised(*again) == serialised(message), "a message that is cut and merged is the same");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // It would print a line for each string that is no UTF-8.
  static auto* const silenced = google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(silenced);
  (void)prototypes();
  cairn::fuzz::Input input(data, size);
  // Protobuf makes room for a string before it looks for its bytes, for 50,000,000 of them at most.
  const cairn::fuzz::MemoryBound bound(51'000'000 + 1024 * size);
  check_path(input.take_until('\n'));
  const std::size_t root = input.take<std::uint8_t>() % 2;
  const std::uint64_t max_size = 1 + input.take<std::uint8_t>();
  const std::vector<Chunk> chunks = take_chunks(input);
  cairn::chunked::ChunkedMessage tree;
  if (!tree.ParseFromString(std::string(input.rest()))) {
    return 0;
  }
  const std::unique_ptr<Message> message(prototypes()[root]->New());
  cairn::proto::MergeOptions options;
  options.threads = 1;
  options.most_empty_elements = 100;
  const auto merged = attempt({Errc::malformed_metadata, Errc::type_mismatch},
                              [&] { return cairn::proto::merge(chunks, tree, *message, options); });
  if (merged) {
    check_cut_again(*message, max_size);
  }
  return 0;
}
