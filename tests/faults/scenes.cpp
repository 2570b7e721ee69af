// SPDX-License-Identifier: Apache-2.0
#include "faults/scenes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "faults/injector.hpp"
#include "faults/state.hpp"
#include "faults/stopper.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/recovery.hpp"
#include "store/internal/remove_checkpoint.hpp"
#include "store/internal/verify.hpp"
#include "support/holder.hpp"
#include "support/temp_dir.hpp"

namespace cairn::faults {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSmall = 10;
constexpr std::size_t kDirect = 80'000;       // More than NewFileOptions::min_direct_bytes.
constexpr std::size_t kUncached = 2'200'000;  // More than a load needs to pass by the page cache.

constexpr const char* kUuid = "00112233-4455-6677-8899-aabbccddeeff";
constexpr const char* kForeign = "notes.txt";

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    all += text + "\n";
  }
  return all;
}

std::string reported(const Context& context, const Report& report) {
  return context.engine_reason() + joined(report.problems) + joined(report.fallbacks);
}

/// A folder `run` of checkpoints that is made anew for each case, and the checkpoint `run/step` in it.
class InAFolder : public Scene {
 public:
  InAFolder(std::string name, std::size_t elements)
      : name_(std::move(name)), old_(1, elements), new_(2, elements) {
    old_.save(temp_ / "template", {}, witness());
  }

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string root() const override { return temp_.path().string(); }

 protected:
  [[nodiscard]] fs::path run() const { return temp_ / "run"; }
  [[nodiscard]] fs::path step() const { return run() / "step"; }

  void clear() const {
    fs::remove_all(run());
    fs::create_directory(run());
    testing::write_text(run() / kForeign, "not a checkpoint");
  }

  void put(const fs::path& place) const { fs::copy(temp_ / "template", place, fs::copy_options::recursive); }

  /// "old", "new", "nothing"; or what is wrong with what is there.
  [[nodiscard]] std::string found() const {
    for (const auto& [state, name] : {std::pair(&old_, "old"), std::pair(&new_, "new")}) {
      try {
        state->require_at(step(), witness());
        return name;
      } catch (const std::logic_error&) {  // The other one, then.
      } catch (const Error& error) {
        const bool is_absent = error.code() == Errc::not_found || error.code() == Errc::not_committed;
        return is_absent ? "nothing" : error.what();
      }
    }
    return "other values";
  }

  /// As `found`, without a context, whose threads would keep memory: by number, and by all hashes.
  [[nodiscard]] std::string found_without_context() const {
    std::optional<std::uint64_t> number;
    try {
      number = testing::holder_of(step());
    } catch (const Error& error) {
      if (error.code() != Errc::not_committed) {  // In marker mode the name comes before the checkpoint.
        throw;
      }
    }
    if (!number) {
      return "nothing";
    }
    store::VerifyOptions options;
    options.threads = 1;
    const store::VerifyReport report = store::verify(io::posix_syscalls(), step(), options);
    return report.problems.empty() ? (number == 1U ? "old" : "new") : report.problems.front().text;
  }

  /// What recovery leaves beside the foreign file.
  [[nodiscard]] std::vector<std::string> recovered() const {
    store::recover(io::posix_syscalls(), run());
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run())) {
      if (entry.path().filename() != kForeign) {
        names.push_back(entry.path().filename());
      }
    }
    return names;
  }

  /// Complains unless `run/step` is `expected`, and recovery leaves nothing else.
  [[nodiscard]] std::string require_only(const std::string& expected) const {
    std::string now = found();
    if (now != expected) {
      return fmt::format("'{}' is there, and not '{}'", now, expected);
    }
    const std::vector<std::string> names = recovered();
    now = found();
    if (now != expected) {
      return fmt::format("recovery made '{}' of '{}'", now, expected);
    }
    const std::size_t most = expected == "nothing" ? 0 : 1;
    return names.size() == most ? "" : "recovery leaves " + joined(names);
  }

  const State& old_state() const { return old_; }
  const State& new_state() const { return new_; }

 private:
  std::string name_;
  testing::TempDir temp_;
  State old_;
  State new_;
};

