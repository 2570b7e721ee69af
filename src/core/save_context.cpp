// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/save_context.hpp"

#include <functional>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/drop_later.hpp"
#include "core/save_job.hpp"
#include "core/text_limit.hpp"
#include "io/internal/file.hpp"
#include "staging/internal/staged_file.hpp"

namespace cairn {
namespace {

using core::SaveJob;
using observe::TransferSpan;
using observe::WorkSpan;
using staging::StagedFile;

Background<> wait_created(std::shared_ptr<SaveJob> job) {
  co_await job->created().wait();
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
  WholeFile(std::shared_ptr<SaveJob> save, async::Permit permit)
      : job(std::move(save)), place(std::move(permit)) {}
  ~WholeFile() {
    if (file) {
      core::drop_later(job->services_owner(), std::pair(std::move(place), std::move(*file)));
    }
  }
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  std::shared_ptr<SaveJob> job;
  async::Permit place;
  std::optional<io::DurableFile> file;
};

// outlives: `bytes` is the caller's, who awaits this
Awaitable<> write_bytes(std::shared_ptr<SaveJob> job, std::string relative,
                        std::span<const std::byte> bytes) {
  co_await job->created().wait();
  WholeFile whole(job, co_await job->services().disk.files.acquire(1));
  std::optional<io::DurableFile>& file = whole.file;
  io::FileDigest digest;
  std::function<void()> prepare = [&] {
    io::DurableFileOptions options;
    options.expected_bytes = bytes.size();
    options.use_direct = false;  // The text is not aligned.
    {
      const observe::WorkSpan span(job->meter(), Work::create, relative, 0, bytes.size());
      file.emplace(job->create_file(relative, options));
    }
    const observe::WorkSpan span(job->meter(), Work::hash, relative, 0, bytes.size());
    io::ChunkHasher hasher;
    hasher.update(bytes);
    digest = hasher.finish(relative);
  };
  co_await job->run_call(std::move(prepare));
  {
    const observe::TransferSpan span(job->meter(), Work::write, relative, 0, bytes.size());
    co_await file->write(0, bytes);
  }
  {
    const observe::TransferSpan span(job->meter(), Work::sync, relative, 0, bytes.size());
    co_await file->finish(bytes.size());
    file.reset();
  }
  job->plane().written_bytes += bytes.size();
  job->add(std::move(digest));
}

/// Owns its content, or a share of it.
template <class Content>
Background<> write_whole(std::shared_ptr<SaveJob> job, std::string relative, Content content) {
  Executor strand = job->plane().strand;
  Awaitable<> write = write_bytes(std::move(job), std::move(relative), bytes_of(content));
  co_await async::run_on(std::move(strand), std::move(write));
}

Background<> finish_pieces(std::shared_ptr<SaveJob> job, std::shared_ptr<StagedFile> file) {
  job->add(co_await StagedFile::finish(std::move(file)));
}

Awaitable<Background<>> stage_pieces(std::shared_ptr<SaveJob> job, std::shared_ptr<StagedFile> file) {
  co_await StagedFile::stage(file);
  co_return finish_pieces(std::move(job), std::move(file));
}

Background<> run_beside(std::shared_ptr<SaveJob> job, std::string directory, std::function<void()> work) {
  std::function<void()> measured = [&] {
    const observe::WorkSpan span(job->meter(), Work::handler, directory, 0, 0);
    work();
  };
  co_await job->run_users(std::move(measured));
}

Background<> adopt(std::shared_ptr<SaveJob> job, std::string relative) {
  co_await job->created().wait();
  std::function<void()> work = [&] { job->adopt_file(relative); };
  co_await job->run_call(std::move(work));
}

void require_component(std::string_view file) {
  io::require_relative(file);
  if (file.find('/') != std::string_view::npos) {
    throw Error(Errc::invalid_argument, fmt::format("'{}' is not the name of one file", file));
  }
}

}  // namespace

SaveContext::SaveContext(std::shared_ptr<core::SaveJob> job, std::string name, std::string directory)
    : job_(std::move(job)), name_(std::move(name)), directory_(std::move(directory)) {}

// Not in the header: each handler of a program would compile them again, in every coroutine.
SaveContext::SaveContext(const SaveContext&) = default;
SaveContext::SaveContext(SaveContext&&) noexcept = default;
SaveContext& SaveContext::operator=(const SaveContext&) = default;
SaveContext& SaveContext::operator=(SaveContext&&) noexcept = default;
SaveContext::~SaveContext() = default;

std::filesystem::path SaveContext::directory() const {
  return job_->temporary_path() / directory_;
}

Background<> SaveContext::directory_created() const {
  return wait_created(job_);
}

Snapshot SaveContext::snapshot() const noexcept {
  return job_->options().snapshot;
}

Coordinator& SaveContext::coordinator() const noexcept {
  return job_->services().coordinator;
}

std::optional<Subject> SaveContext::about(std::string_view subject) const {
  return job_->about(directory_, subject);
}

DeviceCopier* SaveContext::copier(Device device) const noexcept {
  return job_->services().devices.copier(device);
}

const OptionSet& SaveContext::options() const noexcept {
  return job_->options().handler_options;
}

OptionUse* SaveContext::use(std::type_index type) const {
  return job_->option_use(type);
}

Background<> SaveContext::write_file(std::string_view file, std::string text) const {
  std::string relative = claim(file, text.size());
  return write_whole(job_, std::move(relative), std::move(text));
}

Background<> SaveContext::write_file(std::string_view file, std::vector<std::byte> bytes) const {
  std::string relative = claim(file, bytes.size());
  return write_whole(job_, std::move(relative), std::move(bytes));
}

Background<> SaveContext::write_file(std::string_view file, std::span<const std::byte> bytes,
                                     std::shared_ptr<const void> owner) const {
  std::string relative = claim(file, bytes.size());
  return write_whole(job_, std::move(relative), Shared{bytes, std::move(owner)});
}

std::string SaveContext::claim(std::string_view file, std::size_t bytes) const {
  require_component(file);
  if (bytes > core::kMaxTextBytes) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("'{}' has {} bytes: too many to be read as one text; write it in pieces", file, bytes));
  }
  std::string relative = directory_ + "/" + std::string(file);
  job_->claim(relative);
  job_->total_bytes += bytes;
  job_->plane().staged_bytes += bytes;
  return relative;
}

