// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/internal/uuid.hpp"
#include "store/owner.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace cairn::store {

inline void write_sample_file(StagedDirectory& staged, std::string_view path, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  io::NewFileOptions options;
  options.expected_bytes = text.size();
  const std::unique_ptr<io::NewFile> file = staged.create_file(path, options);
  testing::run(file->write(0, bytes));
  testing::run(file->finish(text.size()));
}

inline io::FileDigest digest_of(std::string path, std::string_view text) {
  io::ChunkHasher hasher;
  hasher.update(std::as_bytes(std::span(text)));
  return hasher.finish(std::move(path));
}

inline Manifest sample_manifest() {
  Manifest manifest;
  manifest.started = "2026-01-31T12:00:00Z";
  manifest.committed = "2026-01-31T12:00:01Z";
  manifest.checkpointables = {{"state", "cairn.json/1", "state"}};
  return manifest;
}

/// Saves a checkpoint of one file, `state/data`, that holds `text`.
inline void save_sample(io::Engine& engine, const std::filesystem::path& target, const std::string& text,
                        StagedOptions options = {}) {
  StagedDirectory staged = StagedDirectory::create(engine, target, std::move(options));
  staged.make_directory("state");
  write_sample_file(staged, "state/data", text);
  const io::FileDigest digest = digest_of("state/data", text);
  staged.publish(sample_manifest(), std::span(&digest, 1));
}

/// Leaves a mark in a checkpoint as a save does that dies after its commit, before it has removed what it replaced.
inline void mark_as_unfinished(const std::filesystem::path& checkpoint) {
  testing::write_text(checkpoint / ".owner", encode_owner(this_process(make_uuid(system_random))));
}

inline std::string load_sample(const std::filesystem::path& target) {
  return CommittedDirectory::open(io::posix_syscalls(), target).read_verified("state/data", 1 << 24);
}

inline StagedOptions overwriting() {
  StagedOptions options;
  options.overwrite = true;
  return options;
}

}  // namespace cairn::store
