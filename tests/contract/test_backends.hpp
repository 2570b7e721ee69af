// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"

#include "contract/internal/backend.hpp"
#include "io/internal/durable_file.hpp"
#include "io/internal/file.hpp"
#include "staging/test_plane.hpp"

namespace cairn::contract {

/// A save that nothing runs: what contexts are given where a handler is tested alone. Its directory is there from the
/// start.
class TestSave final : public SaveBackend {
 public:
  explicit TestSave(const std::filesystem::path& directory)
      : directory_(io::Directory::open(plane.disk, directory)) {
    std::filesystem::create_directory(directory / "item");
    created_.set();
  }

  [[nodiscard]] Resources resources() noexcept override {
    return {*plane.plane, *coordinator_, devices_, options};
  }
  [[nodiscard]] Snapshot snapshot() const noexcept override { return Snapshot::copy; }
  [[nodiscard]] bool gives_copies() const noexcept override { return false; }
  [[nodiscard]] OptionUse* option_use(std::type_index) const noexcept override { return nullptr; }
  [[nodiscard]] KeptValues& kept() const noexcept override { return kept_; }
  [[nodiscard]] std::shared_ptr<std::pmr::memory_resource> plan_memory() const override { return nullptr; }
  [[nodiscard]] std::optional<coord::Channel> channel(const std::string&, std::string_view) const override {
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::filesystem::path> staged_path() const override {
    return directory_.path();
  }
  [[nodiscard]] const async::Event& created() const noexcept override { return created_; }
  void claim(const std::string& relative, std::uint64_t bytes) override {
    if (!claimed.insert(relative).second) {
      throw Error(Errc::already_exists, relative);
    }
    total_bytes += bytes;
  }
  void grow(std::uint64_t bytes) noexcept override { total_bytes += bytes; }
  [[nodiscard]] std::unique_ptr<io::NewFile> create_file(const std::string& relative,
                                                         const io::NewFileOptions& how) override {
    return std::make_unique<io::DurableFile>(
        io::DurableFile::create(plane.engine, directory_, relative, how));
  }
  void add(io::FileDigest digest) override {
    std::string path = digest.path;
    digests.emplace(std::move(path), std::move(digest));
  }
  void adopt_file(const std::string& relative) override { adopted.push_back(relative); }
  void record_id(const std::string&, std::string_view id) override { recorded_id = id; }
  void add_problem(const std::string& problem) noexcept override { problems.push_back(problem); }
  void count_problem(const std::string& words, std::uint64_t) noexcept override { problems.push_back(words); }
  void add_policy(const std::string&, const WorkFigures&) noexcept override {}
  void note_alone(std::uint64_t) noexcept override {}

  staging::TestPlane plane;
  OptionSet options;
  std::set<std::string> claimed;
  std::uint64_t total_bytes = 0;
  std::map<std::string, io::FileDigest> digests;  ///< Of the files that are complete.
  std::vector<std::string> adopted;
  std::string recorded_id;
  std::vector<std::string> problems;

 private:
  const std::shared_ptr<coord::Coordinator> coordinator_ = coord::single_process();
  Devices devices_{{}};
  mutable KeptValues kept_;
  io::Directory directory_;
  async::Event created_;
};

}  // namespace cairn::contract
