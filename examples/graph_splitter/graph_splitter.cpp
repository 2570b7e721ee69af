// SPDX-License-Identifier: Apache-2.0
#include "graph_splitter.hpp"

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <cairn/base/error.hpp>
#include <google/protobuf/io/coded_stream.h>

namespace cairn::example {
namespace {

using proto::Path;
using proto::PathElement;
using tensorflow::FunctionDef;
using tensorflow::FunctionDefLibrary;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

/// Bytes of what lies behind its length, with the tag of a field below 16.
std::uint64_t with_length(std::uint64_t bytes) {
  return 1 + google::protobuf::io::CodedOutputStream::VarintSize64(bytes) + bytes;
}

Path below(Path path, std::initializer_list<PathElement> further) {
  path.insert(path.end(), further);
  return path;
}

/// Something that is cut out: a part of a message or a range of a list.
struct Cut {
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  Path path;
  std::optional<Range> range;
};

/// The part of a node or a function that stays when all else is cut out.
struct Left {
  std::uint64_t bytes = 0;
  std::uint64_t counted = 0;  ///< What TensorFlow takes them to be when it packs ranges.
};

/// The sizes of the elements of a list, before and after their parts were cut out.
struct Elements {
  std::uint64_t before = 0;      ///< All together, with tags and lengths.
  std::uint64_t left = 0;        ///< Of those that stay in the list.
  std::uint64_t last_range = 0;  ///< What is counted since the last range began.
};

/// Decides what is cut out of a graph, in the order in which TensorFlow numbers its chunks.
///
/// Each function returns what is left of its message, for TensorFlow goes on deciding by that.
class Planner {
 public:
  explicit Planner(GraphCuts cuts) : cuts_(cuts) {}

  std::uint64_t graph(const GraphDef& graph, const Path& path) {
    const std::uint64_t bytes = graph.ByteSizeLong();
    if (bytes < cuts_.max_size) {
      return bytes;
    }
    const FunctionDefLibrary& library = graph.library();
    const std::uint64_t library_bytes = library.ByteSizeLong();
    const Path library_path = below(path, {"library"});
    std::uint64_t rest = bytes - library_bytes;  // Of all else.
    std::uint64_t library_rest = library_bytes;
    const auto cut_library = [&] { library_rest = functions(library, library_path); };
    const auto cut_nodes = [&] {
      const Elements cut = nodes(graph.node(), below(path, {"node"}));
      rest = rest - cut.before + cut.left;
    };
    if (library_bytes > rest) {
      cut_library();
      if (library_rest + rest > cuts_.max_size) {
        cut_nodes();
      }
    } else {
      cut_nodes();
      if (library_rest + rest > cuts_.max_size) {
        cut_library();
      }
    }
    const std::uint64_t lengths = library_rest > 0 ? with_length(library_rest) - library_rest : 0;
    const std::uint64_t lengths_before = library_bytes > 0 ? with_length(library_bytes) - library_bytes : 0;
    rest -= lengths_before;
    if (rest + library_rest + lengths > cuts_.max_size && graph.has_library()) {
      first_.push_back(library_path);
      return rest;
    }
    return rest + library_rest + lengths;
  }

  void model(const tensorflow::SavedModel& model) {
    const std::uint64_t bytes = model.ByteSizeLong();
    if (bytes < cuts_.max_size || model.meta_graphs_size() == 0) {
      return;
    }
    const tensorflow::MetaGraphDef& meta = model.meta_graphs(0);
    const Path path = {"meta_graphs", 0, "graph_def"};
    const std::uint64_t left = graph(meta.graph_def(), path);
    const std::uint64_t meta_bytes = meta.ByteSizeLong();
    const std::uint64_t meta_left =
        meta_bytes - with_length(meta.graph_def().ByteSizeLong()) + with_length(left);
    if (bytes - with_length(meta_bytes) + with_length(meta_left) > cuts_.max_size) {
      first_.push_back(path);
    }
  }

  [[nodiscard]] const std::vector<Cut>& cuts() const { return all_; }
  /// What is cut out after that, each in front of all others.
  [[nodiscard]] const std::vector<Path>& first() const { return first_; }

 private:
  std::uint64_t functions(const FunctionDefLibrary& library, const Path& path) {
    const Elements cut =
        elements(library.function(), below(path, {"function"}),
                 [this](const FunctionDef& each, const Path& at) { return function(each, at); });
    return library.ByteSizeLong() - cut.before + cut.left;
  }

  Left function(const FunctionDef& function, const Path& path) {
    const std::uint64_t bytes = function.ByteSizeLong();
    if (bytes <= cuts_.max_size / 3) {
      return {bytes, bytes};
    }
    if (bytes < cuts_.max_size || (cuts_.as_in_python && bytes == cuts_.max_size)) {
      all_.push_back({path, std::nullopt});
      return {};
    }
    const Elements cut = nodes(function.node_def(), below(path, {"node_def"}));
    const std::uint64_t left = bytes - cut.before + cut.left;
    return {left, cuts_.as_in_python ? cut.last_range : left};
  }

