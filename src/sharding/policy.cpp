// SPDX-License-Identifier: Apache-2.0
#include "cairn/sharding/policy.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "array/internal/cover.hpp"

namespace cairn {
namespace {

/// Compares what a policy gave with what it got.
class PolicyCheck {
 public:
  PolicyCheck(const ShardingPolicy& policy, std::span<const ShardableTensor> tensors,
              std::span<const FilePlan> files)
      : policy_(policy), tensors_(tensors), files_(files) {}

  void run() {
    // Counted first, so that the parts of a tensor can lie side by side without an allocation for each.
    firsts_.assign(tensors_.size() + 1, 0);
    for (const FilePlan& file : files_) {
      check_file(file);
    }
    std::partial_sum(firsts_.begin(), firsts_.end(), firsts_.begin());
    parts_.resize(firsts_.back());
    std::vector<std::size_t> next(firsts_.begin(), firsts_.end() - 1);
    for (const FilePlan& file : files_) {
      for (const TensorPart& part : file) {
        parts_[next[part.tensor]++] = &part;
      }
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      check_tensor(tensors_[i], std::span(parts_).subspan(firsts_[i], firsts_[i + 1] - firsts_[i]));
    }
  }

 private:
  [[noreturn]] void refuse(Errc code, const std::string& why) const {
    throw Error(code, fmt::format("sharding policy \"{}\": {}", policy_.description(), why));
  }

  [[noreturn]] void refuse(Errc code, const ShardableTensor& tensor, const std::string& why) const {
    refuse(code, fmt::format("'{}' ({}): {}", tensor.key, slice_spec(tensor.full, tensor.region()), why));
  }

  void check_file(const FilePlan& file) {
    if (file.empty()) {
      refuse(Errc::invalid_argument, "a file has nothing in it");
    }
    for (const TensorPart& part : file) {
      if (part.tensor >= tensors_.size()) {
        refuse(Errc::invalid_argument,
               fmt::format("there is no tensor {} among {}", part.tensor, tensors_.size()));
      }
      const ShardableTensor& tensor = tensors_[part.tensor];
      if (tensor.task != tensors_[file[0].tensor].task) {
        refuse(Errc::invalid_argument, tensor,
               fmt::format("of task {} is in a file of task {}", tensor.task, tensors_[file[0].tensor].task));
      }
      if (part.values) {
        check_values(tensor, part);
      }
      ++firsts_[part.tensor + 1];
    }
  }

  void check_values(const ShardableTensor& tensor, const TensorPart& part) const {
    const Box box = part.box ? *part.box : tensor.region();
    if (part.values->dtype() != tensor.dtype || part.values->shape() != box.extents()) {
      refuse(Errc::invalid_argument, tensor,
             fmt::format("{} of shape {} was put in place of {} of shape {}", part.values->dtype(),
                         part.values->shape(), tensor.dtype, box.extents()));
    }
  }

  void check_tensor(const ShardableTensor& tensor, std::span<const TensorPart* const> parts) const {
    if (parts.empty()) {
      refuse(Errc::incomplete_shards, tensor, "is in none of the files");
    }
    if (parts.size() == 1 && (!parts[0]->box || is_region(tensor, *parts[0]->box))) {
      return;
    }
    const Box region = tensor.region();
    std::vector<Box> boxes;
    for (const TensorPart* part : parts) {
      boxes.push_back(part->box ? *part->box : region);
      check_box(tensor, region, boxes.back());
    }
    if (region.is_empty()) {
      refuse(Errc::overlapping_shards, tensor, fmt::format("is in the files {} times", parts.size()));
    }
    try {
      check_cover(tensor.key, region, boxes);
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("sharding policy \"{}\": {}", policy_.description(), error.detail()));
    }
  }

  [[nodiscard]] static bool is_region(const ShardableTensor& tensor, const Box& box) {
    return tensor.slice ? box == *tensor.slice : box.is_whole(tensor.full);
  }

  void check_box(const ShardableTensor& tensor, const Box& region, const Box& box) const {
    if (!region.contains(box)) {
      refuse(Errc::invalid_argument, tensor, fmt::format("box {} is not within it", to_string(box)));
    }
    if (box.is_empty() && box != region) {
      refuse(Errc::invalid_argument, tensor, fmt::format("box {} has no elements", to_string(box)));
    }
    if (tensor.is_packed() && box != region) {
      refuse(Errc::invalid_argument, tensor,
             fmt::format("box {} cuts the packed type {}", to_string(box),
                         is_packed(tensor.stored()) ? tensor.stored() : tensor.dtype));
    }
  }

  const ShardingPolicy& policy_;
  std::span<const ShardableTensor> tensors_;
  std::span<const FilePlan> files_;
  std::vector<std::size_t> firsts_;  // By tensor, into `parts_`.
  std::vector<const TensorPart*> parts_;
};

/// Reads a number and the character behind it.
std::uint64_t take_number(std::string_view& text, char& separator) {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc()) {
    throw Error(Errc::malformed_metadata, "a number is missing");
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  separator = text.empty() ? '\0' : text[0];
  text.remove_prefix(text.empty() ? 0 : 1);
  return number;
}

std::pair<Shape, Box> read_slice_spec(std::string_view text) {
  std::vector<std::uint64_t> full;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> extents;
  char separator = ' ';
  std::uint64_t number = take_number(text, separator);
  for (; separator == ' '; number = take_number(text, separator)) {
    full.push_back(number);
  }
  for (;; number = take_number(text, separator)) {
    if (separator != ',') {
      throw Error(Errc::malformed_metadata, "an offset and an extent are not separated by ','");
    }
    offsets.push_back(number);
    extents.push_back(take_number(text, separator));
    if (separator == '\0') {
      break;
    }
    if (separator != ':') {
      throw Error(Errc::malformed_metadata, "two dimensions are not separated by ':'");
    }
  }
  const auto as_shape = [](const std::vector<std::uint64_t>& numbers) { return Shape(std::span(numbers)); };
  std::pair<Shape, Box> result(as_shape(full), Box(as_shape(offsets), as_shape(extents)));
  if (!text.empty() || !result.second.is_within(result.first)) {
    throw Error(Errc::malformed_metadata, "the slice is not within the shape");
  }
  return result;
}

}  // namespace

std::vector<std::string> ShardingPolicy::warnings(std::span<const ShardableTensor> /*tensors*/,
                                                  std::span<const FilePlan> /*files*/) const {
  return {};
}

void check_policy_result(const ShardingPolicy& policy, std::span<const ShardableTensor> tensors,
                         std::span<const FilePlan> files) {
  PolicyCheck(policy, tensors, files).run();
}

std::string slice_spec(const Shape& full, const Box& box) {
  if (!box.is_within(full)) {
    throw Error(Errc::invalid_argument, fmt::format("box {} is not within shape {}", to_string(box), full));
  }
  std::string text;
  for (const std::uint64_t extent : full) {
    text += fmt::format("{} ", extent);
  }
  for (std::size_t d = 0; d < full.size(); ++d) {
    text += fmt::format("{}{},{}", d == 0 ? "" : ":", box.begin(d), box.extents()[d]);
  }
  return text;
}

std::pair<Shape, Box> parse_slice_spec(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  try {
    return read_slice_spec(text);
  } catch (const Error& error) {
    throw Error(Errc::malformed_metadata, fmt::format("slice '{}': {}", text, error.detail()));
  }
}

}  // namespace cairn