Awaitable<Background<>> SaveContext::write_pieces(std::string_view file, std::vector<SourcePiece> pieces,
                                                  std::uint64_t file_bytes) const {
  require_component(file);
  std::string relative = directory_ + "/" + std::string(file);
  staging::FileToWrite plan;
  plan.name = relative;
  plan.size_bytes = file_bytes;
  plan.pieces = std::move(pieces);
  plan.snapshot = snapshot();
  if (job_->services().options.check_handlers && plan.snapshot == Snapshot::copy) {
    for (SourcePiece& piece : plan.pieces) {
      piece.snapshot.reset();  // Pieces show copies that nobody may read in the background.
    }
  }
  plan.may_create = job_->created();
  plan.create = [job = job_.get(), relative](const io::DurableFileOptions& options) {
    return job->create_file(relative, options);  // The plane is the job's: it lives.
  };
  const std::shared_ptr<staging::DataPlane> plane(job_, &job_->plane());
  auto staged = std::make_shared<StagedFile>(plane, std::move(plan));
  job_->claim(relative);
  job_->total_bytes += file_bytes;
  return stage_pieces(job_, std::move(staged));
}

Background<> SaveContext::adopt_file(std::string_view file) const {
  io::require_relative(file);
  std::string relative = directory_ + "/" + std::string(file);
  job_->claim(relative);
  return adopt(job_, std::move(relative));
}

std::shared_ptr<std::pmr::memory_resource> SaveContext::plan_memory() const {
  return job_->services().memory.plans;
}

Background<> SaveContext::run(std::function<void()> work) const {
  return run_beside(job_, directory_, std::move(work));
}

std::shared_ptr<const void> SaveContext::kept(std::type_index type) const {
  return job_->services().kept.find({directory_, type});
}

void SaveContext::keep(std::type_index type, std::shared_ptr<const void> value) const {
  job_->services().kept.keep({directory_, type}, std::move(value));
}

void SaveContext::add_problem(const std::string& problem) const {
  job_->add_problem(problem);
}

void SaveContext::add_work(Work work, const WorkFigures& figures) const {
  job_->meter().add_work(work, figures.bytes, figures.time, figures.count);
}

}  // namespace cairn
