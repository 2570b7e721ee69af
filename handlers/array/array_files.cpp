// SPDX-License-Identifier: Apache-2.0
#include "cairn/handlers/array_files.hpp"

#include <algorithm>
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
#include <fmt/ranges.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/coord/reduce_changes.hpp"
#include "cairn/handlers/array_rules.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "formats/internal/index.hpp"
#include "formats/internal/index_merge.hpp"
#include "handlers/internal/array_files.hpp"

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

std::string text_of(const formats::IndexBytes& index) {
  return {reinterpret_cast<const char*>(index.bytes.data()), index.bytes.size()};
}

/// Joins indexes; a text of no bytes is none.
std::string merge_texts(std::span<const std::string_view> texts) {
  std::vector<formats::Index> indexes;
  for (const std::string_view text : texts) {
    if (!text.empty()) {
      const std::shared_ptr<const void> nobody;  // The texts live longer.
      indexes.push_back(
          formats::Index::open(nobody, std::as_bytes(std::span(text)), "the index of other ranks"));
    }
  }
  return indexes.empty() ? std::string() : text_of(formats::merge_indexes(indexes));
}

/// Holds what the ranks but rank 0 have in the index, as long as none of them has anything else.
struct KeptTexts {
  coord::SaidBefore said;
  std::string others;  ///< At rank 0.
};

/// Holds their arrays: files and boxes stay, where only values change.
struct KeptIndex : KeptTexts {};

/// Holds their values.
struct KeptValues : KeptTexts {};

/// Sends an index to rank 0, unless it is that of an earlier save. Returns what the others have sent, now or then.
template <class Kept>
// outlives: the caller keeps the channel until this has ended.
Awaitable<std::shared_ptr<const Kept>> send_changes(SaveContext context, coord::Channel& ranks,
                                                    std::string mine, std::shared_ptr<SameOnRanks> same) {
  std::shared_ptr<const Kept> kept = context.kept<Kept>();
  std::optional<coord::SaidBefore> said;
  if (kept) {
    said = kept->said;
  }
  coord::Channel::Merge join = [](const std::vector<std::string>& texts) {
    return merge_texts(std::vector<std::string_view>(texts.begin(), texts.end()));
  };
  const Hash128 aside = same != nullptr ? same->hash : Hash128();
  Awaitable<coord::Reduced> reducing =
      coord::reduce_changes(ranks, std::move(mine), std::move(join), said, aside);
  coord::Reduced reduced = co_await std::move(reducing);
  if (same != nullptr) {
    same->is_alike = reduced.is_alike;
  }
  if (!reduced.is_known) {
    auto next = std::make_shared<Kept>();
    next->said = reduced.said;
    next->others = std::move(reduced.all);
    kept = std::move(next);
    context.keep(kept);
  }
  co_return kept;
}

