// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"

#include "store/internal/store.hpp"
#include "support/memory_file.hpp"

namespace cairn::testing {

/// Checkpoints in memory: what a store must do, and nothing else. Ranks that save together share one.
class MemoryStore final : public store::Store {
 public:
  [[nodiscard]] std::shared_ptr<const store::Source> open(io::Syscalls&, const std::filesystem::path& given,
                                                          const std::string& = {}) const override {
    const std::filesystem::path path = std::filesystem::absolute(given);
    const std::lock_guard lock(mutex_);
    const auto found = committed_.find(path);
    if (found == committed_.end()) {
      throw Error(Errc::not_found, path.string());
    }
    return std::make_shared<Committed>(path, found->second);
  }
  [[nodiscard]] std::shared_ptr<const store::Source> open_committed(
      io::Syscalls& syscalls, const std::filesystem::path& path) const override {
    return open(syscalls, path);
  }
  [[nodiscard]] std::unique_ptr<store::Destination> look(io::Syscalls&, const std::filesystem::path& path,
                                                         bool overwrite, unsigned) const override {
    const std::lock_guard lock(mutex_);
    if (committed_.contains(path) && !overwrite) {
      throw Error(Errc::already_exists, path.string());
    }
    return std::make_unique<Place>(*this, path);
  }
  [[nodiscard]] std::unique_ptr<store::Destination> find(io::Syscalls&, const std::filesystem::path& path,
                                                         unsigned) const override {
    return std::make_unique<Place>(*this, path);
  }
  [[nodiscard]] std::optional<std::filesystem::path> staged_path(const std::filesystem::path&,
                                                                 const store::Uuid&) const override {
    return std::nullopt;
  }

  /// Changes a byte of the largest file of a checkpoint.
  void alter(const std::filesystem::path& path) const {
    const std::lock_guard lock(mutex_);
    const auto& files = committed_.at(path)->files;
    const auto largest = std::max_element(files.begin(), files.end(), [](const auto& a, const auto& b) {
      return a.second->size() < b.second->size();
    });
    largest->second->back() ^= std::byte{1};
  }

  /// Returns how many checkpoints are being written.
  [[nodiscard]] std::size_t begun() const {
    const std::lock_guard lock(mutex_);
    return begun_.size();
  }

 private:
  struct Contents {
    store::Manifest manifest;
    std::map<std::string, std::shared_ptr<std::vector<std::byte>>, std::less<>> files;
    std::map<std::string, io::FileDigest, std::less<>> digests;
  };

  class Committed final : public store::Source {
   public:
    Committed(std::filesystem::path path, std::shared_ptr<const Contents> contents)
        : Source(std::move(path), store::items_of(contents->manifest)), contents_(std::move(contents)) {}

    [[nodiscard]] const std::filesystem::path& root() const noexcept override { return path(); }
    [[nodiscard]] const store::Manifest* manifest() const noexcept override { return &contents_->manifest; }
    [[nodiscard]] std::string manifest_text() const override {
      return store::encode_manifest(contents_->manifest);
    }
    [[nodiscard]] std::vector<std::string> files(std::string_view directory) const override {
      const std::string prefix = std::string(directory) + "/";
      std::vector<std::string> names;
      for (const auto& [name, bytes] : contents_->files) {
        if (name.starts_with(prefix)) {
          names.push_back(name.substr(prefix.size()));
        }
      }
      return names;
    }
    [[nodiscard]] std::optional<std::uint64_t> file_bytes(std::string_view relative) const override {
      const auto found = contents_->files.find(relative);
      return found == contents_->files.end() ? std::nullopt : std::optional(found->second->size());
    }
    [[nodiscard]] std::unique_ptr<io::StoredFile> open_file(io::Engine&, std::string_view relative,
                                                            bool) const override {
      return std::make_unique<StoredInMemory>(entry(contents_->files, relative));
    }
    [[nodiscard]] std::optional<io::FileDigest> digest(std::string_view relative) const override {
      return entry(contents_->digests, relative);
    }

   private:
    template <class Map>
    [[nodiscard]] typename Map::mapped_type entry(const Map& map, std::string_view relative) const {
      const auto found = map.find(relative);
      if (found == map.end()) {
        throw Error(Errc::not_found, (path() / relative).string());
      }
      return found->second;
    }

    const std::shared_ptr<const Contents> contents_;
  };

  class New final : public store::NewCheckpoint {
   public:
    New(const MemoryStore& store, std::filesystem::path path, std::shared_ptr<Contents> contents,
        store::StagedOptions options, std::uint32_t rank)
        : store_(store),
          path_(std::move(path)),
          contents_(std::move(contents)),
          options_(std::move(options)),
          rank_(rank) {}
    ~New() override { abandon(); }

    void make_directory(std::string_view) override {}
    [[nodiscard]] std::unique_ptr<io::NewFile> create_file(std::string_view relative,
                                                           const io::NewFileOptions&) override {
      const std::lock_guard lock(store_.mutex_);
      auto bytes = std::make_shared<std::vector<std::byte>>();
      if (!contents_->files.emplace(relative, bytes).second) {
        throw Error(std::error_code(EEXIST, std::system_category()), std::string(relative));
      }
      return std::make_unique<NewInMemory>(std::move(bytes));
    }
    void adopt(std::string_view) override {}

