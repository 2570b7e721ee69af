// SPDX-License-Identifier: Apache-2.0
// Somebody else who may write the directory of the checkpoints gives names to other directories between any
// two system calls of ours. What lies outside, and what is foreign, must never change or vanish.
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cairn/base/error.hpp"

#include "io/attacked_syscalls.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/internal/uuid.hpp"
#include "store/names.hpp"
#include "store/owner.hpp"
#include "store/sample_checkpoint.hpp"
#include "support/sampling.hpp"
#include "support/temp_dir.hpp"
#include "support/unsynced_syscalls.hpp"

namespace cairn::store {
namespace {

namespace fs = std::filesystem;
using testing::list_tree;
using testing::read_text;
using testing::TempDir;
using testing::write_text;

using Contents = std::map<std::string, std::string>;

/// Every file below a directory, and what is in it.
Contents contents_of(const fs::path& root) {
  Contents contents;
  for (const std::string& name : list_tree(root)) {
    const bool is_file = fs::symlink_status(root / name).type() == fs::file_type::regular;
    contents.emplace(name, is_file ? read_text(root / name) : "");
  }
  return contents;
}

/// A directory that looks like a checkpoint of ours, and must stay as it is.
class Canary {
 public:
  explicit Canary(io::Engine& engine) {
    save_sample(engine, path(), "canary");
    write_text(path() / ".owner", encode_owner(this_process(make_uuid(system_random))));
    before_ = contents_of(path());
  }

  [[nodiscard]] fs::path path() const { return temp_ / "outside"; }
  [[nodiscard]] bool is_alive() const { return contents_of(path()) == before_; }

 private:
  TempDir temp_;
  Contents before_;
};

/// The directory of the checkpoints, with foreign `photos` in it.
class Ground {
 public:
  explicit Ground(const Canary& canary) : canary_(canary) {
    fs::create_directories(root() / "photos/album");
    write_text(root() / "photos/diary", "mine");
    write_text(root() / "photos/album/one", "mine");
  }

  [[nodiscard]] fs::path root() const { return temp_ / "root"; }
  [[nodiscard]] fs::path step() const { return root() / "step"; }

  /// What is missing or changed; empty when nothing is.
  [[nodiscard]] std::string harm() const {
    if (!canary_.is_alive()) {
      return "the directory outside has changed";
    }
    std::size_t found = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      const bool is_diary = entry.path().filename() == "diary" && read_text(entry.path()) == "mine";
      found += is_diary && fs::exists(entry.path().parent_path() / "album/one") ? 1 : 0;
    }
    return found == 1 ? "" : "the photos are gone";
  }

  /// The first directory that is called like a temporary one or trash.
  [[nodiscard]] std::optional<fs::path> reserved() const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(root(), ignored)) {
      if (reserved_kind(entry.path().filename().string()) &&
          fs::symlink_status(entry.path(), ignored).type() == fs::file_type::directory) {
        return entry.path();
      }
    }
    return std::nullopt;
  }

  /// Gives the name of `path` to what `make` makes; false when there is no such thing yet.
  static bool take_name(const std::optional<fs::path>& path,
                        const std::function<void(const fs::path&)>& make) {
    std::error_code failed;
    if (!path) {
      return false;
    }
    fs::rename(*path, path->parent_path() / "aside", failed);
    if (!failed) {
      make(*path);
    }
    return !failed;
  }

  [[nodiscard]] bool put_link_for(const std::optional<fs::path>& path) const {
    return take_name(path, [this](const fs::path& name) {
      std::error_code ignored;
      fs::create_directory_symlink(canary_.path(), name, ignored);
    });
  }

  [[nodiscard]] bool put_photos_for(const std::optional<fs::path>& path) const {
    return take_name(path, [this](const fs::path& name) {
      std::error_code ignored;
      fs::rename(root() / "photos", name, ignored);
    });
  }

 private:
  const Canary& canary_;
  TempDir temp_;
};

struct Attack {
  std::string name;
  std::function<bool(const Ground&)> perform;
};

struct Scene {
  std::string name;
  bool lacks_rename_modes = false;
  std::function<void(const Ground&, io::Engine&)> prepare;
  std::function<void(const Ground&, io::Engine&)> act;
};

void PrintTo(const Attack& attack, std::ostream* out) {
  *out << attack.name;
}

void PrintTo(const Scene& scene, std::ostream* out) {
  *out << scene.name;
}

void leave_rubbish(const Ground& ground, io::Engine& engine) {
  const Owner owner = this_process(make_uuid(system_random));
  const fs::path abandoned = ground.root() / temporary_name("step", owner.uuid);
  fs::create_directories(abandoned / "state");
  write_text(abandoned / ".owner", encode_owner(owner));
  write_text(abandoned / "state/data", "half");
  save_sample(engine, ground.root() / "old", "x");
  fs::rename(ground.root() / "old", ground.root() / trash_name("old", make_uuid(system_random)));
  fs::create_directory(ground.root() / temporary_name("empty", make_uuid(system_random)));
}