/// Rank 0 writes the index of all ranks; the others send theirs. Values are said by themselves where there are such of
/// other ranks: they change more often.
Background<> join_index(SaveContext context, array_store::PlannedIndex planned, coord::Channel ranks,
                        std::shared_ptr<SameOnRanks> same, std::optional<std::string> values) {
  const bool is_primary = context.coordinator().rank() == 0;
  const formats::IndexBytes index = co_await make_index(context, std::move(planned));
  const std::string own = text_of(index);
  std::string mine = is_primary ? std::string() : own;
  Awaitable<std::shared_ptr<const KeptIndex>> sending =
      send_changes<KeptIndex>(context, ranks, std::move(mine), std::move(same));
  const std::shared_ptr<const KeptIndex> arrays = co_await std::move(sending);
  std::string_view values_of_others;
  std::shared_ptr<const KeptValues> kept_values;
  if (values) {
    Awaitable<std::shared_ptr<const KeptValues>> sending_values =
        send_changes<KeptValues>(context, ranks, std::move(*values), nullptr);
    kept_values = co_await std::move(sending_values);
    values_of_others = kept_values->others;
  }
  if (is_primary) {
    const std::array<std::string_view, 3> texts = {own, arrays->others, values_of_others};
    co_await context.write_file(array_store::kIndexFile, merge_texts(texts));
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
  if (std::span<const std::string> paths = writer.overlapping(); !paths.empty()) {
    constexpr std::size_t kMostNamed = 5;
    const std::size_t more = paths.size() - std::min(paths.size(), kMostNamed);
    paths = paths.first(paths.size() - more);
    context.add_problem(fmt::format(
        "'{}': elements lie over each other in the memory of '{}'{}: each is saved as often "
        "as its view has it; are its strides in bytes?",
        context.name(), fmt::join(paths, "', '"), more > 0 ? fmt::format(" and {} more", more) : ""));
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
                                     std::shared_ptr<SameOnRanks> same,
                                     std::optional<formats::IndexBuilder> values) {
  std::optional<std::string> value_text;
  if (values) {
    value_text = values->empty() ? std::string() : text_of(values->finish());
  }
  tell_marked(context, writer);
  array_store::PlannedWrite planned = std::move(writer).lay_out();
  std::vector<Background<>> writes = co_await write_files(context, std::move(planned.files));
  writes.push_back(join_index(std::move(context), std::move(planned.index), std::move(ranks), std::move(same),
                              std::move(value_text)));
  co_return finish(std::move(writes));
}

void add_value(formats::IndexBuilder& entries, std::string_view path, const Tree& leaf) {
  switch (leaf.kind()) {
    case TreeKind::null:
      return entries.add_null(path);
    case TreeKind::boolean:
      return entries.add_bool(path, leaf.as<bool>());
    case TreeKind::floating:
      return entries.add_double(path, leaf.as<double>());
    case TreeKind::string:
      return entries.add_string(path, leaf.as<std::string_view>());
    case TreeKind::bytes:
      return entries.add_bytes(path, *leaf.bytes_if());  // Not a copy: it may be large.
    case TreeKind::map:
      return entries.add_empty_map(path);
    case TreeKind::list:
      return entries.add_list(path, leaf.size());
    case TreeKind::integer:
      if (const auto value = leaf.large_integer()) {
        entries.add_unsigned(path, *value);
      } else {
        entries.add_integer(path, leaf.as<std::int64_t>());
      }
      return;
    case TreeKind::array:
    case TreeKind::sharded_array:
      return;
  }
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

Awaitable<Background<>> write_arrays(SaveContext context, const ArraysByPath& arrays) {
  array_store::Writer writer = array_writer(context);
  for (const auto& [path, array] : arrays) {
    writer.add(path, array);
  }
  return write_arrays(std::move(context), std::move(writer));
}

Background<ArraysByPath> read_arrays(LoadContext context, std::optional<AbstractArraysByPath> wanted) {
  const auto files = stored_files(context);
  const formats::Index index = co_await array_store::open_index(files);
  std::vector<array_store::WantedArray> entries;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const formats::IndexEntry entry = index.entry(i);
    if (entry.kind != formats::EntryKind::array) {
      continue;
    }
    const auto form = wanted ? wanted->find(entry.name) : AbstractArraysByPath::iterator();
    if (!wanted || form != wanted->end()) {
      entries.push_back({entry, wanted ? &form->second : nullptr});
    }
  }
  array_store::ReadPlan plan = array_store::plan_read(index, entries, array_read_options(context), *files);
  co_await array_store::read(files, std::move(plan.pieces), std::move(plan.notes));
  ArraysByPath arrays;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    arrays.emplace(entries[i].entry.name, std::move(plan.arrays[i]));
  }
  co_return arrays;
}

Awaitable<AbstractArraysByPath> read_array_forms(LoadContext context) {
  const formats::Index index = co_await array_store::open_index(stored_files(std::move(context)));
  AbstractArraysByPath forms;
  std::size_t i = 0;
  for (formats::IndexArray array; index.next_array(i, array); ++i) {
    forms.emplace(array.name, AbstractArray(Shape(array.dims), array.dtype));
  }
  co_return forms;
}

}  // namespace cairn
