// SPDX-License-Identifier: Apache-2.0
#include "cairn/core/load_context.hpp"

#include <functional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "core/read_job.hpp"
#include "core/shared_reads.hpp"
#include "core/text_limit.hpp"
#include "io/internal/mapped_file.hpp"
#include "staging/internal/device_pieces.hpp"
#include "staging/internal/range_reader.hpp"

namespace cairn {
namespace {

using core::ReadJob;
using core::SharedReads;

std::string relative_to(const std::string& directory, std::string_view file) {
  return directory.empty() ? std::string(file) : directory + "/" + std::string(file);
}

/// Errors: Errc::not_found.
std::uint64_t size_of(const store::FileSource& source, const std::string& relative) {
  const auto bytes = source.file_bytes(relative);
  if (!bytes) {
    throw Error(Errc::not_found, fmt::format("{} has no file '{}'", source.root().string(), relative));
  }
  return *bytes;
}

/// A file of the job's checkpoint; the job outlives it.
staging::FileToRead file_of(const ReadJob& job, const std::string& relative) {
  const store::FileSource* source = &job.source();
  staging::FileToRead file;
  file.name = relative;
  file.path = source->root() / relative;
  file.size_bytes = size_of(*source, relative);
  file.open = [source, relative](int flags) { return source->open_file(relative, flags); };
  if (job.options().verify) {
    file.digest = [source, relative] { return source->digest(relative); };
  }
  return file;
}

Background<> read_ranges(std::shared_ptr<ReadJob> job, std::string relative,
                         std::vector<DestinationPiece> pieces) {
  staging::RangeReader reader(job->plane(), file_of(*job, relative), std::move(pieces));
  co_await reader.read();
  job->count_file(relative);
}

Background<> read_independently(std::shared_ptr<ReadJob> job, PiecesByFile pieces) {
  std::vector<Awaitable<>> reads;
  for (auto& [relative, in_file] : pieces) {
    reads.push_back(read_ranges(job, relative, std::move(in_file)));
  }
  co_await async::when_all(std::move(reads));
}

Background<> read_shared(std::shared_ptr<ReadJob> job, Subject subject, PiecesByFile pieces) {
  SharedReads::Files files = [job = job.get()](const std::string& relative) {
    return file_of(*job, relative);
  };
  for (const auto& [relative, in_file] : pieces) {
    job->count_file(relative);
  }
  SharedReads reads(job->plane(), std::move(subject), std::move(files), std::move(pieces));
  co_await reads.read();
}

Background<std::string> read_whole(std::shared_ptr<ReadJob> job, std::string relative) {
  const std::uint64_t bytes = size_of(job->source(), relative);
  if (bytes > core::kMaxTextBytes) {
    throw Error(Errc::malformed_metadata,
                fmt::format("'{}' has {} bytes: too many to be read as one text", relative, bytes));
  }
  std::string text(bytes, '\0');
  DestinationPiece piece;
  piece.size_bytes = text.size();
  piece.data = reinterpret_cast<std::byte*>(text.data());
  std::vector<DestinationPiece> pieces;
  pieces.push_back(std::move(piece));
  co_await read_ranges(std::move(job), std::move(relative), std::move(pieces));
  co_return text;
}

Background<> run_beside(std::shared_ptr<ReadJob> job, std::string directory, std::function<void()> work) {
  std::function<void()> measured = [&] {
    const observe::WorkSpan span(job->meter(), Work::handler, directory, 0, 0);
    work();
  };
  co_await job->run_users(std::move(measured));
}

}  // namespace

LoadContext::LoadContext(std::shared_ptr<core::ReadJob> job, std::string name, std::string directory,
                         std::string handler_id)
    : job_(std::move(job)),
      name_(std::move(name)),
      directory_(std::move(directory)),
      handler_id_(std::move(handler_id)) {}

// Not in the header: each handler of a program would compile them again, in every coroutine.
LoadContext::LoadContext(const LoadContext&) = default;
LoadContext::LoadContext(LoadContext&&) noexcept = default;
LoadContext& LoadContext::operator=(const LoadContext&) = default;
LoadContext& LoadContext::operator=(LoadContext&&) noexcept = default;
LoadContext::~LoadContext() = default;

std::filesystem::path LoadContext::directory() const {
  return directory_.empty() ? job_->source().root() : job_->source().root() / directory_;
}

Coordinator& LoadContext::coordinator() const noexcept {
  return job_->services().coordinator;
}

DeviceCopier* LoadContext::copier(Device device) const noexcept {
  return job_->services().devices.copier(device);
}

const OptionSet& LoadContext::options() const noexcept {
  return job_->options().handler_options;
}

std::vector<std::string> LoadContext::files() const {
  return job_->source().files(directory_);
}

std::optional<std::uint64_t> LoadContext::file_bytes(std::string_view file) const {
  return job_->source().file_bytes(relative_to(directory_, file));
}

Background<std::string> LoadContext::read_file(std::string_view file) const {
  return read_whole(job_, relative_to(directory_, file));
}

Background<> LoadContext::read_pieces(std::string_view file, std::vector<DestinationPiece> pieces) const {
  follow_programs(std::span<const DestinationPiece>(pieces));
  return read_ranges(job_, relative_to(directory_, file), std::move(pieces));
}

Background<> LoadContext::read_files(PiecesByFile pieces) const {
  PiecesByFile relative;
  for (auto& [file, in_file] : pieces) {
    follow_programs(std::span<const DestinationPiece>(in_file));
    relative.emplace(relative_to(directory_, file), std::move(in_file));
  }
  if (std::optional<Subject> subject = job_->next_reading(directory_)) {
    return read_shared(job_, std::move(*subject), std::move(relative));
  }
  return read_independently(job_, std::move(relative));
}

std::shared_ptr<const std::span<const std::byte>> LoadContext::map_file(std::string_view file) const {
  const store::FileSource& source = job_->source();
  const std::string relative = relative_to(directory_, file);
  const std::uint64_t bytes = size_of(source, relative);
  return io::map_file(source.open_file(relative, 0), bytes, source.root() / relative);
}

Background<> LoadContext::run(std::function<void()> work) const {
  return run_beside(job_, directory_, std::move(work));
}

}  // namespace cairn
