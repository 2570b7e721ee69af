// SPDX-License-Identifier: Apache-2.0
// Cuts a protobuf message into chunks, and puts them together again: with a splitter of the program's own, and with the
// one for any message.
#include <cstddef>
#include <exception>
#include <iostream>
#include <span>
#include <string>

#include <cairn/proto/auto_splitter.hpp>
#include <cairn/proto/chunked.pb.h>
#include <cairn/proto/merger.hpp>
#include <cairn/proto/splitter.hpp>

#include "model_config.pb.h"

namespace {

using cairn::example::Layer;
using cairn::example::ModelConfig;

// [splitter]
class LayerSplitter : public cairn::proto::ComposableSplitter {
 public:
  using ComposableSplitter::ComposableSplitter;

  void build_chunks() override { add_chunk(cairn::proto::Chunk::borrow(message()), {}); }
};

class ModelConfigSplitter : public cairn::proto::ComposableSplitter {
 public:
  using ComposableSplitter::ComposableSplitter;

  void build_chunks() override {
    const auto& proto = static_cast<const ModelConfig&>(message());
    for (const auto& entry : proto.hyperparameters()) {
      add_chunk({"hyperparameters", entry.first});
    }
    for (int i = 0; const Layer& layer : proto.hidden_layers()) {
      LayerSplitter(layer, *this, {"hidden_layers", i++}).build_chunks();
    }
  }
};
// [/splitter]

ModelConfig make_model() {
  ModelConfig model;
  model.set_model_name("digits");
  for (const int units : {512, 256, 10}) {
    Layer& layer = *model.add_hidden_layers();
    layer.set_name("dense_" + std::to_string(units));
    layer.set_num_units(units);
  }
  (*model.mutable_hyperparameters())["rate"] = 0.25F;
  return model;
}

void cut_by_own_splitter(const ModelConfig& model) {
  // [merge]
  ModelConfigSplitter splitter(model);
  const auto [chunks, chunked_message] = splitter.split();

  ModelConfig merged;
  cairn::proto::merge(chunks, chunked_message, merged);
  // [/merge]
  std::cout << chunks.size() << " chunks, layer " << merged.hidden_layers(2).name() << ", rate "
            << merged.hyperparameters().at("rate") << '\n';
}

void cut_by_size(const ModelConfig& model) {
  // [auto]
  cairn::proto::SplitOptions options;
  options.max_size = 64;  // Bytes of one chunk; most programs want the default, or some MiB.
  cairn::proto::AutoSplitter splitter(model, options);
  for (const cairn::proto::Chunk& chunk : splitter.chunks()) {
    std::string bytes(chunk.size_bytes(), '\0');
    // Any thread may: each chunk is serialised by itself.
    chunk.write(std::as_writable_bytes(std::span(bytes)));
  }
  // [/auto]
  std::cout << "by size: " << splitter.chunks().size() << '\n';
}

}  // namespace

int main() try {
  const ModelConfig model = make_model();
  cut_by_own_splitter(model);
  cut_by_size(model);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
