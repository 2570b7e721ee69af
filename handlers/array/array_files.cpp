// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/array_files.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/async/awaitable.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/formats/index_merge.hpp"
#include "cairn/handlers/tree_handler.hpp"

namespace cairn {
namespace {

class ContextFiles final : public array_store::StoredFiles {
 public:
  explicit ContextFiles(LoadContext context) : context_(std::move(context)) {}

  [[nodiscard]] std::filesystem::path directory() const override { return context_.directory(); }

  [[nodiscard]] std::vector<std::string> names() const override { return context_.files(); }

  [[nodiscard]] std::optional<std::uint64_t> size_bytes(std::string_view file) const override {
    return context_.file_bytes(file);
  }

  [[nodiscard]] Awaitable<std::string> read(std::string file) const override {
    return context_.read_file(file);
  }

  [[nodiscard]] Awaitable<> read_pieces(std::string file,
                                        std::vector<DestinationPiece> pieces) const override {
    return context_.read_pieces(file, std::move(pieces));
  }

  [[nodiscard]] std::shared_ptr<const std::span<const std::byte>> map(std::string_view file) const override {
    return context_.map_file(file);
  }

 private:
  LoadContext context_;
};

Background<formats::IndexBytes> make_index(SaveContext context, array_store::PlannedIndex planned) {
  co_await planned.headers_read();
  formats::IndexBytes index;
  std::function<void()> make = [&] { index = planned.make(); };
  co_await context.run(std::move(make));
  co_return index;
}

Background<> write_index(SaveContext context, array_store::PlannedIndex planned) {
  const formats::IndexBytes index = co_await make_index(context, std::move(planned));
  co_await context.write_file(array_store::kIndexFile, index.bytes, index.owner);
}

std::string merge(const std::vector<std::string>& texts) {
  std::vector<formats::Index> indexes;
  for (const std::string& text : texts) {
    const std::shared_ptr<const void> nobody;  // The texts live longer.
    indexes.push_back(
        formats::Index::open(nobody, std::as_bytes(std::span(text)), "the index of other ranks"));
  }
  const formats::IndexBytes merged = formats::merge_indexes(indexes);
  return {reinterpret_cast<const char*>(merged.bytes.data()), merged.bytes.size()};
}

/// Rank 0 writes the index of all ranks; the others send theirs.
Background<> join_index(SaveContext context, array_store::PlannedIndex planned, Subject ranks) {
  const formats::IndexBytes index = co_await make_index(context, std::move(planned));
  std::string text(reinterpret_cast<const char*>(index.bytes.data()), index.bytes.size());
  Subject::Merge join = [](const std::vector<std::string>& texts) { return merge(texts); };
  std::string merged = co_await ranks.reduce(std::move(text), std::move(join));
  if (context.coordinator().rank() == 0) {
    co_await context.write_file(array_store::kIndexFile, std::move(merged));
  }
}

Awaitable<std::vector<Background<>>> write_files(SaveContext context,
                                                 std::vector<array_store::PlannedFile> files) {
  std::vector<Background<>> writes;
  for (array_store::PlannedFile& file : files) {
    writes.push_back(co_await context.write_pieces(file.name, std::move(file.pieces), file.size_bytes));
  }
  co_return writes;
}

Background<> finish(std::vector<Background<>> writes) {
  co_await async::when_all(std::move(writes));
}

}  // namespace

array_store::Writer array_writer(const SaveContext& context) {
  array_store::WriterOptions options;
  options.snapshot = context.snapshot();
  if (const ArrayOptions* given = context.option<ArrayOptions>()) {
    options.storage_dtype = given->storage_dtype;
    options.narrowing = given->narrowing;
  }
  options.copier_of = [context](Device device) { return context.copier(device); };
  options.rank = context.coordinator().rank();
  options.memory = context.plan_memory();
  return array_store::Writer(std::move(options));
}

Awaitable<Background<>> write_arrays(SaveContext context, array_store::Writer writer) {
  array_store::PlannedWrite planned = std::move(writer).lay_out();
  std::vector<Background<>> writes = co_await write_files(context, std::move(planned.files));
  writes.push_back(write_index(std::move(context), std::move(planned.index)));
  co_return finish(std::move(writes));
}

Awaitable<Background<>> write_arrays(SaveContext context, array_store::Writer writer, Subject ranks) {
  array_store::PlannedWrite planned = std::move(writer).lay_out();
  std::vector<Background<>> writes = co_await write_files(context, std::move(planned.files));
  writes.push_back(join_index(std::move(context), std::move(planned.index), std::move(ranks)));
  co_return finish(std::move(writes));
}

std::shared_ptr<const array_store::StoredFiles> stored_files(LoadContext context) {
  return std::make_shared<ContextFiles>(std::move(context));
}

array_store::ReadOptions array_read_options(LoadContext context) {
  array_store::ReadOptions options;
  if (const TreeLoadOptions* given = context.option<TreeLoadOptions>()) {
    options.allow_narrowing = given->allow_narrowing;
    options.map = given->map;
  }
  options.copier_of = [context = std::move(context)](Device device) { return context.copier(device); };
  return options;
}

}  // namespace cairn
