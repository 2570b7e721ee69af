// SPDX-License-Identifier: Apache-2.0
#include "array_store/internal/verify_files.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "array_store/layouts/fetched_parts.hpp"
#include "array_store/layouts/layouts.hpp"
#include "array_store/read_steps.hpp"
#include "array_store/sum_check.hpp"
#include "base/internal/mutex.hpp"
#include "formats/internal/foreign_index.hpp"
#include "formats/internal/index.hpp"
#include "formats/internal/zip.hpp"

namespace cairn::array_store {
namespace {

using formats::FileRange;
using formats::ForeignCatalogue;
using Files = std::shared_ptr<const StoredFiles>;

constexpr std::size_t kArchivesAtOnce = 256;
constexpr std::size_t kSlicesAtOnce = 4096;
constexpr std::size_t kMostProblems = 10'000;

/// What checks have found so far, on several threads.
class Findings {
 public:
  explicit Findings(std::shared_ptr<std::atomic<std::uint64_t>> done_bytes)
      : done_bytes_(std::move(done_bytes)) {}

  void add(FileProblem problem) {
    const MutexLock lock(mutex_);
    ++report_.problem_count;
    if (report_.problems.size() < kMostProblems) {
      report_.problems.push_back(std::move(problem));
    }
  }
  void add_notes(const std::vector<std::string>& notes) {
    const MutexLock lock(mutex_);
    report_.notes.insert(report_.notes.end(), notes.begin(), notes.end());
  }
  void add_unchecked(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    report_.unchecked_bytes += bytes;
  }
  void add_member(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    ++report_.members;
    report_.checked_bytes += bytes;
  }
  void count(std::uint64_t bytes) { *done_bytes_ += bytes; }

  FilesReport take() {
    const MutexLock lock(mutex_);
    std::sort(report_.problems.begin(), report_.problems.end(),
              [](const FileProblem& a, const FileProblem& b) {
                return a.file != b.file ? a.file < b.file : a.begin_bytes < b.begin_bytes;
              });
    return std::move(report_);
  }

 private:
  const std::shared_ptr<std::atomic<std::uint64_t>> done_bytes_;
  Mutex mutex_;
  FilesReport report_ CAIRN_GUARDED_BY(mutex_);
};

using FindingsPointer = std::shared_ptr<Findings>;

/// Compares a member of an archive, and notes when it is not what was written.
class MemberCheck final : public ByteCheck {
 public:
  MemberCheck(FindingsPointer findings, FileProblem problem, std::uint32_t crc32)
      : findings_(findings),
        sum_(problem.begin_bytes, problem.end_bytes, crc32,
             [findings, problem = std::move(problem)] { findings->add(problem); }) {}

  void take(std::uint64_t offset_bytes, std::span<const std::byte> bytes) override {
    sum_.take(offset_bytes, bytes);
    findings_->count(bytes.size());
  }

