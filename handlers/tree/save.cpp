// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/async/event.hpp"
#include "cairn/async/when_all.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/stream_copy.hpp"
#include "cairn/formats/index_builder.hpp"
#include "cairn/formats/safetensors_layout.hpp"
#include "cairn/handlers/array_options.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "array_bytes.hpp"
#include "containers.hpp"
#include "device_bytes.hpp"
#include "files.hpp"

namespace cairn {
namespace {

using detail::shown;

/// An array of the tree. `data` is null when its bytes need more than to be copied.
struct FlatArray {
  std::size_t path_end = 0;
  std::size_t dims_end = 0;
  const std::byte* data = nullptr;
  DeviceCopier* copier = nullptr;  ///< Of the device that has `data`; null: the host does.
};

/// A tree without its branches, and the files that it becomes.
///
/// Owns what it needs: headers and index are written when the tree may be gone. Texts and numbers of all arrays
/// lie in a few vectors, because a tree has a hundred thousand of them.
struct SavePlan {
  explicit SavePlan(std::shared_ptr<std::pmr::memory_resource> memory_) : memory(std::move(memory_)) {}

  std::shared_ptr<std::pmr::memory_resource> memory;
  std::pmr::vector<char> paths{memory.get()};
  std::pmr::vector<std::uint64_t> dims{memory.get()};
  std::pmr::vector<FlatArray> arrays{memory.get()};                 ///< In the order of the tree.
  std::pmr::vector<formats::TensorMeasure> measures{memory.get()};  ///< Of those, as they are stored.
  std::vector<formats::SafetensorsLayout> layouts;
  std::vector<std::string> files;          ///< The names of those.
  std::vector<async::Event> headers_read;  ///< Of each: its header has been made and copied.
  formats::IndexBuilder builder;           ///< Holds all that is no array.

  [[nodiscard]] std::string_view path(std::size_t array) const {
    const std::size_t begin = array == 0 ? 0 : arrays[array - 1].path_end;
    return {paths.data() + begin, arrays[array].path_end - begin};
  }

  [[nodiscard]] std::span<const std::uint64_t> shape(std::size_t array) const {
    const std::size_t begin = array == 0 ? 0 : arrays[array - 1].dims_end;
    return {dims.data() + begin, arrays[array].dims_end - begin};
  }
};

formats::SafetensorsOptions layout_options() {
  formats::SafetensorsOptions options;
  options.defers_header = true;
  return options;
}

/// What the arrays of a plan are to their files. Refers to the plan.
using Specs = std::pmr::vector<formats::TensorSpec>;

Specs specs_of(const SavePlan& plan, std::size_t first, std::size_t count) {
  Specs specs(count, plan.memory.get());
  for (std::size_t i = 0; i < count; ++i) {
    specs[i].name = detail::tensor_name(plan.path(first + i));
    specs[i].dtype = plan.measures[first + i].dtype;
    specs[i].shape = plan.shape(first + i);
  }
  return specs;
}

/// The first bytes of a planned file, made by the worker thread that needs them, and there until they are read: of
/// two million arrays they are 200 MB.
class HeaderSource final : public ByteSource {
 public:
  HeaderSource(std::shared_ptr<const SavePlan> plan, std::size_t file)
      : plan_(std::move(plan)), file_(file), left_(plan_->layouts[file].header_bytes) {}

  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    const std::lock_guard lock(mutex_);
    if (text_.empty()) {
      const formats::SafetensorsLayout& layout = plan_->layouts[file_];
      const Specs specs = specs_of(*plan_, layout.first_spec, layout.offsets.size());
      text_ = formats::safetensors_header(specs, layout, layout_options());
    }
    std::memcpy(out.data(), text_.data() + offset_bytes, out.size());
    left_ -= std::min<std::uint64_t>(left_, out.size());
    if (left_ == 0) {
      text_ = std::string();
      plan_->headers_read[file_].set();
    }
  }

  [[nodiscard]] bool is_lasting() const override { return true; }

 private:
  std::shared_ptr<const SavePlan> plan_;
  std::size_t file_;
  mutable std::mutex mutex_;  // Protects all below.
  mutable std::uint64_t left_;
  mutable std::string text_;
};

/// Arrays that lie one behind the other in a planned file, copied from where the caller has them.
///
/// One piece for all of them: a piece for each of 100,000 arrays would take as long to make as half the copies.
class ArraysSource final : public ByteSource {
 public:
  /// Begins with the array at `begin_bytes` of the file.
  ArraysSource(std::shared_ptr<const SavePlan> plan, std::size_t file, std::uint64_t begin_bytes)
      : plan_(std::move(plan)), layout_(plan_->layouts[file]), begin_(begin_bytes) {}

