// SPDX-License-Identifier: Apache-2.0
#include "array_store/write_plan.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/internal/stream_copy.hpp"

namespace cairn::array_store {
namespace {

/// The header of a planned file, made by the worker thread that needs it: outside the blocking phase, since the plan
/// has all that it takes. It stays in the plan until the index drops it.
class HeaderSource final : public ByteSource {
 public:
  HeaderSource(std::shared_ptr<WritePlan> plan, std::size_t file) : plan_(std::move(plan)), file_(file) {}

  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    Header& header = plan_->headers[file_];
    std::unique_lock lock(header.mutex);
    if (header.text.empty()) {
      header.text = make_header(*plan_, file_);
    }
    std::memcpy(out.data(), header.text.data() + offset_bytes, out.size());
    header.unread_bytes -= std::min<std::uint64_t>(header.unread_bytes, out.size());
    if (header.unread_bytes == 0) {
      lock.unlock();  // Whoever waits drops the text.
      header.is_read.set();
    }
  }

  [[nodiscard]] bool is_lasting() const override { return true; }

 private:
  std::shared_ptr<WritePlan> plan_;
  std::size_t file_;
};

/// Arrays that lie one behind the other in a planned file, copied from where the caller has them.
///
/// One piece for all of them: a piece for each of 100,000 arrays would take as long to make as half the copies.
class ArraysSource final : public ByteSource {
 public:
  /// Begins with the array at `begin_bytes` of the file.
  ArraysSource(std::shared_ptr<const WritePlan> plan, std::size_t file, std::uint64_t begin_bytes)
      : plan_(std::move(plan)), layout_(plan_->layouts[file]), begin_(begin_bytes) {}

  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    const std::uint64_t begin = begin_ + offset_bytes;
    auto next = std::upper_bound(
        layout_.order.begin(), layout_.order.end(), begin,
        [this](std::uint64_t offset, std::uint32_t i) { return offset < layout_.offsets[i] + size_of(i); });
    StreamCopies copies;
    for (std::uint64_t within = begin - layout_.offsets[*next]; !out.empty(); within = 0) {
      const std::uint32_t from = *next++;
      const auto bytes =
          static_cast<std::size_t>(std::min<std::uint64_t>(size_of(from) - within, out.size()));
      if (bytes > 0) {
        copies.add(out.data(), data_of(from) + within, bytes);
      }
      out = out.subspan(bytes);
    }
  }

 private:
  [[nodiscard]] const std::byte* data_of(std::uint32_t i) const {
    return plan_->arrays[layout_.first_spec + i].data;
  }

  [[nodiscard]] std::uint64_t size_of(std::uint32_t i) const {
    return plan_->measures[layout_.first_spec + i].size_bytes;
  }

  std::shared_ptr<const WritePlan> plan_;
  const formats::SafetensorsLayout& layout_;  // Part of the plan.
  std::uint64_t begin_;
};

}  // namespace

void lay_out(WritePlan& plan, std::size_t rank) {
  if (!plan.arrays.empty()) {
    plan.layouts = formats::plan_safetensors(plan.measures);
  }
  for (const formats::SafetensorsLayout& layout : plan.layouts) {
    plan.files.push_back(fmt::format("data-r{:05}-{:03}.safetensors", rank, plan.files.size()));
    plan.headers.emplace_back(layout.header_bytes);
  }
}

std::string make_header(const WritePlan& plan, std::size_t file) {
  const formats::SafetensorsLayout& layout = plan.layouts[file];
  std::pmr::vector<formats::TensorSpec> specs(layout.offsets.size(), plan.memory.get());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::size_t array = layout.first_spec + i;
    specs[i].name = tensor_name(plan.path(array));
    specs[i].dtype = plan.measures[array].dtype;
    specs[i].shape = plan.shape(array);
  }
  return formats::safetensors_header(specs, layout);
}

std::vector<SourcePiece> make_pieces(const std::shared_ptr<WritePlan>& plan, std::size_t file) {
  const formats::SafetensorsLayout& layout = plan->layouts[file];
  std::vector<SourcePiece> pieces;
  SourcePiece& header = pieces.emplace_back();
  header.size_bytes = layout.header_bytes;
  header.source = std::make_shared<HeaderSource>(plan, file);
  const auto is_before = [](const auto& one, std::size_t array) { return one.first < array; };
  auto held = std::lower_bound(plan->held.begin(), plan->held.end(), layout.first_spec, is_before);
  for (; held != plan->held.end() && held->first < layout.first_spec + layout.offsets.size(); ++held) {
    SourcePiece& piece = pieces.emplace_back(std::move(held->second));
    piece.offset_bytes = layout.offsets[held->first - layout.first_spec];
    piece.size_bytes = plan->measures[held->first].size_bytes;
  }
  arrange(pieces, layout.file_size);
  std::uint64_t end = 0;
  for (std::size_t i = 0, count = pieces.size(); i <= count; ++i) {
    const std::uint64_t begin = i < count ? pieces[i].offset_bytes : layout.file_size;
    const std::uint64_t size = i < count ? pieces[i].size_bytes : 0;
    if (end < begin) {
      SourcePiece& gap = pieces.emplace_back();
      gap.offset_bytes = end;
      gap.size_bytes = begin - end;
      gap.source = std::make_shared<ArraysSource>(plan, file, end);
    }
    end = begin + size;
  }
  return pieces;
}

void describe_arrays(WritePlan& plan) {
  plan.builder.reserve(plan.arrays.size(), plan.arrays.size(), plan.paths.size());
  for (std::size_t file = 0; file < plan.layouts.size(); ++file) {
    const std::uint32_t number = plan.builder.add_file(plan.files[file]);
    const formats::SafetensorsLayout& layout = plan.layouts[file];
    for (std::size_t i = 0; i < layout.offsets.size(); ++i) {
      const std::size_t array = layout.first_spec + i;
      plan.builder.add_array(plan.path(array), plan.measures[array].dtype, plan.shape(array));
      plan.builder.add_whole(number, layout.offsets[i]);
    }
  }
}

}  // namespace cairn::array_store
