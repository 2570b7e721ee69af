// SPDX-License-Identifier: Apache-2.0
#include "array_store/write_plan.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <utility>

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
    MutexLock lock(header.mutex);
    if (header.text.empty()) {
      header.text = make_header(*plan_, file_);
    }
    std::memcpy(out.data(), header.text.data() + offset_bytes, out.size());
    header.unread_bytes -= std::min<std::uint64_t>(header.unread_bytes, out.size());
    if (header.unread_bytes == 0) {
      lock.unlock();  // The waiter drops the text.
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

/// The first part whose array is not before that number.
std::vector<FlatPart>::const_iterator first_part(const WritePlan& plan, std::size_t array) {
  return std::lower_bound(plan.parts.begin(), plan.parts.end(), array,
                          [](const FlatPart& part, std::size_t number) { return part.array < number; });
}

/// What the header of a file says of an array; null: it is not a part. `names` keeps a name that has to be made.
formats::TensorSpec spec_of(const WritePlan& plan, std::size_t array, const FlatPart* part,
                            std::deque<std::string>& names) {
  formats::TensorSpec spec;
  spec.name = tensor_name(plan.path(array));
  spec.dtype = plan.measures[array].dtype;
  spec.shape = plan.shape(array);
  if (part != nullptr) {
    spec.offsets = std::span(part->offsets);
    spec.is_further = part->number > 0;
    spec.name =
        part->number == 0 ? spec.name : names.emplace_back(tensor_name(plan.path(array), part->number));
  }
  return spec;
}

/// Plans files for the arrays [begin, end), which a policy has put together.
void lay_out_run(WritePlan& plan, std::size_t begin, std::size_t end, std::uint32_t policy) {
  std::span<const formats::TensorMeasure> measures = std::span(plan.measures).subspan(begin, end - begin);
  std::vector<formats::TensorMeasure> with_offsets;
  auto part = first_part(plan, begin);
  const bool has_slices = part != plan.parts.end() && part->array < end;
  if (has_slices) {
    with_offsets.assign(measures.begin(), measures.end());
    for (std::size_t array = begin; array < end; ++array) {
      std::deque<std::string> names;
      const bool is_part = part != plan.parts.end() && part->array == array;
      const std::uint64_t bytes =
          formats::offset_entry_bytes(spec_of(plan, array, is_part ? &*part++ : nullptr, names));
      with_offsets[array - begin].header_bytes += static_cast<std::uint32_t>(bytes);
    }
    measures = with_offsets;
  }
  for (formats::SafetensorsLayout& layout :
       formats::plan_safetensors(measures, formats::kMaxSafetensorsHeaderBytes, has_slices)) {
    layout.first_spec += begin;
    plan.layouts.push_back(std::move(layout));
    plan.file_policies.push_back(policy);
  }
}

/// An array of the plan, and where it lies.
struct PlacedArray {
  std::size_t array = 0;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  const FlatPart* part = nullptr;  ///< Null: it is whole.
};

/// The numbers of layouts that were met: mostly one object serves many arrays.
struct LayoutNumbers {
  std::map<const Layout*, std::uint32_t> by_layout;
  std::map<std::string, std::uint32_t> by_text;
};

/// Enters how the array that was added last is divided among ranks.
void set_division(WritePlan& plan, std::string_view path, LayoutNumbers& numbers) {
  const auto division = plan.divisions.find(path);
  if (division == plan.divisions.end() || division->second == nullptr) {
    return;
  }
  const auto [known, is_new] = numbers.by_layout.try_emplace(division->second.get(), 0);
  if (is_new) {
    std::string json = division->second->to_json();
    const auto same = numbers.by_text.find(json);
    known->second = same != numbers.by_text.end() ? same->second : plan.builder.add_layout(json);
    numbers.by_text.emplace(std::move(json), known->second);
  }
  plan.builder.set_layout(known->second);
}

/// Enters arrays of which some are parts: those of one array follow each other in the order of their offsets.
void describe_parts(WritePlan& plan, std::span<const std::uint32_t> files) {
  std::vector<PlacedArray> placed;
  placed.reserve(plan.arrays.size());
  auto part = plan.parts.begin();
  for (std::size_t file = 0; file < plan.layouts.size(); ++file) {
    const formats::SafetensorsLayout& layout = plan.layouts[file];
    for (std::size_t i = 0; i < layout.offsets.size(); ++i) {
      const std::size_t array = layout.first_spec + i;
      const bool is_part = part != plan.parts.end() && part->array == array;
      placed.push_back({array, files[file], layout.offsets[i], is_part ? &*part++ : nullptr});
    }
  }
  std::stable_sort(placed.begin(), placed.end(), [&plan](const PlacedArray& a, const PlacedArray& b) {
    const int order = plan.path(a.array).compare(plan.path(b.array));
    if (order != 0 || a.part == nullptr || b.part == nullptr) {
      return order < 0;
    }
    return std::lexicographical_compare(a.part->offsets.begin(), a.part->offsets.end(),
                                        b.part->offsets.begin(), b.part->offsets.end());
  });
  LayoutNumbers numbers;
  std::optional<std::string_view> last;
  for (const PlacedArray& one : placed) {
    const std::string_view path = plan.path(one.array);
    const std::span<const std::uint64_t> shape = plan.shape(one.array);
    if (last != path) {
      plan.builder.add_array(path, plan.measures[one.array].dtype,
                             one.part != nullptr ? std::span<const std::uint64_t>(one.part->whole) : shape);
      set_division(plan, path, numbers);
    }
    last = path;
    if (one.part == nullptr || std::equal(shape.begin(), shape.end(), one.part->whole.begin())) {
      plan.builder.add_whole(one.file, one.offset);
    } else {
      plan.builder.add_slice(one.file, one.offset, std::span(one.part->offsets), shape);
    }
  }
}

}  // namespace