std::vector<Scene> scenes() {
  const auto nothing = [](const Ground&, io::Engine&) {};
  const auto save_old = [](const Ground& ground, io::Engine& engine) {
    save_sample(engine, ground.step(), "old");
  };
  const auto save_new = [](const Ground& ground, io::Engine& engine) {
    save_sample(engine, ground.step(), "new", overwriting());
  };
  const auto save_by_marker = [](const Ground& ground, io::Engine& engine) {
    StagedOptions options = overwriting();
    options.commit_mode = CommitMode::marker;
    save_sample(engine, ground.step(), "new", options);
  };
  const auto give_up = [](const Ground& ground, io::Engine& engine) {
    StagedDirectory staged = StagedDirectory::create(engine, ground.step());
    staged.make_directory("state");
    write_sample_file(staged, "state/data", "half");
  };
  const auto remove = [](const Ground& ground, io::Engine& engine) {
    remove_checkpoint(engine.syscalls(), ground.step());
  };
  const auto recover_root = [](const Ground& ground, io::Engine& engine) {
    recover(engine.syscalls(), ground.root());
  };
  return {{"Save", false, nothing, save_new},
          {"Overwrite", false, save_old, save_new},
          {"Generation", true, save_old, save_new},
          {"Marker", false, save_old, save_by_marker},
          {"Abandon", false, nothing, give_up},
          {"Remove", false, save_old, remove},
          {"Recover", false, leave_rubbish, recover_root}};
}

std::vector<Attack> attacks() {
  const auto inside = [](const Ground& ground) {
    const auto reserved = ground.reserved();
    return reserved ? std::optional(*reserved / "state") : std::nullopt;
  };
  return {{"LinkForTheTemporary", [](const Ground& g) { return g.put_link_for(g.reserved()); }},
          {"PhotosForTheTemporary", [](const Ground& g) { return g.put_photos_for(g.reserved()); }},
          {"LinkForTheTarget", [](const Ground& g) { return g.put_link_for(g.step()); }},
          {"PhotosForTheTarget", [](const Ground& g) { return g.put_photos_for(g.step()); }},
          {"LinkInside", [inside](const Ground& g) { return g.put_link_for(inside(g)); }}};
}

class Attacked : public ::testing::TestWithParam<std::tuple<Scene, Attack>> {
 protected:
  Attacked() : engine_(engine_over(syscalls_)), calm_(engine_over(calm_syscalls_)), canary_(*calm_) {}

  static std::unique_ptr<io::Engine> engine_over(io::Syscalls& syscalls) {
    io::EngineOptions options;
    options.syscalls = &syscalls;
    options.threads = 1;
    return io::make_engine(io::EngineKind::threads, options).engine;
  }

  /// Returns whether the attacker's moment came.
  bool try_attack(int first) {
    const auto& [scene, attack] = GetParam();
    const Ground ground(canary_);
    scene.prepare(ground, *calm_);
    syscalls_.lacks_rename_modes = scene.lacks_rename_modes;
    syscalls_.plan(first, [&perform = attack.perform, &ground] { return perform(ground); });
    try {
      scene.act(ground, *engine_);
    } catch (const Error&) {  // To be refused is fine.
    }
    const bool is_reached = syscalls_.is_reached();
    syscalls_.plan(1, nullptr);
    EXPECT_EQ(ground.harm(), "");
    recover(calm_syscalls_, ground.root());
    EXPECT_EQ(ground.harm(), "") << "after recovery";
    return is_reached;
  }

  io::AttackedSyscalls syscalls_{testing::unsynced_syscalls()};
  io::AttackedSyscalls calm_syscalls_{testing::unsynced_syscalls()};  // Nobody attacks these.
  std::unique_ptr<io::Engine> engine_;
  std::unique_ptr<io::Engine> calm_;
  Canary canary_;
};

TEST_P(Attacked, HarmsNothingForeignWhateverTheMoment) {
  const testing::Sample sample = testing::sample_of_calls();
  int moments = 0;
  while (!sample.takes(static_cast<std::uint64_t>(moments)) || (try_attack(moments + 1) && !HasFailure())) {
    ++moments;
  }
  EXPECT_GT(moments, 5);
  fmt::print("attack: {} moments\n", moments);
}

INSTANTIATE_TEST_SUITE_P(Scenes, Attacked,
                         ::testing::Combine(::testing::ValuesIn(scenes()), ::testing::ValuesIn(attacks())),
                         [](const auto& tested) {
                           return std::get<0>(tested.param).name + std::get<1>(tested.param).name;
                         });

class Attacker : public ::testing::Test {
 protected:
  TempDir temp_;
  io::AttackedSyscalls syscalls_;
  std::unique_ptr<io::Engine> engine_ = io::make_engine(io::EngineKind::threads).engine;
  Canary canary_{*engine_};
  Ground ground_{canary_};
};

