// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/async/when_all.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/index_builder.hpp"
#include "cairn/formats/safetensors_layout.hpp"
#include "cairn/handlers/array_options.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "array_bytes.hpp"
#include "containers.hpp"
#include "files.hpp"

namespace cairn {
namespace {

using detail::shown;

/// An array of the tree, with its path as bytes [begin, end) of FlatTree::paths.
struct FlatArray {
  const Array* array = nullptr;
  std::size_t begin = 0;
  std::size_t end = 0;
  DType stored{};
};

/// A tree without its branches. Paths lie in one string, because a tree has a hundred thousand of them.
struct FlatTree {
  std::string paths;
  std::vector<FlatArray> arrays;
  formats::IndexBuilder builder;

  [[nodiscard]] std::string_view path(const FlatArray& array) const {
    return std::string_view(paths).substr(array.begin, array.end - array.begin);
  }
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
  if (array.view().device().kind != Device::Kind::cpu) {
    throw Error(Errc::invalid_argument, fmt::format("{}: the array is not in host memory", shown(path)));
  }
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

FlatTree flatten(const Tree& tree, const ArrayOptions& options, Snapshot snapshot) {
  FlatTree flat;
  visit_leaves(tree, [&](std::string_view path, const Tree& leaf) {
    const Array* array = leaf.array_if();
    if (!array) {
      add_scalar(flat.builder, path, leaf);
      return;
    }
    const std::size_t begin = flat.paths.size();
    flat.paths.append(path);
    flat.arrays.push_back({array, begin, flat.paths.size(), stored_dtype(path, *array, options, snapshot)});
  });
  return flat;
}

std::vector<formats::SafetensorsLayout> plan(const FlatTree& flat) {
  std::vector<formats::TensorSpec> specs;
  specs.reserve(flat.arrays.size());
  for (const FlatArray& array : flat.arrays) {
    formats::TensorSpec& spec = specs.emplace_back();
    spec.name = detail::tensor_name(flat.path(array));
    spec.dtype = array.stored;
    spec.shape = array.array->shape();
  }
  if (specs.empty()) {
    return {};
  }
  return formats::plan_safetensors_files(specs);
}

SourcePiece array_piece(const FlatArray& flat, std::uint64_t offset_bytes, std::uint64_t size_bytes,
                        const ArrayOptions& options) {
  SourcePiece piece;
  piece.offset_bytes = offset_bytes;
  piece.size_bytes = size_bytes;
  const ArrayView& view = flat.array->view();
  if (view.is_contiguous() && view.dtype() == flat.stored) {
    piece.data = view.data();
    piece.owner = flat.array->owner();
  } else {
    piece.source = std::make_shared<detail::ArraySource>(*flat.array, flat.stored, options.narrowing);
  }
  return piece;
}

/// The pieces of one planned file; enters its arrays in the index.
std::vector<SourcePiece> fill(FlatTree& flat, formats::SafetensorsLayout layout, const std::string& file,
                              const ArrayOptions& options) {
  const std::uint32_t file_number = flat.builder.add_file(file);
  std::vector<SourcePiece> pieces;
  pieces.reserve(layout.offsets.size() + 1);
  const auto header = std::make_shared<const std::string>(std::move(layout.header));
  SourcePiece& first = pieces.emplace_back();
  first.size_bytes = header->size();
  first.data = reinterpret_cast<const std::byte*>(header->data());
  first.owner = header;
  for (std::size_t i = 0; i < layout.offsets.size(); ++i) {
    const FlatArray& array = flat.arrays[layout.first_spec + i];
    const Shape& shape = array.array->shape();
    flat.builder.add_array(flat.path(array), array.stored, {shape.begin(), shape.end()});
    flat.builder.add_whole(file_number, layout.offsets[i]);
    if (const auto size = byte_count(array.stored, shape).value_or(0); size > 0) {
      pieces.push_back(array_piece(array, layout.offsets[i], size, options));
    }
  }
  return pieces;
}

Background<> write_index(SaveContext context, std::shared_ptr<formats::IndexBuilder> builder) {
  auto text = std::make_shared<std::string>();
  std::function<void()> finish = [builder, text] {
    const std::vector<std::byte> bytes = builder->finish();
    text->assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  co_await context.run(std::move(finish));
  co_await context.write_file(detail::kIndexFile, std::move(*text));
}

Background<> finish(std::vector<Background<>> writes) {
  co_await async::when_all(std::move(writes));
}

}  // namespace

// outlives: `value` is valid during this phase; what is kept of it, pieces own or the caller promised
Awaitable<Background<>> TreeHandler::save(SaveContext context, const Tree& value) const {
  const ArrayOptions* given = context.option<ArrayOptions>();
  const ArrayOptions options = given ? *given : ArrayOptions();
  FlatTree flat = flatten(value, options, context.snapshot());
  std::vector<formats::SafetensorsLayout> layouts = plan(flat);
  std::vector<Background<>> writes;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const std::string file = fmt::format("data-r{:05}-{:03}.safetensors", context.coordinator().rank(), i);
    const std::uint64_t file_bytes = layouts[i].file_size;
    std::vector<SourcePiece> pieces = fill(flat, std::move(layouts[i]), file, options);
    writes.push_back(co_await context.write_pieces(file, std::move(pieces), file_bytes));
  }
  auto builder = std::make_shared<formats::IndexBuilder>(std::move(flat.builder));
  writes.push_back(write_index(context, std::move(builder)));
  co_return finish(std::move(writes));
}

}  // namespace cairn
