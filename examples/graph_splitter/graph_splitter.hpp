// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <cairn/proto/splitter.hpp>

#include "graph.pb.h"

namespace cairn::example {

/// How TensorFlow cuts its graphs. Its splitter in C++ and the one in Python do not cut alike.
struct GraphCuts {
  GraphCuts() = default;

  /// Messages above it are cut. Chunks may be a little larger; see TensorFlow.
  std::uint64_t max_size = (std::uint64_t{1} << 31) - 500;
  bool as_in_python = false;
};

/// Cuts a graph, or the first one of a model, as TensorFlow does: large constants become bytes, large nodes and
/// functions chunks of their own, and what is left of long lists is cut into ranges.
///
/// Errors: Errc::invalid_argument for a node that is too large and no constant with `tensor_content`.
class GraphSplitter : public proto::ComposableSplitter {
 public:
  GraphSplitter(const tensorflow::GraphDef& graph, GraphCuts cuts);
  GraphSplitter(const tensorflow::SavedModel& model, GraphCuts cuts);

  void build_chunks() override;

 private:
  const GraphCuts cuts_;
  const tensorflow::GraphDef* graph_ = nullptr;  // One of the two.
  const tensorflow::SavedModel* model_ = nullptr;
};

}  // namespace cairn::example