enum class Over : std::uint8_t { nothing, old };

class Save final : public InAFolder {
 public:
  Save(std::string name, std::size_t elements, Over over, bool lacks_rename_modes)
      : InAFolder(std::move(name), elements), over_(over), lacks_rename_modes_(lacks_rename_modes) {}

  void prepare() override {
    clear();
    at_once_.clear();
    if (over_ == Over::old) {
      put(step());
    }
  }

  std::string act(const Machine& machine) override {
    injector().lacks_rename_modes = lacks_rename_modes_;
    SaveOptions options;
    options.overwrite = over_ == Over::old;
    if (machine.slowness.count() > 0) {
      return act_until_stopped(machine, options);
    }
    const Context context(context_options(machine));
    const SaveResult result = new_state().save(step(), options, context);
    const Truce truce;  // The checkpoint is there; the words are the test's own.
    return reported(context, result);
  }

  std::string judge(const Verdict& verdict) override {
    injector().lacks_rename_modes = false;
    const bool is_unknown = verdict.code == Errc::commit_unknown;
    if (verdict.has_ended_process) {
      return require_only(found() == "new" ? "new" : before());
    }
    if (!at_once_.empty()) {
      return is_unknown ? judge_unknown() : judge_told(verdict.is_done ? "new" : before());
    }
    return require_only(verdict.is_done || is_unknown ? "new" : before());
  }

 private:
  [[nodiscard]] std::string before() const { return over_ == Over::old ? "old" : "nothing"; }

  /// A save that is cancelled while a call is slow, and what is there when it is answered.
  std::string act_until_stopped(const Machine& machine, const SaveOptions& options) {
    Stopper stopper(machine.slowness);
    const Context context(context_options(machine));
    const AsyncResponse saving = new_state().save_async(step(), options, context);
    stopper.watch(&saving);
    try {
      const SaveResult result = saving.wait();
      stopper.watch(nullptr);
      const Truce truce;
      at_once_ = found_without_context();
      return reported(context, result);
    } catch (...) {
      stopper.watch(nullptr);
      const Truce truce;
      at_once_ = found_without_context();
      throw;
    }
  }

  /// What was told was true when it was told, and is true now.
  std::string judge_told(const std::string& expected) {
    return at_once_ == expected ? require_only(expected)
                                : fmt::format("'{}' was there at once, and not '{}'", at_once_, expected);
  }

  /// Nobody knows: the old or the new one, what was seen once, and nothing of the old one was removed.
  std::string judge_unknown() {
    const std::string now = found();
    if ((now != "new" && now != before()) || (at_once_ == "new" && now != "new")) {
      return fmt::format("'{}' was there at once, and '{}' in the end", at_once_, now);
    }
    if (now == "new" && over_ == Over::old && committed_directories() < 2) {
      return "what was there before is gone, though nobody knows whether it was replaced";
    }
    return require_only(now);
  }

  [[nodiscard]] std::ptrdiff_t committed_directories() const {
    return std::count_if(
        fs::directory_iterator(run()), fs::directory_iterator(),
        [](const fs::directory_entry& entry) { return fs::exists(entry.path() / "COMMIT"); });
  }

  Over over_;
  bool lacks_rename_modes_;
  std::string at_once_;  ///< What was there when a save that could be stopped was answered.
};

/// Operations that change nothing: what they find is made once.
class Reading : public InAFolder {
 public:
  using InAFolder::InAFolder;

  void prepare() override {
    if (!std::exchange(is_prepared_, true)) {
      clear();
      old_state().save(step(), {}, witness());
    }
  }

  std::string judge(const Verdict& /*verdict*/) override { return ""; }

 private:
  bool is_prepared_ = false;
};

class Load final : public Reading {
 public:
  using Reading::Reading;

  std::string act(const Machine& machine) override {
    const Context context(context_options(machine));
    return reported(context, old_state().require_at(step(), context));
  }
};

class Metadata final : public Reading {
 public:
  using Reading::Reading;

