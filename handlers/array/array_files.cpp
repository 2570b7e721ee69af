// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/array_files.hpp"

#include <functional>
#include <utility>
#include <vector>

#include "cairn/async/awaitable.hpp"
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

Background<> write_index(SaveContext context, array_store::PlannedIndex planned) {
  co_await planned.headers_read();
  const auto index = std::make_shared<formats::IndexBytes>();
  std::function<void()> make = [planned, index] { *index = planned.make(); };
  co_await context.run(std::move(make));
  co_await context.write_file(array_store::kIndexFile, index->bytes, index->owner);
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
  std::vector<Background<>> writes;
  for (array_store::PlannedFile& file : planned.files) {
    writes.push_back(co_await context.write_pieces(file.name, std::move(file.pieces), file.size_bytes));
  }
  writes.push_back(write_index(std::move(context), std::move(planned.index)));
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
