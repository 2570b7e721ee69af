// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "store/internal/memory_root.hpp"
#include "store/internal/save_target.hpp"
#include "store/internal/staged_directory.hpp"
#include "store/internal/store.hpp"

namespace cairn::store {
namespace {

class DirectoryDestination final : public Destination {
 public:
  explicit DirectoryDestination(SaveTarget target) : target_(std::move(target)) {}

  [[nodiscard]] io::FileId directory() const noexcept override { return target_.directory; }
  [[nodiscard]] std::string name() const override { return target_.name; }
  [[nodiscard]] io::Medium medium() const override {
    if (!target_.is_in_memory) {
      return io::Medium::disk;
    }
    return MemoryRoot::find(target_.directory) ? io::Medium::kept_memory : io::Medium::memory;
  }
  [[nodiscard]] std::unique_ptr<NewCheckpoint> create(io::Engine& engine, StagedOptions options) override {
    return std::make_unique<StagedDirectory>(
        StagedDirectory::create(engine, std::move(target_), std::move(options)));
  }
  [[nodiscard]] std::unique_ptr<NewCheckpoint> join(io::Engine& engine, JoinOptions options) override {
    return std::make_unique<StagedDirectory>(
        StagedDirectory::join(engine, std::move(target_), std::move(options)));
  }

 private:
  SaveTarget target_;
};

class DirectoryStore final : public Store {
 public:
  [[nodiscard]] std::shared_ptr<const Source> open(io::Syscalls& syscalls, const std::filesystem::path& path,
                                                   const std::string& known_manifest) const override {
    return open_source(syscalls, path, known_manifest);
  }
  [[nodiscard]] std::shared_ptr<const Source> open_committed(
      io::Syscalls& syscalls, const std::filesystem::path& path) const override {
    return open_committed_source(syscalls, path);
  }
  [[nodiscard]] std::unique_ptr<Destination> look(io::Syscalls& syscalls, const std::filesystem::path& path,
                                                  bool overwrite, unsigned create_parents) const override {
    return std::make_unique<DirectoryDestination>(look_at_target(syscalls, path, overwrite, create_parents));
  }
  [[nodiscard]] std::unique_ptr<Destination> find(io::Syscalls& syscalls, const std::filesystem::path& path,
                                                  unsigned create_parents) const override {
    std::optional<SaveTarget> target = open_target_if_made(syscalls, path, create_parents);
    return target ? std::make_unique<DirectoryDestination>(std::move(*target)) : nullptr;
  }
  [[nodiscard]] std::optional<std::filesystem::path> staged_path(const std::filesystem::path& path,
                                                                 const Uuid& uuid) const override {
    return temporary_path(path, uuid);
  }
};

}  // namespace

const Store& directory_store() noexcept {
  static const DirectoryStore& store = *new DirectoryStore;  // Never destroyed: saves may end after main.
  return store;
}

}  // namespace cairn::store
