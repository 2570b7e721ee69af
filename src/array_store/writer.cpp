// SPDX-License-Identifier: Apache-2.0
#include "array_store/internal/writer.hpp"

#include <cstdint>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "array/internal/overlap.hpp"
#include "array_store/array_bytes.hpp"
#include "array_store/write_plan.hpp"
#include "formats/internal/index.hpp"

namespace cairn::array_store {
namespace {

void check_owner(std::string_view path, const Array& array, Snapshot snapshot) {
  if (snapshot == Snapshot::share && !array.owner() && array.byte_count() > 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: the array has no owner to share it with; use Snapshot::copy or borrow",
                            formats::shown(path)));
  }
}

/// Returns what reads an array whose bytes need more than to be copied from the host's memory; null for all
/// others.
std::shared_ptr<const ByteSource> source_of(std::string_view path, const Array& array, DType stored,
                                            DeviceCopier* copier, Narrowing narrowing) {
  const bool is_cast = array.dtype() != stored;
  if (copier == nullptr) {
    const bool is_plain = !is_cast && array.view().is_contiguous();
    return is_plain ? nullptr : std::make_shared<ArraySource>(array, stored, narrowing);
  }
  auto device = std::make_unique<ArrayOnDevice<DeviceSource>>(
      DeviceRegion{copier, const_cast<std::byte*>(array.view().data())}, array.owner(), formats::shown(path));
  if (is_cast) {
    return std::make_shared<ArraySource>(array, stored, narrowing, std::move(device));
  }
  return device;
}

DType stored_dtype(const StorageForm& form, DType dtype) {
  const bool stays = !form.dtype || (is_floating(*form.dtype) && !is_floating(dtype));
  return stays ? dtype : *form.dtype;
}

/// The tensor that holds an array, or part `number` of it in its file.
formats::TensorMeasure measure(std::string_view path, const Shape& shape, DType stored,
                               std::uint32_t number) {
  formats::TensorSpec spec;
  const std::string part_name = number == 0 ? std::string() : tensor_name(path, number);
  spec.name = number == 0 ? tensor_name(path) : part_name;
  spec.dtype = stored;
  spec.shape = std::span(shape);
  return formats::measure_tensor(spec);
}

/// `data` counts only where no piece is held for the array.
void enter(WritePlan& plan, std::string_view path, const Shape& shape, const std::byte* data,
           const formats::TensorMeasure& measure) {
  FlatArray flat;
  flat.data = data;
  plan.paths.insert(plan.paths.end(), path.begin(), path.end());
  plan.dims.insert(plan.dims.end(), shape.begin(), shape.end());
  flat.path_end = plan.paths.size();
  flat.dims_end = plan.dims.size();
  plan.arrays.push_back(flat);
  plan.measures.push_back(measure);
}

}  // namespace

Writer::Writer(WriterOptions options)
    : options_(std::move(options)), plan_(std::make_shared<WritePlan>(options_.memory)) {}

formats::IndexBuilder& Writer::entries() noexcept {
  return plan_->builder;
}

StorageForm Writer::form_of(std::string_view path) const {
  if (options_.form_of) {
    return options_.form_of(path);
  }
  StorageForm form;
  form.dtype = options_.storage_dtype;
  form.narrowing = options_.narrowing;
  form.snapshot = options_.snapshot;
  return form;
}

DType Writer::stored_as(std::string_view path, DType dtype) const {
  return stored_dtype(form_of(path), dtype);
}

void Writer::add(std::string_view path, const Array& array) {
  const StorageForm form = form_of(path);
  add_tensor(path, array, stored_dtype(form, array.dtype()), form, 0);
}

void Writer::add(std::string_view path, const Array& array, DType stored) {
  add_tensor(path, array, stored, form_of(path), 0);
}

void Writer::add_part(std::string_view path, const Shape& whole, const Box& box, const Array& values,
                      DType stored) {
  if (!box.is_within(whole) || values.shape() != box.extents()) {
    throw Error(Errc::shape_mismatch,
                fmt::format("{}: elements of shape {} for box {} of shape {}", formats::shown(path),
                            values.shape(), to_string(box), whole));
  }
  if (box.is_whole(whole)) {
    return add_tensor(path, values, stored, form_of(path), 0);
  }
  const std::uint32_t number = begin_part(path, whole, box);
  try {
    add_tensor(path, values, stored, form_of(path), number);
  } catch (...) {
    plan_->parts.pop_back();
    throw;
  }
  count_part(path);
}

