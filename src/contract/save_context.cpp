// SPDX-License-Identifier: Apache-2.0
#include "cairn/contract/save_context.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "contract/file_stream.hpp"
#include "contract/internal/backend.hpp"
#include "contract/text_limit.hpp"
#include "io/internal/file.hpp"
#include "staging/internal/staged_file.hpp"

namespace cairn {
namespace {

using contract::SaveBackend;
using observe::TransferSpan;
using observe::WorkSpan;
using staging::StagedFile;

Background<> wait_created(std::shared_ptr<SaveBackend> save) {
  co_await save->created().wait();
}

template <class Content>
std::span<const std::byte> bytes_of(const Content& content) {
  return std::as_bytes(std::span(content));
}

/// Bytes that another keeps alive.
struct Shared {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

std::span<const std::byte> bytes_of(const Shared& shared) {
  return shared.bytes;
}

/// A file that is closed where that may take its time, when it does not come to its end.
struct WholeFile {
  WholeFile(const staging::DataPlane& save, async::Permit permit) : plane(save), place(std::move(permit)) {}
  ~WholeFile() {
    if (file) {
      plane.drop_later(std::pair(std::move(place), std::move(file)));
    }
  }
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  const staging::DataPlane& plane;
  async::Permit place;
  std::unique_ptr<io::NewFile> file;
};

// outlives: `bytes` is the caller's, who awaits this
Awaitable<> write_bytes(std::shared_ptr<SaveBackend> save, std::string relative,
                        std::span<const std::byte> bytes) {
  co_await save->created().wait();
  staging::DataPlane& plane = save->resources().plane;
  WholeFile whole(plane, co_await plane.files.acquire(1));
  std::unique_ptr<io::NewFile>& file = whole.file;
  io::FileDigest digest;
  std::function<void()> prepare = [&] {
    io::NewFileOptions options;
    options.expected_bytes = bytes.size();
    options.use_direct = false;  // The text is not aligned.
    {
      const observe::WorkSpan span(plane.meter, Work::create, relative, 0, bytes.size());
      file = save->create_file(relative, options);
    }
    const observe::WorkSpan span(plane.meter, Work::hash, relative, 0, bytes.size());
    io::ChunkHasher hasher;
    hasher.update(bytes);
    digest = hasher.finish(relative);
  };
  co_await plane.run_call(std::move(prepare));
  {
    const observe::TransferSpan span(plane.meter, Work::write, relative, 0, bytes.size());
    co_await file->write(0, bytes);
  }
  {
    const observe::TransferSpan span(plane.meter, Work::sync, relative, 0, bytes.size());
    co_await file->finish(bytes.size());
    file.reset();
  }
  plane.written_bytes += bytes.size();
  save->add(std::move(digest));
}

/// Owns its content, or a share of it.
template <class Content>
Background<> write_whole(std::shared_ptr<SaveBackend> save, std::string relative, Content content) {
  Executor strand = save->resources().plane.strand;
  Awaitable<> write = write_bytes(std::move(save), std::move(relative), bytes_of(content));
  co_await async::run_on(std::move(strand), std::move(write));
}

Background<> finish_pieces(std::shared_ptr<SaveBackend> save, std::shared_ptr<StagedFile> file) {
  save->add(co_await StagedFile::finish(std::move(file)));
}

Awaitable<Background<>> stage_pieces(std::shared_ptr<SaveBackend> save, std::shared_ptr<StagedFile> file) {
  co_await StagedFile::stage(file);
  co_return finish_pieces(std::move(save), std::move(file));
}

Background<> run_beside(std::shared_ptr<SaveBackend> save, std::string directory,
                        std::function<void()> work) {
  const staging::DataPlane& plane = save->resources().plane;
  std::function<void()> measured = [&] {
    const observe::WorkSpan span(plane.meter, Work::handler, directory, 0, 0);
    work();
  };
  co_await plane.run_users(std::move(measured));
}

Background<> adopt(std::shared_ptr<SaveBackend> save, std::string relative) {
  co_await save->created().wait();
  std::function<void()> work = [&] { save->adopt_file(relative); };
  co_await save->resources().plane.run_call(std::move(work));
}

/// Removal goes no deeper: a checkpoint that nobody can remove must not be made.
constexpr std::ptrdiff_t kMostDirectories = 100;

}  // namespace

SaveContext::SaveContext(std::shared_ptr<contract::SaveBackend> save, std::string name, std::string directory)
    : save_(std::move(save)), name_(std::move(name)), directory_(std::move(directory)) {}

// Not in the header: each handler of a program would compile them again, in every coroutine.
SaveContext::SaveContext(const SaveContext&) = default;
SaveContext::SaveContext(SaveContext&&) noexcept = default;
SaveContext& SaveContext::operator=(const SaveContext&) = default;
SaveContext& SaveContext::operator=(SaveContext&&) noexcept = default;
SaveContext::~SaveContext() = default;

std::optional<std::filesystem::path> SaveContext::directory() const {
  const std::optional<std::filesystem::path> staged = save_->staged_path();
  return staged ? std::optional(*staged / directory_) : std::nullopt;
}

Background<> SaveContext::directory_created() const {
  return wait_created(save_);
}

Snapshot SaveContext::snapshot() const noexcept {
  return save_->snapshot();
}

coord::Coordinator& SaveContext::coordinator() const noexcept {
  return save_->resources().coordinator;
}

std::optional<coord::Channel> SaveContext::channel(std::string_view name) const {
  return save_->channel(directory_, name);
}

DeviceCopier* SaveContext::copier(Device device) const noexcept {
  return save_->resources().devices.copier(device);
}

const OptionSet& SaveContext::options() const noexcept {
  return save_->resources().options;
}

OptionUse* SaveContext::use(std::type_index type) const {
  return save_->option_use(type);
}

Background<> SaveContext::write_file(std::string_view file, std::string text) const {
  std::string relative = claim(file, text.size());
  return write_whole(save_, std::move(relative), std::move(text));
}

Background<> SaveContext::write_file(std::string_view file, std::vector<std::byte> bytes) const {
  std::string relative = claim(file, bytes.size());
  return write_whole(save_, std::move(relative), std::move(bytes));
}

Background<> SaveContext::write_file(std::string_view file, std::span<const std::byte> bytes,
                                     std::shared_ptr<const void> owner) const {
  std::string relative = claim(file, bytes.size());
  return write_whole(save_, std::move(relative), Shared{bytes, std::move(owner)});
}

std::string SaveContext::place_of(std::string_view file) const {
  io::require_relative(file);
  if (std::count(file.begin(), file.end(), '/') > kMostDirectories) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' lies more than {} directories deep", file, kMostDirectories));
  }
  return directory_ + "/" + std::string(file);
}

std::string SaveContext::claim(std::string_view file, std::size_t bytes) const {
  if (bytes > contract::kMaxTextBytes) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("'{}' has {} bytes: too many to be read as one text; write it in pieces", file, bytes));
  }
  std::string relative = place_of(file);
  save_->claim(relative, bytes);
  save_->resources().plane.staged_bytes += bytes;
  return relative;
}