TEST_F(Attacker, HarmsNothingWhileNamesFlipAtRandom) {
  std::atomic<bool> is_over{false};
  std::thread flipper([&] {
    std::error_code ignored;
    const fs::path aside = ground_.root() / "aside";
    while (!is_over) {
      for (const std::optional<fs::path>& path : {ground_.reserved(), std::optional(ground_.step())}) {
        if (path && ground_.put_link_for(path)) {
          fs::remove(*path, ignored);
          fs::rename(aside, *path, ignored);
          fs::remove_all(aside, ignored);
        }
      }
    }
  });

  int saved = 0;
  for (int i = 0; i < 200; ++i) {
    try {
      save_sample(*engine_, ground_.step(), "x", overwriting());
      ++saved;
    } catch (const Error&) {  // To be refused is fine.
    }
    recover(io::posix_syscalls(), ground_.root());
  }
  is_over = true;
  flipper.join();

  EXPECT_EQ(ground_.harm(), "");
  EXPECT_GT(saved, 0);
}

TEST_F(Attacker, CannotMakeAnOverwriteRemoveADirectoryBesideALaterGeneration) {
  StagedOptions options = overwriting();
  options.commit_mode = CommitMode::marker;
  save_sample(*engine_, ground_.step(), "one", options);
  save_sample(*engine_, ground_.step(), "two", options);  // As step.g2.
  fs::rename(ground_.root() / "photos", ground_.step());

  save_sample(*engine_, ground_.step(), "three", options);

  EXPECT_EQ(ground_.harm(), "");
  EXPECT_EQ(load_sample(ground_.step()), "three");
}

TEST_F(Attacker, CannotMakeRecoveryRemoveAForeignDirectoryByAHardLink) {
  const Owner owner = this_process(make_uuid(system_random));
  const fs::path own = ground_.root() / temporary_name("step", owner.uuid);
  fs::create_directory(own);
  write_text(own / ".owner", encode_owner(owner));
  fs::create_hard_link(ground_.root() / "photos/diary", own / "diary");

  recover(io::posix_syscalls(), ground_.root());

  EXPECT_FALSE(fs::exists(own));
  EXPECT_EQ(read_text(ground_.root() / "photos/diary"), "mine");
}

TEST_F(Attacker, CannotMakeRecoveryWaitForAFifo) {
  const fs::path own = ground_.root() / temporary_name("step", make_uuid(system_random));
  fs::create_directory(own);
  ASSERT_EQ(::mkfifo((own / ".owner").c_str(), 0600), 0);

  const RecoveryReport report = recover(io::posix_syscalls(), ground_.root());

  EXPECT_EQ(report.entries.front().kind, EntryClass::foreign);
  EXPECT_TRUE(fs::exists(own / ".owner"));
}

TEST_F(Attacker, CannotHideALiveSaveBehindADeadOne) {
  const Owner owner = this_process(make_uuid(system_random));
  const fs::path dead = ground_.root() / temporary_name("step", owner.uuid);
  fs::create_directory(dead);
  write_text(dead / ".owner", encode_owner(owner));
  StagedDirectory live = StagedDirectory::create(*engine_, ground_.root() / "live");
  live.make_directory("state");
  write_sample_file(live, "state/data", "x");
  const std::string copied = read_text(live.path() / ".owner");
  write_text(dead / ".owner", copied);
  // At some moment of the recovery the live one gets the name of the dead one.
  for (int first = 1;; ++first) {
    syscalls_.plan(first, [&] {
      std::error_code failed;
      fs::rename(dead, ground_.root() / "aside", failed);
      fs::rename(live.path(), dead, failed);
      return true;
    });
    recover(syscalls_, ground_.root());
    ASSERT_TRUE(fs::exists(dead / "state/data") || fs::exists(live.path() / "state/data")) << first;
    if (!syscalls_.is_reached()) {
      break;
    }
    fs::rename(dead, live.path());
    fs::remove_all(ground_.root() / "aside");
    fs::create_directory(dead);
    write_text(dead / ".owner", copied);
  }
}

TEST_F(Attacker, WhoMayReadACheckpointIsForTheUmaskToSay) {
  struct Case {
    mode_t mask;
    fs::perms directory;
    fs::perms file;
  };
  for (const Case& each :
       {Case{0022, fs::perms(0755), fs::perms(0644)}, Case{0077, fs::perms(0700), fs::perms(0600)},
        Case{0002, fs::perms(0775), fs::perms(0664)}}) {
    const mode_t before = ::umask(each.mask);
    save_sample(*engine_, ground_.step(), "x", overwriting());
    ::umask(before);

    for (const auto& entry : fs::recursive_directory_iterator(ground_.step())) {
      EXPECT_EQ(entry.status().permissions(), entry.is_directory() ? each.directory : each.file)
          << entry.path() << " with umask " << each.mask;
    }
    EXPECT_EQ(fs::status(ground_.step()).permissions(), each.directory);
  }
}

}  // namespace
}  // namespace cairn::store