  void read(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    const std::uint64_t begin = begin_ + offset_bytes;
    auto next = std::upper_bound(
        layout_.order.begin(), layout_.order.end(), begin,
        [this](std::uint64_t offset, std::uint32_t i) { return offset < layout_.offsets[i] + bytes_of(i); });
    StreamCopies copies;
    for (std::uint64_t within = begin - layout_.offsets[*next]; !out.empty(); within = 0) {
      const std::uint32_t from = *next++;
      const auto bytes =
          static_cast<std::size_t>(std::min<std::uint64_t>(bytes_of(from) - within, out.size()));
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

  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t i) const {
    return plan_->measures[layout_.first_spec + i].size_bytes;
  }

  std::shared_ptr<const SavePlan> plan_;
  const formats::SafetensorsLayout& layout_;  // Part of the plan.
  std::uint64_t begin_;
};

/// An array that lies on a device as it is stored.
class TensorSource final : public DeviceSource {
 public:
  /// `owner` keeps the array alive; null when the caller does.
  TensorSource(std::shared_ptr<const SavePlan> plan, std::size_t array, std::shared_ptr<const void> owner)
      : DeviceSource({plan->arrays[array].copier, const_cast<std::byte*>(plan->arrays[array].data)}),
        plan_(std::move(plan)),
        array_(array),
        owner_(std::move(owner)) {}

  [[nodiscard]] std::string describe() const override { return shown(plan_->path(array_)); }

 private:
  std::shared_ptr<const SavePlan> plan_;
  std::size_t array_;
  std::shared_ptr<const void> owner_;
};

void add_scalar(formats::IndexBuilder& builder, std::string_view path, const Tree& leaf) {
  switch (leaf.kind()) {
    case TreeKind::null:
      builder.add_null(path);
      return;
    case TreeKind::boolean:
      builder.add_bool(path, leaf.as<bool>());
      return;
    case TreeKind::floating:
      builder.add_double(path, leaf.as<double>());
      return;
    case TreeKind::string:
      builder.add_string(path, leaf.as<std::string_view>());
      return;
    case TreeKind::bytes:
      builder.add_bytes(path, leaf.as<Bytes>());
      return;
    case TreeKind::map:
      builder.add_empty_map(path);
      return;
    case TreeKind::list:
      builder.add_list(path, leaf.size());
      return;
    case TreeKind::integer:
      if (const auto value = leaf.large_integer()) {
        builder.add_unsigned(path, *value);
      } else {
        builder.add_integer(path, leaf.as<std::int64_t>());
      }
      return;
    case TreeKind::array:
      return;
  }
}

/// The dtype under which an array is stored. Refuses what cannot be.
DType stored_dtype(std::string_view path, const Array& array, const ArrayOptions& options,
                   Snapshot snapshot) {
  if (snapshot == Snapshot::share && !array.owner() && array.byte_count() > 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: the array has no owner to share it with; use Snapshot::copy or borrow",
                            shown(path)));
  }
  if (!options.storage_dtype || (is_floating(*options.storage_dtype) && !is_floating(array.dtype()))) {
    return array.dtype();
  }
  detail::check_cast(path, array.dtype(), *options.storage_dtype, options.narrowing);
  return *options.storage_dtype;
}

/// Pieces of arrays that are more than copied from the host's memory, by the number of their array, rising.
using HeldPieces = std::vector<std::pair<std::size_t, SourcePiece>>;

/// What reads an array whose bytes need more than to be copied.
std::shared_ptr<const ByteSource> cast_source(std::string_view path, const Array& array, DType stored,
                                              DeviceCopier* copier, Narrowing narrowing) {
  if (copier != nullptr) {
    return std::make_shared<detail::DeviceCastSource>(array, *copier, stored, narrowing, shown(path));
  }
  return std::make_shared<detail::ArraySource>(array, stored, narrowing);
}

/// Walks the tree once: each array is looked at while it is in the caches.
HeldPieces flatten(const Tree& tree, const ArrayOptions& options, const SaveContext& context,
                   SavePlan& plan) {
  HeldPieces held;
  const Snapshot snapshot = context.snapshot();
  const auto add = [&](std::string_view path, const Tree& leaf) {
    const Array* array = leaf.array_if();
    if (!array) {
      add_scalar(plan.builder, path, leaf);
      return;
    }
    formats::TensorSpec spec;
    spec.name = detail::tensor_name(path);
    spec.dtype = stored_dtype(path, *array, options, snapshot);
    spec.shape = std::span(array->shape());
    FlatArray flat;
    if (const Device device = array->view().device(); !device.is_host()) {
      flat.copier = detail::copier_for(path, array->view(), spec.dtype, context.copier(device));
    }
    const formats::TensorMeasure measure = formats::measure_tensor(spec);
    if (array->dtype() == spec.dtype && array->view().is_contiguous()) {
      flat.data = array->view().data();
    }
    SourcePiece piece;
    if (measure.size_bytes > 0 && flat.data == nullptr) {
      piece.source = cast_source(path, *array, spec.dtype, flat.copier, options.narrowing);
      held.emplace_back(plan.arrays.size(), std::move(piece));
    } else if (measure.size_bytes > 0 && (snapshot != Snapshot::copy || flat.copier)) {
      // Of arrays on devices a snapshot is taken later.
      piece.owner = array->owner();
      held.emplace_back(plan.arrays.size(), std::move(piece));
    }
    plan.paths.insert(plan.paths.end(), path.begin(), path.end());
    plan.dims.insert(plan.dims.end(), array->shape().begin(), array->shape().end());
    flat.path_end = plan.paths.size();
    flat.dims_end = plan.dims.size();
    plan.arrays.push_back(flat);
    plan.measures.push_back(measure);
  };
  std::string path;
  detail::TreeAccess::visit(tree, path, 0, add);
  return held;
}