 private:
  const FindingsPointer findings_;
  SumCheck sum_;
};

/// Refuses slices that do not tile their arrays, overlap, or are not in the files.
void check_structure(const formats::Index& index, const StoredFiles& files) {
  std::vector<WantedArray> wanted;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const formats::IndexEntry entry = index.entry(i);
    const bool has_bytes =
        entry.kind == formats::EntryKind::array || entry.kind == formats::EntryKind::unread;
    if (has_bytes && !entry.is_alias) {
      wanted.push_back({entry, nullptr, nullptr});
    }
  }
  LocatedArrays located = locate(index, wanted, ReadOptions());
  static_cast<void>(check_regions(index, located.arrays, std::move(located.regions), files));
}

/// Arrays from `first` on that have a few slices together; `first` is then behind them.
ForeignCatalogue next_arrays(const ForeignCatalogue& described, std::size_t& first, std::size_t most_slices) {
  ForeignCatalogue part;
  part.files = described.files;
  part.forms = described.forms;
  part.is_located = false;
  for (std::size_t slices = 0; first < described.arrays.size() && slices < most_slices; ++first) {
    if (const formats::ForeignArray& array = described.arrays[first]; !array.slices.empty()) {
      part.arrays.push_back(array);
      slices += array.slices.size();
    }
  }
  return part;
}

/// Looks into all chunks: they must hold what the description says. One after the other where something is wrong, to
/// tell of each.
Awaitable<> verify_chunks(Files files, std::shared_ptr<const FileLayout> layout, ForeignCatalogue described,
                          FindingsPointer findings) {
  std::size_t most_slices = kSlicesAtOnce;
  for (std::size_t first = 0; first < described.arrays.size();) {
    std::size_t next = first;
    ForeignCatalogue part = next_arrays(described, next, most_slices);
    const FileRange range = part.arrays.empty() ? FileRange() : part.arrays.back().slices.front().range;
    std::string problem;
    try {
      Awaitable<ForeignCatalogue> locating = layout->locate(files, std::move(part));
      async::require_coroutine(locating, "'locate'");
      static_cast<void>(co_await std::move(locating));
    } catch (const Error& error) {
      problem = error.detail();
    }
    if (!problem.empty() && most_slices > 1) {
      most_slices = 1;  // The same again.
      continue;
    }
    if (!problem.empty()) {
      findings->add({described.files[range.file], range.begin, range.end, std::move(problem)});
    }
    first = next;
  }
}

/// Reads a slice as a load does, with its codecs.
Awaitable<> decode_slice(Files files, std::shared_ptr<const FileLayout> layout, formats::Index index,
                         formats::IndexEntry entry, std::uint32_t number) {
  const formats::IndexArray array = index.array(entry);
  const formats::IndexSlice slice = index.slice(array, number);
  const Shape shape(array.dims);
  AbstractShardedArray wanted(shape, array.dtype);
  wanted.want(slice.is_whole ? Box::whole(shape) : Box(Shape(slice.offsets), Shape(slice.extents)));
  std::vector<WantedArray> part(1);
  part[0].entry = entry;
  part[0].boxes = &wanted;
  Awaitable<formats::Index> locating = locate_wanted(files, std::move(layout), index, part, ReadOptions());
  const formats::Index located = co_await std::move(locating);
  ReadPlan plan = plan_read(located, part, ReadOptions(), *files);
  Awaitable<> reading = read(files, std::move(plan.pieces), std::move(plan.notes));
  co_await std::move(reading);
}

/// Decodes what has codecs, in bounded memory: one slice after the other.
Awaitable<> verify_encoded(Files files, std::shared_ptr<const FileLayout> layout, formats::Index index,
                           FindingsPointer findings) {
  for (std::size_t i = 0; i < index.size(); ++i) {
    const formats::IndexEntry entry = index.entry(i);
    const bool is_array = entry.kind == formats::EntryKind::array && !entry.is_alias;
    const std::uint32_t slices = is_array ? index.array(entry).slice_count : 0;
    for (std::uint32_t number = 0; number < slices; ++number) {
      const formats::IndexSlice slice = index.slice(index.array(entry), number);
      if (slice.form == nullptr || slice.form->codecs.empty()) {
        continue;
      }
      std::string problem;
      try {
        Awaitable<> decoding = decode_slice(files, layout, index, entry, number);
        co_await std::move(decoding);
      } catch (const Error& error) {
        problem = error.detail();
      }
      if (!problem.empty()) {
        findings->add({std::string(slice.file), slice.offset, slice.offset + slice.size, std::move(problem)});
      }
    }
  }
}

/// Reads the directory of an archive and the headers of its members. Nothing for an object that is other bytes.
std::optional<formats::ZipDirectory> open_archive(const formats::ReadAt& read,
                                                  const formats::ExpectParts& expect, std::uint64_t size,
                                                  std::string_view path) {
  constexpr std::array kFirst = {std::byte{'P'}, std::byte{'K'}};
  const std::vector<std::byte> first = read(0, std::min<std::uint64_t>(size, kFirst.size()));
  if (!std::equal(first.begin(), first.end(), kFirst.begin(), kFirst.end())) {
    return std::nullopt;
  }
  formats::ZipDirectory directory = formats::read_zip_directory(read, size, path);
  std::vector<formats::PartOfFile> headers;
  for (const formats::ZipMember& member : directory.members) {
    headers.push_back({member.header, zip_header_bytes(member)});
  }
  expect(headers);
  for (formats::ZipMember& member : directory.members) {
    locate_zip_member(member, read(member.header, zip_header_bytes(member)), path);
  }
  return directory;
}

/// Adds the pieces that show the members of an archive to their checks.
void add_members(const formats::ZipDirectory& directory, const FileRange& range, const std::string& file,
                 const std::string& path, const FindingsPointer& findings,
                 std::vector<DestinationPiece>& pieces) {
  for (const formats::ZipMember& member : directory.members) {
    if (!member.has_sum()) {
      findings->add_unchecked(member.size);
      continue;
    }
    findings->add_member(member.size);
    if (member.size > 0) {
      DestinationPiece& piece = pieces.emplace_back();
      piece.offset_bytes = range.begin + member.begin;
      piece.size_bytes = member.size;
      FileProblem problem{file, piece.offset_bytes, piece.offset_bytes + member.size, {}};
      problem.text =
          fmt::format("{}: bytes [{}, {}), member '{}': not what was written: its CRC-32 is another", path,
                      problem.begin_bytes, problem.end_bytes, member.name);
      piece.check = std::make_shared<MemberCheck>(findings, std::move(problem), member.crc32);
    }
  }
}

Awaitable<> verify_archives(Files files, std::vector<std::string> names, std::vector<FileRange> archives,
                            FindingsPointer findings) {
  FetchedParts parts(files);
  std::vector<std::optional<formats::ZipDirectory>> opened(archives.size());
  std::vector<bool> is_left(archives.size(), true);
  for (const FileRange& range : archives) {
    const std::uint64_t size = range.end - range.begin;
    parts.want(names[range.file], range.begin, range.begin + std::min(size, formats::kZipTailBytes));
    parts.want(names[range.file], range.end - std::min(size, formats::kZipTailBytes), range.end);
  }
  while (std::find(is_left.begin(), is_left.end(), true) != is_left.end()) {
    co_await parts.fetch();
    for (std::size_t i = 0; i < archives.size(); ++i) {
      const FileRange& range = archives[i];
      const std::string& file = names[range.file];
      const std::string path = full_path(*files, file);
      try {
        if (is_left[i] && parts.try_read(file, range.begin, [&](const auto& read_at, const auto& expect) {
              opened[i] = open_archive(read_at, expect, range.end - range.begin, path);
            })) {
          is_left[i] = false;
          findings->add_unchecked(opened[i] ? 0 : range.end - range.begin);
        }
      } catch (const Error& error) {
        findings->add({file, range.begin, range.end, error.detail()});
        is_left[i] = false;
      }
    }
  }
  PiecesByFile pieces;
  for (std::size_t i = 0; i < archives.size(); ++i) {
    const std::string& file = names[archives[i].file];
    if (opened[i]) {
      add_members(*opened[i], archives[i], file, full_path(*files, file), findings, pieces[file]);
    }
  }
  Awaitable<> reading = read(files, std::move(pieces));
  co_await std::move(reading);
}

/// Reads an object, and adds what of it has no place in a tree.
// outlives: look_into_objects awaits it.
Awaitable<> look_into_object(Files files, std::shared_ptr<const FileLayout> layout, formats::Index index,
                             formats::IndexEntry entry, std::vector<formats::LeftOut>& left_out) {
  std::vector<WantedArray> wanted(1);
  wanted[0].entry = entry;
  ReadPlan plan = plan_read(index, wanted, ReadOptions(), *files);
  Awaitable<> reading = read(files, std::move(plan.pieces));
  co_await std::move(reading);
  const StoredObject object(*layout, index, entry, plan.arrays.front().view().bytes());
  if (const formats::ForeignDetails* foreign = object.index().foreign()) {
    for (const formats::LeftOut& one : foreign->left_out) {
      left_out.push_back({fmt::format("{}{}{}", entry.name, one.path.empty() ? "" : "/", one.path), one.why});
    }
  }
}

}  // namespace

