// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/array_files.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/coord/reduce_changes.hpp"
#include "cairn/formats/index.hpp"
#include "cairn/formats/index_merge.hpp"
#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/tree_handler.hpp"

namespace cairn {
namespace {

class ContextFiles final : public array_store::StoredFiles {
 public:
  explicit ContextFiles(LoadContext context) : context_(std::move(context)) {}

  [[nodiscard]] std::filesystem::path directory() const override { return context_.path(); }

  [[nodiscard]] std::vector<std::string> names() const override { return context_.files(); }

  [[nodiscard]] std::string named_file() const override { return context_.named_file(); }

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

  [[nodiscard]] Awaitable<> read_files(PiecesByFile pieces, NotesByFile notes) const override {
    return context_.read_files(std::move(pieces), std::move(notes));
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

/// How all arrays are stored that no rule names.
array_store::StorageForm form_of(const array_store::WriterOptions& options) {
  array_store::StorageForm form;
  form.dtype = options.storage_dtype;
  form.narrowing = options.narrowing;
  form.snapshot = options.snapshot;
  return form;
}

/// Returns what rules say, over what holds for all arrays.
array_store::StorageForm combined(array_store::StorageForm form, const ArrayForm& ruled) {
  if (ruled.storage_dtype || ruled.keeps_dtype) {
    form.dtype = ruled.storage_dtype;
    form.narrowing = ruled.narrowing;
  }
  form.snapshot = ruled.snapshot.value_or(form.snapshot);
  return form;
}

/// Refuses rules that borrow where the save gives the caller's memory back before it is committed.
void require_possible(const ArrayRules& rules, Snapshot snapshot) {
  for (const ArrayRules::Rule& rule : rules.rules()) {
    if (rule.form.snapshot == Snapshot::borrow && snapshot != Snapshot::borrow) {
      throw Error(
          Errc::invalid_argument,
          fmt::format(
              "{} borrows, which SaveOptions::snapshot does not: borrow there, and have rules copy or "
              "share what changes before the commit",
              rule.describe()));
    }
  }
}

/// Joins indexes; a text of no bytes is none.
std::string merge(std::span<const std::string_view> texts) {
  std::vector<formats::Index> indexes;
  for (const std::string_view text : texts) {
    if (!text.empty()) {
      const std::shared_ptr<const void> nobody;  // The texts live longer.
      indexes.push_back(
          formats::Index::open(nobody, std::as_bytes(std::span(text)), "the index of other ranks"));
    }
  }
  const formats::IndexBytes merged = formats::merge_indexes(indexes);
  return {reinterpret_cast<const char*>(merged.bytes.data()), merged.bytes.size()};
}

/// Holds what the ranks but rank 0 have in the index, as long as none of them writes anything else: files and
/// arrays stay, where only values change.
struct KeptIndex {
  coord::SaidBefore said;
  std::string others;  ///< At rank 0.
};

/// Rank 0 writes the index of all ranks; the others send theirs, unless it is that of an earlier save.
Background<> join_index(SaveContext context, array_store::PlannedIndex planned, coord::Channel ranks,
                        std::shared_ptr<SameOnRanks> same) {
  const bool is_primary = context.coordinator().rank() == 0;
  const formats::IndexBytes index = co_await make_index(context, std::move(planned));
  std::string own(reinterpret_cast<const char*>(index.bytes.data()), index.bytes.size());
  auto kept = context.kept<KeptIndex>();
  std::optional<coord::SaidBefore> said;
  if (kept) {
    said = kept->said;
  }
  std::string told = is_primary ? std::string() : own;
  coord::Channel::Merge join = [](const std::vector<std::string>& texts) {
    return merge(std::vector<std::string_view>(texts.begin(), texts.end()));
  };
  const Hash128 aside = same != nullptr ? same->hash : Hash128();
  Awaitable<coord::Reduced> reducing =
      coord::reduce_changes(ranks, std::move(told), std::move(join), said, aside);
  coord::Reduced reduced = co_await std::move(reducing);
  if (same != nullptr) {
    same->is_alike = reduced.is_alike;
  }
  if (!reduced.is_known) {
    auto next = std::make_shared<KeptIndex>();
    next->said = reduced.said;
    next->others = std::move(reduced.all);
    kept = next;
    context.keep(kept);
  }
  if (is_primary) {
    const std::array<std::string_view, 2> texts = {own, kept->others};
    co_await context.write_file(array_store::kIndexFile, merge(texts));
  }
}

/// Says of how many arrays this rank puts several boxes into one file.
void tell_marked(const SaveContext& context, const array_store::Writer& writer) {
  if (const std::size_t arrays = writer.marked_arrays(); arrays > 0) {
    context.count_problem(
        "files hold several boxes of one array, and torch refuses to read such files (MaxFileSize makes "
        "others, and so do cairn reshard and cairn export); arrays",
        arrays);
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
  if (ArrayRules::Use* rules = context.use<ArrayRules>()) {
    require_possible(*context.option<ArrayRules>(), context.snapshot());
    options.form_of = [rules, context, all = form_of(options)](std::string_view path) {
      return combined(all, rules->form_of(context.name(), path));
    };
  }
  options.copier_of = [context](Device device) { return context.copier(device); };
  const FileNumber* given = context.option<FileNumber>();
  options.rank = given != nullptr ? given->number : context.coordinator().rank();
  options.memory = context.plan_memory();
  return array_store::Writer(std::move(options));
}

Awaitable<Background<>> write_arrays(SaveContext context, array_store::Writer writer) {
  tell_marked(context, writer);
  array_store::PlannedWrite planned = std::move(writer).lay_out();
  std::vector<Background<>> writes = co_await write_files(context, std::move(planned.files));
  writes.push_back(write_index(std::move(context), std::move(planned.index)));
  co_return finish(std::move(writes));
}

Awaitable<Background<>> write_arrays(SaveContext context, array_store::Writer writer, coord::Channel ranks,
                                     std::shared_ptr<SameOnRanks> same) {
  tell_marked(context, writer);
  array_store::PlannedWrite planned = std::move(writer).lay_out();
  std::vector<Background<>> writes = co_await write_files(context, std::move(planned.files));
  writes.push_back(
      join_index(std::move(context), std::move(planned.index), std::move(ranks), std::move(same)));
  co_return finish(std::move(writes));
}

std::shared_ptr<const array_store::StoredFiles> stored_files(LoadContext context) {
  return std::make_shared<ContextFiles>(std::move(context));
}

array_store::ReadOptions array_read_options(LoadContext context) {
  array_store::ReadOptions options;
  if (const TreeLoadOptions* given = context.option<TreeLoadOptions>()) {
    options.allow_narrowing = given->allow_narrowing;
    options.on_mismatch = given->on_mismatch;
    options.map = given->map;
  }
  options.copier_of = [context = std::move(context)](Device device) { return context.copier(device); };
  return options;
}

}  // namespace cairn