void lay_out(SavePlan& plan, std::size_t rank) {
  if (!plan.arrays.empty()) {
    plan.layouts = formats::plan_measured_safetensors(plan.measures, layout_options());
  }
  plan.headers_read.resize(plan.layouts.size());
  for (std::size_t i = 0; i < plan.layouts.size(); ++i) {
    plan.files.push_back(fmt::format("data-r{:05}-{:03}.safetensors", rank, i));
  }
}

/// The piece of an array that is held, in its place in the file.
SourcePiece place(const std::shared_ptr<const SavePlan>& plan, const formats::SafetensorsLayout& layout,
                  std::size_t array, SourcePiece piece) {
  const FlatArray& flat = plan->arrays[array];
  piece.offset_bytes = layout.offsets[array - layout.first_spec];
  piece.size_bytes = plan->measures[array].size_bytes;
  if (piece.source == nullptr && flat.copier != nullptr) {
    piece.source = std::make_shared<TensorSource>(plan, array, std::move(piece.owner));
  } else if (piece.source == nullptr) {
    piece.data = flat.data;
  }
  return piece;
}

/// The pieces of one planned file; moves out the held ones of its arrays. The others lie in the gaps between them.
std::vector<SourcePiece> make_pieces(const std::shared_ptr<const SavePlan>& plan, std::size_t file,
                                     HeldPieces& held) {
  const formats::SafetensorsLayout& layout = plan->layouts[file];
  const auto is_before = [](const auto& one, std::size_t array) { return one.first < array; };
  const auto first = std::lower_bound(held.begin(), held.end(), layout.first_spec, is_before);
  const auto last = std::lower_bound(first, held.end(), layout.first_spec + layout.offsets.size(), is_before);
  std::vector<SourcePiece> pieces;
  SourcePiece& header = pieces.emplace_back();
  header.size_bytes = layout.header_bytes;
  header.source = std::make_shared<HeaderSource>(plan, file);
  for (auto one = first; one != last; ++one) {
    pieces.push_back(place(plan, layout, one->first, std::move(one->second)));
  }
  arrange(pieces, layout.file_size);
  std::uint64_t end = 0;
  const auto fill_gap = [&](std::uint64_t to) {
    if (end < to) {
      SourcePiece& gap = pieces.emplace_back();
      gap.offset_bytes = end;
      gap.size_bytes = to - end;
      gap.source = std::make_shared<ArraysSource>(plan, file, end);
    }
  };
  for (std::size_t i = 0, count = pieces.size(); i < count; ++i) {
    const std::uint64_t begin = pieces[i].offset_bytes;
    const std::uint64_t size = pieces[i].size_bytes;
    fill_gap(begin);
    end = begin + size;
  }
  fill_gap(layout.file_size);
  return pieces;
}

/// Enters the arrays in the index.
void describe_arrays(SavePlan& plan) {
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

Background<> write_index(SaveContext context, std::shared_ptr<SavePlan> plan) {
  for (const async::Event& is_read : plan->headers_read) {
    co_await is_read.wait();  // Headers and index are about as large: one after the other.
  }
  const auto index = std::make_shared<formats::IndexBytes>();
  std::function<void()> finish = [plan, index] {
    describe_arrays(*plan);
    *index = plan->builder.finish();
  };
  co_await context.run(std::move(finish));
  co_await context.write_file(detail::kIndexFile, index->bytes, index->owner);
}

Background<> finish(std::vector<Background<>> writes) {
  co_await async::when_all(std::move(writes));
}

}  // namespace

// outlives: `value` is valid during this phase; what is kept of it, pieces own or the caller promised
Awaitable<Background<>> TreeHandler::save(SaveContext context, const Tree& value) const {
  const ArrayOptions* given = context.option<ArrayOptions>();
  const ArrayOptions options = given ? *given : ArrayOptions();
  const auto plan = std::make_shared<SavePlan>(context.plan_memory());
  HeldPieces held = flatten(value, options, context, *plan);
  lay_out(*plan, context.coordinator().rank());
  std::vector<Background<>> writes;
  for (std::size_t i = 0; i < plan->layouts.size(); ++i) {
    std::vector<SourcePiece> pieces = make_pieces(plan, i, held);
    writes.push_back(
        co_await context.write_pieces(plan->files[i], std::move(pieces), plan->layouts[i].file_size));
  }
  writes.push_back(write_index(context, plan));
  co_return finish(std::move(writes));
}

}  // namespace cairn