  std::string act(const Machine& machine) override {
    const Context context(context_options(machine));
    const CheckpointMetadata metadata = checkpointables_metadata(step(), context);
    if (metadata.items.size() < 4 || metadata.at("tree").bytes == 0) {
      throw std::logic_error("other metadata was read");
    }
    for (const auto& [name, item] : metadata) {
      if (item.problem_code) {
        throw Error(item.problem_code, item.problem);  // Told, and not hidden: as good as a failed call.
      }
    }
    return context.engine_reason();
  }
};

io::Syscalls& syscalls_of(const Machine& machine) {
  return machine.syscalls ? *machine.syscalls : io::posix_syscalls();
}

class Verify final : public Reading {
 public:
  using Reading::Reading;

  std::string act(const Machine& machine) override {
    store::VerifyOptions options;
    options.threads = 2;
    const store::VerifyReport report = store::verify(syscalls_of(machine), step(), options);
    std::string text;
    for (const store::VerifyProblem& problem : report.problems) {
      text += problem.text + "\n";
    }
    return text;
  }
};

/// A folder with a checkpoint, what a killed save has left, and a checkpoint that was being removed.
class Recover final : public InAFolder {
 public:
  using InAFolder::InAFolder;

  void prepare() override {
    clear();
    put(step());
    put(run() / fmt::format(".trash-gone-{}", kUuid));
    const fs::path left = run() / fmt::format(".tmp-next-{}", kUuid);
    fs::create_directories(left / "tree");
    testing::write_text(left / "tree/data", "half");
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    testing::write_text(
        left / ".owner",
        fmt::format("cairn-owner 1\nuuid {}\nhost {}\nboot earlier\npid 1\nstart 1\n", kUuid, host.data()));
  }

  std::string act(const Machine& machine) override {
    std::string notes;
    for (const store::RecoveryEntry& entry : store::recover(syscalls_of(machine), run()).entries) {
      const bool is_left =
          entry.kind != store::EntryClass::committed && entry.name != kForeign && !entry.is_removed;
      notes += is_left ? fmt::format("{}: {}\n", entry.name, entry.note) : "";
    }
    return notes;
  }

  std::string judge(const Verdict& verdict) override {
    const bool is_clean = std::distance(fs::directory_iterator(run()), fs::directory_iterator()) == 2;
    if (verdict.is_done && verdict.text.empty() && !is_clean) {
      return "recovery left something and said nothing";
    }
    return require_only("old");
  }
};

class Remove final : public InAFolder {
 public:
  using InAFolder::InAFolder;

  void prepare() override {
    clear();
    put(step());
  }

  std::string act(const Machine& machine) override {
    store::remove_checkpoint(syscalls_of(machine), step());
    return "";
  }

  std::string judge(const Verdict& verdict) override {
    return require_only(!verdict.is_done && found() == "old" ? "old" : "nothing");
  }
};

template <class Kind, class... Arguments>
SceneMaker scene(std::string name, Arguments... arguments) {
  return {name, [=] { return std::make_unique<Kind>(name, arguments...); }};
}

}  // namespace

std::vector<SceneMaker> save_scenes() {
  return {scene<Save>("Save", kDirect, Over::nothing, false),
          scene<Save>("Overwrite", kDirect, Over::old, false),
          scene<Save>("SaveWithoutRenameModes", kSmall, Over::nothing, true),
          scene<Save>("OverwriteWithoutRenameModes", kSmall, Over::old, true)};
}

std::vector<SceneMaker> all_scenes() {
  std::vector<SceneMaker> scenes = save_scenes();
  for (SceneMaker& other :
       std::vector{scene<Load>("Load", kSmall), scene<Load>("LoadPastThePageCache", kUncached),
                   scene<Metadata>("Metadata", kSmall), scene<Verify>("Verify", kDirect),
                   scene<Recover>("Recover", kSmall), scene<Remove>("Remove", kSmall)}) {
    scenes.push_back(std::move(other));
  }
  return scenes;
}

std::unique_ptr<Scene> small_save() {
  return scene<Save>("SmallSave", kSmall, Over::nothing, false).make();
}

std::unique_ptr<Scene> small_overwrite() {
  return scene<Save>("SmallOverwrite", kSmall, Over::old, false).make();
}

}  // namespace cairn::faults
