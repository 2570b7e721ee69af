// SPDX-License-Identifier: Apache-2.0
// Writes messages in chunks, for TensorFlow's merger to read (tests/interop/tensorflow): FOLDER/<case>.cpb or .pb, and
// FOLDER/<case>.expected, the message.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <graph_splitter.hpp>

#include "cairn/base/error.hpp"
#include "cairn/proto/auto_splitter.hpp"
#include "cairn/proto/splitter.hpp"

#include "graph.pb.h"
#include "support/dice.hpp"
#include "support/temp_dir.hpp"
#include "support/test_data.hpp"

namespace {

using cairn::proto::ComposableSplitter;
using google::protobuf::Message;
using Messages = std::map<std::string, std::unique_ptr<Message>>;

/// A graph with long lists, and elements of all sizes, below keys of maps that lie in each other.
std::unique_ptr<Message> lists_below_keys(std::uint64_t seed) {
  cairn::testing::Dice dice(seed);
  auto graph = std::make_unique<tensorflow::GraphDef>();
  const auto fill = [&](tensorflow::AttrValue& value) {
    for (std::uint64_t i = dice.below(12); i > 0; --i) {
      value.mutable_list()->add_s(std::string(dice.below(60), 's'));  // It merges no large ones.
      const std::uint64_t bytes = dice.below(4) == 0 ? dice.below(2000) : dice.below(40);
      value.mutable_list()->add_tensor()->set_tensor_content(std::string(bytes, static_cast<char>(i)));
    }
  };
  for (std::uint64_t i = 0; i < 20; ++i) {
    tensorflow::NodeDef& node = *graph->add_node();
    node.set_name(fmt::format("node {}", i));
    for (std::uint64_t k = dice.below(4); k > 0; --k) {
      tensorflow::AttrValue& value = (*node.mutable_attr())[fmt::format("key {}", k)];
      fill(value);
      for (std::uint64_t f = dice.below(5); f > 0; --f) {
        fill((*value.mutable_list()->add_func()->mutable_attr())[fmt::format("inner {}", f)]);
      }
    }
  }
  return graph;
}

Messages messages() {
  Messages all;
  for (const auto& folder :
       std::filesystem::directory_iterator(cairn::testing::test_data() / "proto_splitter")) {
    if (folder.is_directory()) {
      const std::string name = folder.path().filename().string();
      std::unique_ptr<Message>& message = all[name];
      message = name.starts_with("saved_model")
                    ? std::unique_ptr<Message>(std::make_unique<tensorflow::SavedModel>())
                    : std::make_unique<tensorflow::GraphDef>();
      if (!message->ParseFromString(cairn::testing::read_text(folder.path() / "input.pb"))) {
        throw std::runtime_error(name + " is no message");
      }
    }
  }
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    all[fmt::format("lists_{}", seed)] = lists_below_keys(seed);
  }
  return all;
}

std::unique_ptr<ComposableSplitter> splitter_of(const Message& message, const std::string& kind,
                                                std::uint64_t limit) {
  if (kind == "auto") {
    cairn::proto::SplitOptions options;
    options.max_size = limit;
    return std::make_unique<cairn::proto::AutoSplitter>(message, options);
  }
  cairn::example::GraphCuts cuts;
  cuts.max_size = limit;
  cuts.as_in_python = kind == "python";
  if (const auto* graph = dynamic_cast<const tensorflow::GraphDef*>(&message)) {
    return std::make_unique<cairn::example::GraphSplitter>(*graph, cuts);
  }
  return std::make_unique<cairn::example::GraphSplitter>(dynamic_cast<const tensorflow::SavedModel&>(message),
                                                         cuts);
}

/// Returns whether it was written: TensorFlow's own cuts need constants.
bool write(const Message& message, const std::string& kind, std::uint64_t limit, const std::string& codec,
           const std::filesystem::path& prefix) {
  cairn::proto::WriteOptions options;
  options.records = codec;
  try {
    splitter_of(message, kind, limit)->write(prefix, options);
  } catch (const cairn::Error& error) {
    if (error.code() != cairn::Errc::invalid_argument || kind == "auto") {
      throw;
    }
    return false;
  }
  cairn::testing::write_text(prefix.string() + ".expected", message.SerializeAsString());
  return true;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fputs("usage: cairn_tensorflow_files FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  int written = 0;
  int left_out = 0;
  for (const auto& [name, message] : messages()) {
    for (const char* const codec : {"uncompressed", "brotli:6", "zstd:3", "snappy"}) {
      for (const std::uint64_t limit : {300, 1000, 10'000}) {
        for (const char* const kind : {"auto", "cpp", "python"}) {
          const std::string title = fmt::format("{}-{}-{}-{}", name, codec, limit, kind);
          ++(write(*message, kind, limit, codec, folder / title) ? written : left_out);
        }
      }
    }
  }
  fmt::print("{} files, {} could not be cut so\n", written, left_out);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%.2000s\n", error.what());
  return 1;
}
