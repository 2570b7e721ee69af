// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"
#include "cairn/sharding/policy.hpp"

namespace cairn {
namespace {

/// Files of whole tensors that agree in what `key_of` says, in the order in which that comes first.
template <class KeyOf>
std::vector<FilePlan> files_by(std::span<const ShardableTensor> tensors, KeyOf key_of) {
  std::vector<FilePlan> files;
  std::map<decltype(key_of(tensors[0])), std::size_t> numbers;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [place, is_new] = numbers.emplace(key_of(tensors[i]), files.size());
    if (is_new) {
      files.emplace_back();
    }
    files[place->second].push_back({i, std::nullopt, nullptr});
  }
  return files;
}

/// `box` in coordinates that begin where `region` does.
Box relative(const Box& box, const Box& region) {
  Shape offsets = box.offsets();
  for (std::size_t d = 0; d < offsets.size(); ++d) {
    offsets[d] -= region.begin(d);
  }
  return {std::move(offsets), box.extents()};
}

class Composed final : public ShardingPolicy {
 public:
  Composed(std::shared_ptr<const ShardingPolicy> first, std::shared_ptr<const ShardingPolicy> then)
      : first_(std::move(first)), then_(std::move(then)) {}

  [[nodiscard]] std::string description() const override {
    return first_->description() + " Then: " + then_->description();
  }

  [[nodiscard]] std::vector<FilePlan> operator()(std::span<const ShardableTensor> tensors) const override {
    std::vector<FilePlan> files = (*first_)(tensors);
    check_policy_result(*first_, tensors,
                        files);  // Or what follows would speak of tensors that are not there.
    std::vector<FilePlan> result;
    for (const FilePlan& file : files) {
      std::deque<ArrayView> views;
      std::vector<ShardableTensor> parts;
      for (const TensorPart& part : file) {
        parts.push_back(as_tensor(tensors[part.tensor], part, views));
      }
      for (FilePlan& inner : (*then_)(parts)) {
        for (TensorPart& part : inner) {
          if (part.tensor >= parts.size()) {
            throw Error(Errc::invalid_argument,
                        fmt::format("sharding policy \"{}\": there is no tensor {} among {}",
                                    then_->description(), part.tensor, parts.size()));
          }
          take_from(file[part.tensor], parts[part.tensor].region(), part);
        }
        result.push_back(std::move(inner));
      }
    }
    return result;
  }

  [[nodiscard]] std::vector<std::string> warnings(std::span<const ShardableTensor> tensors,
                                                  std::span<const FilePlan> files) const override {
    std::vector<std::string> warnings = first_->warnings(tensors, files);
    for (std::string& warning : then_->warnings(tensors, files)) {
      warnings.push_back(std::move(warning));
    }
    return warnings;
  }

 private:
  /// A part as the second policy sees it.
  static ShardableTensor as_tensor(const ShardableTensor& whole, const TensorPart& part,
                                   std::deque<ArrayView>& views) {
    ShardableTensor tensor = whole;
    if (part.box && *part.box != whole.region()) {
      tensor.slice = part.box;
      tensor.size_bytes = byte_count(whole.stored(), part.box->extents()).value_or(0);
      if (whole.view != nullptr) {
        tensor.view = &views.emplace_back(whole.view->part(relative(*part.box, whole.region())));
      }
    }
    if (part.values) {
      tensor.view = &part.values->view();
    }
    return tensor;
  }

  /// Makes a part of what the first policy gave one of what it was given.
  static void take_from(const TensorPart& outer, const Box& region, TensorPart& part) {
    if (!part.box) {
      part.box = outer.box;
    }
    if (!part.values && outer.values) {
      part.values = outer.values;
      if (part.box && *part.box != region && region.contains(*part.box)) {
        part.values = std::make_shared<Array>(
            Array::share(outer.values->view().part(relative(*part.box, region)), outer.values));
      }
    }
    part.tensor = outer.tensor;
  }

  std::shared_ptr<const ShardingPolicy> first_;
  std::shared_ptr<const ShardingPolicy> then_;
};

}  // namespace

std::string ShardByTask::description() const {
  return "Split tensors into shards based on their device spec task.";  // As TensorFlow says it.
}

std::vector<FilePlan> ShardByTask::operator()(std::span<const ShardableTensor> tensors) const {
  return files_by(tensors, [](const ShardableTensor& tensor) { return tensor.task; });
}

std::string ShardByDevice::description() const {
  return "Split tensors into shards based on their device spec.";
}

std::vector<FilePlan> ShardByDevice::operator()(std::span<const ShardableTensor> tensors) const {
  return files_by(tensors, [](const ShardableTensor& tensor) {
    return std::tuple(tensor.task, tensor.device.kind, tensor.device.index);
  });
}

std::string AllInOne::description() const {
  return "Places all tensors in a single shard.";
}

std::vector<FilePlan> AllInOne::operator()(std::span<const ShardableTensor> tensors) const {
  return files_by(tensors, [](const ShardableTensor& /*tensor*/) { return 0; });
}

std::string ByPrefix::description() const {
  // All of them: ranks compare their policies by what these say of themselves.
  return fmt::format("Split tensors into shards based on these prefixes of their keys: '{}'.",
                     fmt::join(prefixes_, "', '"));
}

std::vector<FilePlan> ByPrefix::operator()(std::span<const ShardableTensor> tensors) const {
  std::vector<FilePlan> files(prefixes_.size() + 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::size_t file = 0;
    while (file < prefixes_.size() && !tensors[i].key.starts_with(prefixes_[file])) {
      ++file;
    }
    files[file].push_back({i, std::nullopt, nullptr});
  }
  std::erase_if(files, [](const FilePlan& file) { return file.empty(); });
  return files;
}

std::shared_ptr<const ShardingPolicy> compose(std::shared_ptr<const ShardingPolicy> first,
                                              std::shared_ptr<const ShardingPolicy> then) {
  if (!first || !then) {
    throw Error(Errc::invalid_argument, "compose: a sharding policy is null");
  }
  return std::make_shared<Composed>(std::move(first), std::move(then));
}

}  // namespace cairn