void Writer::add_source(std::string_view path, const Shape& whole, const Box& box, DType stored,
                        std::shared_ptr<const ByteSource> values) {
  if (!box.is_within(whole)) {
    throw Error(Errc::shape_mismatch,
                fmt::format("{}: box {} of shape {}", formats::shown(path), to_string(box), whole));
  }
  const bool is_part = !box.is_whole(whole);
  const std::uint32_t number = is_part ? begin_part(path, whole, box) : 0;
  const Shape& extents = box.extents();
  const formats::TensorMeasure measured = measure(path, extents, stored, number);
  if (measured.size_bytes > 0) {
    SourcePiece piece;
    piece.source = std::move(values);
    plan_->held.emplace_back(plan_->arrays.size(), std::move(piece));
  }
  enter(*plan_, path, extents, nullptr, measured);
  if (is_part) {
    count_part(path);
  }
}

std::uint32_t Writer::begin_part(std::string_view path, const Shape& whole, const Box& box) {
  auto count = parts_in_file_.find(path);
  if (count == parts_in_file_.end()) {
    count = parts_in_file_.emplace(path, 0).first;
  }
  plan_->parts.push_back({plan_->arrays.size(), whole, box.offsets(), count->second});
  return count->second;
}

void Writer::count_part(std::string_view path) {
  std::uint32_t& count = parts_in_file_.find(path)->second;
  if (++count == 2) {
    marked_.emplace(path);
  }
}

std::uint64_t Writer::element_bytes() const noexcept {
  return std::accumulate(
      plan_->measures.begin(), plan_->measures.end(), std::uint64_t{0},
      [](std::uint64_t before, const formats::TensorMeasure& one) { return before + one.size_bytes; });
}

void Writer::next_file() {
  parts_in_file_.clear();
  plan_->file_begins.push_back({plan_->arrays.size(), policy_});
}

void Writer::set_layout(std::string_view path, std::shared_ptr<const Layout> layout) {
  plan_->divisions.insert_or_assign(std::string(path), std::move(layout));
}

void Writer::set_policy(std::string_view description) {
  policy_ = plan_->builder.add_policy(description);
  next_file();
}

void Writer::add_tensor(std::string_view path, const Array& array, DType stored, const StorageForm& form,
                        std::uint32_t number) {
  WritePlan& plan = *plan_;
  if (!array.view().is_contiguous() && overlaps_itself(array.view())) {
    overlapping_.emplace_back(path);
  }
  check_owner(path, array, form.snapshot);
  check_cast(path, array.dtype(), stored, form.narrowing);
  DeviceCopier* const copier = copier_for(path, array.view(), stored, options_.copier_of);
  const formats::TensorMeasure measured = measure(path, array.shape(), stored, number);
  if (measured.size_bytes > 0) {
    SourcePiece piece;
    piece.source = source_of(path, array, stored, copier, form.narrowing);
    const bool is_all_copied = options_.snapshot == Snapshot::copy && form.snapshot == Snapshot::copy;
    if (piece.source != nullptr || keeps_values_ || !is_all_copied) {
      if (form.snapshot != options_.snapshot) {
        piece.snapshot = form.snapshot;
      }
      piece.data = piece.source == nullptr ? array.view().data() : nullptr;
      piece.owner = piece.source == nullptr ? array.owner() : nullptr;
      plan.held.emplace_back(plan.arrays.size(), std::move(piece));
    }
  }
  enter(plan, path, array.shape(), array.view().data(), measured);
}

PlannedWrite Writer::lay_out() && {
  const std::shared_ptr<WritePlan> plan = std::move(plan_);
  array_store::lay_out(*plan, options_.rank);
  std::vector<PlannedFile> files;
  for (std::size_t i = 0; i < plan->files.size(); ++i) {
    files.push_back({plan->files[i], plan->layouts[i].file_size, make_pieces(plan, i)});
  }
  plan->held = {};
  return {std::move(files), PlannedIndex(plan)};
}

Background<> PlannedIndex::wait(std::shared_ptr<WritePlan> plan) {
  for (Header& header : plan->headers) {
    co_await header.is_read.wait();
    header.drop();
  }
}

formats::IndexBytes PlannedIndex::make() const {
  describe_arrays(*plan_);
  return plan_->builder.finish();
}

}  // namespace cairn::array_store
