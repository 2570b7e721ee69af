// SPDX-License-Identifier: Apache-2.0
#include "store/internal/assembly.hpp"

#include <system_error>

#include <algorithm>
#include <utility>

#include "cairn/base/error.hpp"

#include "async/internal/start.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/stored_memory.hpp"
#include "staging/internal/staged_file.hpp"

namespace cairn::store {
namespace {

std::string_view first_of(std::string_view relative) {
  return relative.substr(0, relative.find('/'));
}

/// Where the system refuses to map it, it is read.
std::unique_ptr<io::StoredFile> open_mapped(const Source& from, io::Engine& engine,
                                            const std::string& relative) {
  try {
    return std::make_unique<io::StoredMemory>(from.map_file(relative));
  } catch (const Error& error) {
    if (error.code() != std::errc::not_enough_memory) {
      throw;
    }
  }
  CAIRN_PROBE("store.copy_without_mapping");
  return from.open_file(engine, relative, false);
}

Awaitable<> copy_into(Background<io::FileDigest> copy, std::vector<io::FileDigest>* digests) {
  digests->push_back(co_await std::move(copy));
}

}  // namespace

Background<io::FileDigest> copy_file(std::shared_ptr<staging::DataPlane> plane,
                                     std::shared_ptr<const Source> from, std::string relative,
                                     CreateFile create, bool is_held) {
  staging::FileToRead original = from->to_read(relative, true);
  if (is_held && from->is_in_memory() && original.size_bytes != 0) {
    original.open = [from, relative](io::Engine& engine, bool) {
      return open_mapped(*from, engine, relative);
    };
  }
  staging::FileToWrite copy;
  copy.name = relative;
  copy.size_bytes = original.size_bytes;
  copy.snapshot = Snapshot::share;
  copy.may_create.set();
  copy.original = std::make_unique<staging::CheckedFile>(*plane, std::move(original), copy.size_bytes);
  staging::CheckedFile* const opened = copy.original.get();
  // It keeps the source, from which `open` reads.
  copy.create = [opened, from, relative, create = std::move(create)](const io::NewFileOptions& options) {
    opened->open();  // The place of the new file is that of both.
    return create(relative, options);
  };
  const auto file = std::make_shared<staging::StagedFile>(std::move(plane), std::move(copy));
  co_await staging::StagedFile::stage(file);
  Background<io::FileDigest> finished = staging::StagedFile::finish(file);
  co_return co_await std::move(finished);
}

std::set<std::string, std::less<>> directories_of(const Manifest& manifest) {
  std::set<std::string, std::less<>> directories;
  for (const CheckpointableEntry& item : manifest.checkpointables) {
    directories.insert(item.directory);
  }
  for (const FileEntry& file : manifest.files) {
    if (first_of(file.path).size() != file.path.size()) {
      directories.emplace(first_of(file.path));
    }
  }
  return directories;
}

AssembledFile::AssembledFile(Assembly& assembly, std::string relative, std::uint64_t expected_bytes)
    : assembly_(assembly), relative_(std::move(relative)), file_([&] {
        io::NewFileOptions options;
        options.expected_bytes = expected_bytes;
        options.use_direct = false;  // What is appended lies anywhere.
        return assembly.target_.create_file(relative_, options);
      }()) {}

void AssembledFile::append(std::span<const std::byte> bytes) {
  CAIRN_ASSERT(file_ != nullptr, "a file that was moved from is not written");
  hasher_.update(bytes);
  assembly_.run(file_->write(size_bytes_, bytes));
  size_bytes_ += bytes.size();
}

void AssembledFile::finish() {
  CAIRN_ASSERT(file_ != nullptr, "a file that was moved from is not finished");
  assembly_.run(file_->finish(size_bytes_));
  assembly_.digests_.push_back(hasher_.finish(relative_));
}

void Assembly::link(const std::shared_ptr<const Source>& from, const FileEntry& file) {
  static_cast<void>(from->open_file(own_.plane().engine, file.path, false));
  make_room(file.path);
  if (from->directory() == nullptr || !target_.link_file(file.path, *from->directory())) {
    CAIRN_PROBE("store.copied_instead_of_linked");
    copy(from, file);
    return;
  }
  digests_.push_back(from->digest(file.path).value());
}

void Assembly::copy(const std::shared_ptr<const Source>& from, const FileEntry& file) {
  make_room(file.path);
  CreateFile create = [this](const std::string& relative, const io::NewFileOptions& options) {
    return target_.create_file(relative, options);
  };
  const std::shared_ptr<staging::DataPlane> plane(std::shared_ptr<void>(), &own_.plane());
  run(copy_into(copy_file(plane, from, file.path, std::move(create)), &digests_));
}

AssembledFile Assembly::create(std::string relative, std::uint64_t expected_bytes) {
  make_room(relative);
  return {*this, std::move(relative), expected_bytes};
}

void Assembly::write(std::string relative, std::span<const std::byte> bytes) {
  AssembledFile file = create(std::move(relative), bytes.size());
  file.append(bytes);
  file.finish();
}

void Assembly::publish(Manifest manifest) {
  const auto by_path = [](const io::FileDigest& a, const io::FileDigest& b) { return a.path < b.path; };
  std::sort(digests_.begin(), digests_.end(), by_path);
  CAIRN_ASSERT(
      std::adjacent_find(digests_.begin(), digests_.end(),
                         [](const auto& a, const auto& b) { return a.path == b.path; }) == digests_.end(),
      "no file is assembled twice");
  target_.publish(std::move(manifest), digests_, {});
}

void Assembly::make_room(std::string_view relative) {
  const std::string_view first = first_of(relative);
  if (first.size() != relative.size() && directories_.emplace(first).second) {
    target_.make_directory(first);
  }
}

void Assembly::run(Awaitable<> task) const {
  async::start(own_.strand(), std::move(task)).get();
}

}  // namespace cairn::store