Awaitable<Background<>> SaveContext::write_pieces(std::string_view file, std::vector<SourcePiece> pieces,
                                                  std::uint64_t file_bytes) const {
  std::string relative = place_of(file);
  staging::FileToWrite plan;
  plan.name = relative;
  plan.size_bytes = file_bytes;
  plan.pieces = std::move(pieces);
  plan.snapshot = snapshot();
  if (save_->gives_copies() && plan.snapshot == Snapshot::copy) {
    for (SourcePiece& piece : plan.pieces) {
      piece.snapshot.reset();  // Pieces show copies that nobody may read in the background.
    }
  }
  plan.medium = save_->medium();
  plan.may_create = save_->created();
  plan.create = [save = save_.get(), relative](const io::NewFileOptions& options) {
    return save->create_file(relative, options);  // The plane is the save's: it lives.
  };
  const std::shared_ptr<staging::DataPlane> plane(save_, &save_->resources().plane);
  auto staged = std::make_shared<StagedFile>(plane, std::move(plan));
  save_->claim(relative, file_bytes);
  return stage_pieces(save_, std::move(staged));
}

FileStream SaveContext::stream_file(std::string_view file) const {
  std::string relative = place_of(file);
  save_->claim(relative, 0);
  return FileStream(std::make_shared<FileStream::State>(save_, std::move(relative)));
}

Background<> SaveContext::adopt_file(std::string_view file) const {
  std::string relative = place_of(file);
  save_->claim(relative, 0);
  return adopt(save_, std::move(relative));
}

std::shared_ptr<std::pmr::memory_resource> SaveContext::plan_memory() const {
  return save_->plan_memory();
}

Background<> SaveContext::run(HandlerWork work) const {
  return run_beside(save_, directory_, work.function());
}

std::shared_ptr<const void> SaveContext::kept(std::type_index type) const {
  return save_->kept().find({directory_, type});
}

void SaveContext::keep(std::type_index type, std::shared_ptr<const void> value) const {
  save_->kept().keep({directory_, type}, std::move(value));
}

void SaveContext::record_id(std::string_view id) const {
  save_->record_id(directory_, id);
}

void SaveContext::add_problem(const std::string& problem) const {
  save_->add_problem(problem);
}

void SaveContext::tell(const std::string& problem) const {
  save_->tell(problem);
}

bool SaveContext::ranks_must_agree() const noexcept {
  return save_->ranks_must_agree();
}

std::span<const std::string> SaveContext::may_differ() const noexcept {
  return save_->may_differ();
}

void SaveContext::count_problem(const std::string& words, std::uint64_t count) const {
  save_->count_problem(words, count);
}

void SaveContext::note_alone(std::uint64_t bytes) const {
  save_->note_alone(bytes);
}

void SaveContext::add_work(Work work, const WorkFigures& figures) const {
  save_->resources().plane.meter.add_work(work, figures.bytes, figures.time, figures.count);
}

void SaveContext::add_policy(const std::string& description, const WorkFigures& figures) const {
  save_->add_policy(description, figures);
  add_work(Work::divide, figures);
}

}  // namespace cairn