std::string tensor_name(std::string_view path, std::uint32_t number) {
  return fmt::format("{}~s{}", path, number);
}

void lay_out(WritePlan& plan, std::size_t rank) {
  FileBegin begin;
  for (std::size_t i = 0; i <= plan.file_begins.size(); ++i) {
    const FileBegin end =
        i < plan.file_begins.size() ? plan.file_begins[i] : FileBegin{plan.arrays.size(), 0};
    if (begin.array < end.array) {
      lay_out_run(plan, begin.array, end.array, begin.policy);
    }
    begin = end;
  }
  for (const formats::SafetensorsLayout& layout : plan.layouts) {
    plan.files.push_back(fmt::format("data-r{:05}-{:03}.safetensors", rank, plan.files.size()));
    plan.headers.emplace_back(layout.header_bytes, plan.memory.get());
  }
}

std::pmr::string make_header(const WritePlan& plan, std::size_t file) {
  const formats::SafetensorsLayout& layout = plan.layouts[file];
  std::pmr::vector<formats::TensorSpec> specs(layout.offsets.size(), plan.memory.get());
  std::deque<std::string> names;
  auto part = first_part(plan, layout.first_spec);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::size_t array = layout.first_spec + i;
    const bool is_part = part != plan.parts.end() && part->array == array;
    specs[i] = spec_of(plan, array, is_part ? &*part++ : nullptr, names);
  }
  return formats::safetensors_header(specs, layout, plan.memory.get());
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
  std::vector<std::uint32_t> files;
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    files.push_back(plan.builder.add_file(plan.files[i], plan.file_policies[i]));
  }
  if (!plan.parts.empty() || !plan.divisions.empty()) {
    describe_parts(plan, files);
    return;
  }
  for (std::size_t file = 0; file < plan.layouts.size(); ++file) {
    const formats::SafetensorsLayout& layout = plan.layouts[file];
    for (std::size_t i = 0; i < layout.offsets.size(); ++i) {
      const std::size_t array = layout.first_spec + i;
      plan.builder.add_array(plan.path(array), plan.measures[array].dtype, plan.shape(array));
      plan.builder.add_whole(files[file], layout.offsets[i]);
    }
  }
}

}  // namespace cairn::array_store