    [[nodiscard]] std::vector<store::FileEntry> prepare(std::span<const io::FileDigest> digests) override {
      const std::lock_guard lock(store_.mutex_);
      return enter(digests);
    }
    void hand_over() noexcept override { is_settled_ = true; }
    void take_back() noexcept override { is_settled_ = false; }
    [[nodiscard]] store::LoneVerdict decide_alone() override {
      const std::lock_guard lock(store_.mutex_);
      const auto found = store_.committed_.find(path_);
      const bool is_committed = found != store_.committed_.end() && found->second == contents_;
      store_.begun_.erase(store::to_string(*options_.uuid));  // Rank 0 finds it no more.
      return is_committed ? store::LoneVerdict::committed : store::LoneVerdict::aborted;
    }

    void publish(store::Manifest manifest, std::span<const io::FileDigest> digests,
                 std::span<const store::FileEntry> others) override {
      manifest.uuid = options_.original.value_or(*options_.uuid);
      tell(store::PublishStep::describe);
      tell(store::PublishStep::sync_directories);
      const bool replaces = store_.holds(path_);
      if (replaces && options_.overwrite && options_.before_replacing) {
        options_.before_replacing();
      }
      if (options_.may_publish && !options_.may_publish()) {
        throw Error(Errc::cancelled, path_.string());
      }
      {
        const std::lock_guard lock(store_.mutex_);
        if (!store_.begun_.contains(store::to_string(*options_.uuid))) {
          throw Error(Errc::io_failure, path_.string() + ": another rank has given it up");
        }
        if (store_.committed_.contains(path_) && !options_.overwrite) {
          throw Error(Errc::already_exists, path_.string());
        }
        const std::vector<store::FileEntry> known = std::exchange(manifest.files, enter(digests));
        for (store::FileEntry& file : manifest.files) {
          const auto same = std::find_if(known.begin(), known.end(),
                                         [&file](const auto& each) { return each.path == file.path; });
          file.rank = same == known.end() ? 0 : same->rank;
        }
        manifest.files.insert(manifest.files.end(), others.begin(), others.end());
        std::sort(manifest.files.begin(), manifest.files.end(),
                  [](const auto& a, const auto& b) { return a.path < b.path; });
        contents_->manifest = std::move(manifest);
        store_.committed_[path_] = contents_;
        store_.begun_.erase(store::to_string(*options_.uuid));
        is_settled_ = true;
      }
      tell(store::PublishStep::make_visible);
      tell(store::PublishStep::sync_parent);
    }
    [[nodiscard]] const std::string& retirement_problem() const noexcept override { return no_problem_; }

    void abandon() noexcept override {
      if (!is_settled_ && rank_ == 0) {
        const std::lock_guard lock(store_.mutex_);
        store_.begun_.erase(store::to_string(*options_.uuid));
      }
    }
    [[nodiscard]] const std::string& abandonment_problem() const noexcept override { return no_problem_; }

   private:
    std::vector<store::FileEntry> enter(std::span<const io::FileDigest> digests) {
      std::vector<store::FileEntry> entries;
      for (const io::FileDigest& digest : digests) {
        entries.push_back({digest.path, digest.size_bytes, digest.root(), rank_});
        contents_->digests.emplace(digest.path, digest);
      }
      return entries;
    }
    void tell(store::PublishStep step) const {
      if (options_.on_step) {
        options_.on_step(step);
      }
    }

    const MemoryStore& store_;
    const std::filesystem::path path_;
    const std::shared_ptr<Contents> contents_;
    const store::StagedOptions options_;
    const std::uint32_t rank_;
    const std::string no_problem_;
    bool is_settled_ = false;
  };

  class Place final : public store::Destination {
   public:
    Place(const MemoryStore& store, std::filesystem::path path) : store_(store), path_(std::move(path)) {}

    [[nodiscard]] io::FileId directory() const noexcept override {
      return {reinterpret_cast<std::uintptr_t>(&store_), std::filesystem::hash_value(path_.parent_path())};
    }
    [[nodiscard]] std::string name() const override { return path_.filename(); }
    [[nodiscard]] std::unique_ptr<store::NewCheckpoint> create(io::Engine&,
                                                               store::StagedOptions options) override {
      options.uuid = options.uuid.value_or(store::make_uuid(options.random));
      auto contents = std::make_shared<Contents>();
      const std::lock_guard lock(store_.mutex_);
      store_.begun_.emplace(store::to_string(*options.uuid), contents);
      return std::make_unique<New>(store_, path_, std::move(contents), std::move(options), 0);
    }
    [[nodiscard]] std::unique_ptr<store::NewCheckpoint> join(io::Engine&, store::JoinOptions how) override {
      store::StagedOptions options;
      options.uuid = how.uuid;
      const std::lock_guard lock(store_.mutex_);
      const auto found = store_.begun_.find(store::to_string(how.uuid));
      if (found == store_.begun_.end()) {
        throw Error(Errc::not_found, path_.string());
      }
      return std::make_unique<New>(store_, path_, found->second, std::move(options), how.rank);
    }

   private:
    const MemoryStore& store_;
    const std::filesystem::path path_;
  };

  [[nodiscard]] bool holds(const std::filesystem::path& path) const {
    const std::lock_guard lock(mutex_);
    return committed_.contains(path);
  }

  mutable std::mutex mutex_;
  mutable std::map<std::filesystem::path, std::shared_ptr<const Contents>> committed_;
  mutable std::map<std::string, std::shared_ptr<Contents>> begun_;  // By uuid.
};

}  // namespace cairn::testing