  template <class List>
  Elements nodes(const List& list, const Path& path) {
    return elements(list, path, [this](const NodeDef& each, const Path& at) { return node(each, at); });
  }

  Left node(const NodeDef& node, const Path& path) {
    const std::uint64_t bytes = node.ByteSizeLong();
    Left left{bytes, bytes};
    if (bytes > cuts_.max_size || (!cuts_.as_in_python && bytes == cuts_.max_size)) {
      left = constant(node, bytes, path);
    }
    if (left.counted > cuts_.max_size / 3) {
      all_.push_back({path, std::nullopt});
      return {};
    }
    return left;
  }

  Left constant(const NodeDef& node, std::uint64_t bytes, const Path& path) {
    const auto value = node.attr().find("value");
    if (node.op() != "Const" || value == node.attr().end() ||
        value->second.tensor().tensor_content().empty()) {
      throw Error(Errc::invalid_argument,
                  to_text(path) + ": only constants with tensor_content are cut, and this node of " +
                      std::to_string(bytes) + " bytes is none");
    }
    all_.push_back({below(path, {"attr", "value", "tensor", "tensor_content"}), std::nullopt});
    const tensorflow::TensorProto& tensor = value->second.tensor();
    const std::uint64_t tensor_bytes = tensor.ByteSizeLong();
    const std::uint64_t tensor_left = tensor_bytes - with_length(tensor.tensor_content().size());
    const std::uint64_t value_bytes = value->second.ByteSizeLong();
    const std::uint64_t value_left = value_bytes - with_length(tensor_bytes) + with_length(tensor_left);
    const std::uint64_t key_bytes = with_length(value->first.size());
    const std::uint64_t left = bytes - with_length(key_bytes + with_length(value_bytes)) +
                               with_length(key_bytes + with_length(value_left));
    return {left, cuts_.as_in_python ? left : bytes - tensor.tensor_content().size()};
  }

  /// Cuts the elements of a list, and then the list into ranges, where what is left is too much.
  template <class List, class CutElement>
  Elements elements(const List& list, const Path& path, const CutElement& cut_element) {
    constexpr std::uint64_t kOverhead = 5;  // Of an element, as the splitter in C++ takes it to be.
    Elements sum;
    std::uint64_t before_ranges = 0;  // Of what comes before the first of them.
    std::vector<std::size_t> begins;
    std::vector<std::size_t> cuts;  // Those that are the ranges.
    const auto size = static_cast<std::size_t>(list.size());
    for (std::size_t i = 0; i < size; ++i) {
      const auto& element = list[static_cast<int>(i)];
      const Left left = cut_element(element, below(path, {i}));
      const std::uint64_t in_range = sum.last_range + left.counted;
      if (in_range > cuts_.max_size || (cuts_.as_in_python && in_range == cuts_.max_size)) {
        begins.push_back(i);
        sum.last_range = 0;
        if (cuts_.as_in_python) {
          cuts.push_back(all_.size());
          all_.push_back({path, Cut::Range{i, size}});
        }
      }
      sum.last_range += left.counted + (cuts_.as_in_python ? 0 : kOverhead);
      sum.before += with_length(element.ByteSizeLong());
      sum.left += with_length(left.bytes);
      before_ranges += begins.empty() ? with_length(left.bytes) : 0;
    }
    if (begins.empty()) {
      return sum;
    }
    if (cuts_.as_in_python) {
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        all_[cuts[i]].range->end = begins[i + 1];
      }
      sum.left = before_ranges;
      return sum;
    }
    begins.push_back(size);
    std::size_t begin = 0;
    for (const std::size_t end : begins) {
      all_.push_back({path, Cut::Range{begin, end}});
      begin = end;
    }
    sum.left = 0;
    return sum;
  }

  const GraphCuts cuts_;
  std::vector<Cut> all_;
  std::vector<Path> first_;
};

}  // namespace

GraphSplitter::GraphSplitter(const GraphDef& graph, GraphCuts cuts)
    : ComposableSplitter(graph), cuts_(cuts), graph_(&graph) {}

GraphSplitter::GraphSplitter(const tensorflow::SavedModel& model, GraphCuts cuts)
    : ComposableSplitter(model), cuts_(cuts), model_(&model) {}

void GraphSplitter::build_chunks() {
  Planner planner(cuts_);
  if (graph_ != nullptr) {
    static_cast<void>(planner.graph(*graph_, {}));
  } else {
    planner.model(*model_);
  }
  for (const Cut& cut : planner.cuts()) {
    if (cut.range) {
      add_range(cut.path, cut.range->begin, cut.range->end);
    } else {
      add_chunk(cut.path);
    }
  }
  for (const Path& path : planner.first()) {
    add_chunk(path, 0);
  }
}

}  // namespace cairn::example