Awaitable<ObjectsReport> look_into_objects(std::shared_ptr<const StoredFiles> files,
                                           std::shared_ptr<const FileLayout> layout, formats::Index index) {
  ObjectsReport report;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const formats::IndexEntry entry = index.entry(i);
    if (entry.kind != formats::EntryKind::unread) {
      continue;
    }
    std::string problem;
    try {
      Awaitable<> looking = look_into_object(files, layout, index, entry, report.left_out);
      co_await std::move(looking);
    } catch (const Error& error) {
      problem = error.detail();
    }
    if (!problem.empty()) {
      const formats::IndexArray object = index.array(entry);
      const formats::IndexSlice slice = index.slice(object, 0);
      report.problems.push_back(
          {std::string(slice.file), slice.offset, slice.offset + slice.size, std::move(problem)});
    }
  }
  co_return report;
}

Awaitable<FilesReport> verify_files(std::shared_ptr<const StoredFiles> files,
                                    std::shared_ptr<const FileLayout> layout,
                                    std::shared_ptr<std::atomic<std::uint64_t>> done_bytes) {
  Awaitable<ForeignCatalogue> describing = layout->describe(files, OpenOptions());
  async::require_coroutine(describing, "'describe'");
  ForeignCatalogue described = co_await std::move(describing);
  const formats::Index index = formats::make_index(described, files->directory().string());
  check_structure(index, *files);
  const std::vector<FileRange> archives = layout->archives(described, *files);
  const std::vector<std::string> names = described.files;
  const auto findings = std::make_shared<Findings>(std::move(done_bytes));
  std::uint64_t unchecked = 0;
  for (const std::string& name : names) {
    unchecked += archives.empty() ? files->size_bytes(name).value_or(0) : 0;
  }
  findings->add_unchecked(unchecked);
  findings->add_notes(described.problems);
  std::vector<formats::LeftOut> left_out = std::move(described.left_out);
  if (!described.is_located) {
    co_await verify_chunks(files, layout, std::move(described), findings);
  }
  co_await verify_encoded(files, layout, index, findings);
  Awaitable<ObjectsReport> looking = look_into_objects(files, layout, index);
  ObjectsReport objects = co_await std::move(looking);
  for (FileProblem& problem : objects.problems) {
    findings->add(std::move(problem));
  }
  left_out.insert(left_out.end(), objects.left_out.begin(), objects.left_out.end());
  findings->add_notes(formats::left_out_texts(left_out));
  for (std::size_t begin = 0; begin < archives.size(); begin += kArchivesAtOnce) {
    const std::size_t end = std::min(begin + kArchivesAtOnce, archives.size());
    std::vector<FileRange> some(archives.begin() + static_cast<std::ptrdiff_t>(begin),
                                archives.begin() + static_cast<std::ptrdiff_t>(end));
    co_await verify_archives(files, names, std::move(some), findings);
  }
  co_return findings->take();
}

}  // namespace cairn::array_store
