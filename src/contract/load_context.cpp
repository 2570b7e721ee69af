// SPDX-License-Identifier: Apache-2.0
#include "cairn/contract/load_context.hpp"

#include <functional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "contract/internal/backend.hpp"
#include "contract/text_limit.hpp"
#include "joint/internal/shared_reads.hpp"
#include "staging/internal/device_pieces.hpp"
#include "staging/internal/range_reader.hpp"

namespace cairn {
namespace {

using contract::LoadBackend;
using joint::SharedReads;

std::string relative_to(const std::string& directory, std::string_view file) {
  return directory.empty() ? std::string(file) : directory + "/" + std::string(file);
}

/// A file of the load's checkpoint; the load outlives it.
staging::FileToRead file_of(const LoadBackend& load, const std::string& relative) {
  return load.source().to_read(relative, load.verifies());
}

/// Returns what is noted of a file.
std::string note_of(const NotesByFile& notes, const std::string& relative) {
  const auto found = notes.find(relative);
  return found == notes.end() ? std::string() : found->second;
}

Background<> read_ranges(std::shared_ptr<LoadBackend> load, std::string relative,
                         std::vector<DestinationPiece> pieces, std::string note) {
  staging::FileToRead file = file_of(*load, relative);
  file.origin += note;
  staging::RangeReader reader(load->resources().plane, std::move(file), std::move(pieces));
  co_await reader.read();
  load->count_file(relative);
}

Background<> read_independently(std::shared_ptr<LoadBackend> load, PiecesByFile pieces, NotesByFile notes) {
  std::vector<Awaitable<>> reads;
  for (auto& [relative, in_file] : pieces) {
    reads.push_back(read_ranges(load, relative, std::move(in_file), note_of(notes, relative)));
  }
  co_await async::when_all(std::move(reads));
}

Background<> read_shared(std::shared_ptr<LoadBackend> load, coord::Channel channel, PiecesByFile pieces,
                         NotesByFile notes) {
  SharedReads::Files files = [load = load.get(), notes = std::move(notes)](const std::string& relative) {
    staging::FileToRead file = file_of(*load, relative);
    file.origin += note_of(notes, relative);
    return file;
  };
  for (const auto& [relative, in_file] : pieces) {
    load->count_file(relative);
  }
  SharedReads reads(load->resources().plane, load->resources().coordinator, load->group(), std::move(channel),
                    std::move(files), std::move(pieces));
  co_await reads.read();
}

Background<std::string> read_whole(std::shared_ptr<LoadBackend> load, std::string relative) {
  const std::uint64_t bytes = load->source().to_read(relative, false).size_bytes;
  if (bytes > contract::kMaxTextBytes) {
    throw Error(Errc::malformed_metadata,
                fmt::format("'{}' has {} bytes: too many to be read as one text", relative, bytes));
  }
  std::string text(bytes, '\0');
  DestinationPiece piece;
  piece.size_bytes = text.size();
  piece.data = reinterpret_cast<std::byte*>(text.data());
  std::vector<DestinationPiece> pieces;
  pieces.push_back(std::move(piece));
  std::string note;
  co_await read_ranges(std::move(load), std::move(relative), std::move(pieces), std::move(note));
  co_return text;
}

Background<> run_beside(std::shared_ptr<LoadBackend> load, std::string directory,
                        std::function<void()> work) {
  const staging::DataPlane& plane = load->resources().plane;
  std::function<void()> measured = [&] {
    const observe::WorkSpan span(plane.meter, Work::handler, directory, 0, 0);
    work();
  };
  co_await plane.run_users(std::move(measured));
}

}  // namespace

LoadContext::LoadContext(std::shared_ptr<contract::LoadBackend> load, std::string name, std::string directory,
                         std::string handler_id)
    : load_(std::move(load)),
      name_(std::move(name)),
      directory_(std::move(directory)),
      handler_id_(std::move(handler_id)) {}

// Not in the header: each handler of a program would compile them again, in every coroutine.
LoadContext::LoadContext(const LoadContext&) = default;
LoadContext::LoadContext(LoadContext&&) noexcept = default;
LoadContext& LoadContext::operator=(const LoadContext&) = default;
LoadContext& LoadContext::operator=(LoadContext&&) noexcept = default;
LoadContext::~LoadContext() = default;

std::filesystem::path LoadContext::path() const {
  return directory_.empty() ? load_->source().root() : load_->source().root() / directory_;
}

std::optional<std::filesystem::path> LoadContext::directory() const {
  return load_->source().directory() != nullptr ? std::optional(path()) : std::nullopt;
}

coord::Coordinator& LoadContext::coordinator() const noexcept {
  return load_->resources().coordinator;
}

std::optional<coord::Channel> LoadContext::channel(std::string_view name) const {
  return load_->channel(directory_, name);
}

DeviceCopier* LoadContext::copier(Device device) const noexcept {
  return load_->resources().devices.copier(device);
}

const OptionSet& LoadContext::options() const noexcept {
  return load_->resources().options;
}

const std::string& LoadContext::named_file() const noexcept {
  return load_->source().named_file();
}

void LoadContext::add_problem(const std::string& problem) const {
  load_->add_problem(problem);
}

std::vector<std::string> LoadContext::files() const {
  return load_->source().files(directory_);
}

std::optional<std::uint64_t> LoadContext::file_bytes(std::string_view file) const {
  return load_->source().file_bytes(relative_to(directory_, file));
}

Background<std::string> LoadContext::read_file(std::string_view file) const {
  return read_whole(load_, relative_to(directory_, file));
}

Background<> LoadContext::read_pieces(std::string_view file, std::vector<DestinationPiece> pieces) const {
  follow_programs(std::span<const DestinationPiece>(pieces));
  return read_ranges(load_, relative_to(directory_, file), std::move(pieces), std::string());
}

Background<> LoadContext::read_files(PiecesByFile pieces) const {
  return read_files(std::move(pieces), NotesByFile());
}

Background<> LoadContext::read_files(PiecesByFile pieces, NotesByFile notes) const {
  PiecesByFile relative;
  NotesByFile relative_notes;
  for (auto& [file, note] : notes) {
    relative_notes.emplace(relative_to(directory_, file), std::move(note));
  }
  for (auto& [file, in_file] : pieces) {
    follow_programs(std::span<const DestinationPiece>(in_file));
    relative.emplace(relative_to(directory_, file), std::move(in_file));
  }
  if (std::optional<coord::Channel> channel = load_->next_reading(directory_)) {
    return read_shared(load_, std::move(*channel), std::move(relative), std::move(relative_notes));
  }
  return read_independently(load_, std::move(relative), std::move(relative_notes));
}

std::shared_ptr<const std::span<const std::byte>> LoadContext::map_file(std::string_view file) const {
  const std::string relative = relative_to(directory_, file);
  static_cast<void>(load_->source().to_read(relative, false));
  return load_->source().map_file(relative);
}

Background<> LoadContext::run(HandlerWork work) const {
  return run_beside(load_, directory_, work.function());
}

void LoadContext::add_differences(std::vector<std::string> missing,
                                  std::vector<std::string> unexpected) const {
  load_->add_differences(name_, std::move(missing), std::move(unexpected));
}

}  // namespace cairn
