// SPDX-License-Identifier: Apache-2.0
#include "crash/mutants.hpp"

#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "crash/joint_saver.hpp"
#include "crash/joint_scenes.hpp"
#include "crash/scenes.hpp"

namespace cairn::crash {
namespace {

using Match = std::function<bool(const Operation&)>;
using Sabotage = std::function<std::unique_ptr<Saboteur>()>;

class Dropping final : public Saboteur {
 public:
  explicit Dropping(Match what) : what_(std::move(what)) {}

  int run(const Operation& operation, std::function<int()> effect) override {
    return what_(operation) ? 0 : effect();
  }

 private:
  Match what_;
};

/// Does `what` only after the first `until`; says that it was done. The power may go in between.
class Delaying final : public Saboteur {
 public:
  Delaying(Match what, Match until) : what_(std::move(what)), until_(std::move(until)) {}

  int run(const Operation& operation, std::function<int()> effect) override {
    if (is_over_) {
      settle();
      return effect();
    }
    is_over_ = until_(operation);  // First: it may look like what is delayed.
    if (!is_over_ && what_(operation)) {
      delayed_.push_back(std::move(effect));
      return 0;
    }
    return effect();
  }

  void settle() override {
    for (const auto& each : std::exchange(delayed_, {})) {
      each();
    }
  }

 private:
  Match what_;
  Match until_;
  bool is_over_ = false;
  std::vector<std::function<int()>> delayed_;
};

/// Answers a rank that looks at what is in the trash: "it is yours".
class Mistaking final : public Saboteur {
 public:
  explicit Mistaking(bool heeds_rename) : heeds_rename_(heeds_rename) {}

  int run(const Operation& operation, std::function<int()> effect) override;
  int look(int process, const std::string& path, io::FileStatus& status, int result) override;

 private:
  const bool heeds_rename_;  // Only when it has put something there itself.
  std::set<int> have_moved_;
};

/// Rank 0 does not wait for the votes, and takes for granted what it would look for.
class Hasty final : public Saboteur {
 public:
  int run(const Operation& operation, std::function<int()> effect) override {
    return operation.change == Change::tell && operation.path == kWaitWord ? 0 : effect();
  }

  int look(int process, const std::string& path, io::FileStatus& status, int result) override {
    constexpr std::size_t kTableBytes = 8;  // One chunk.
    for (const auto& [file, text] : new_content()) {
      const bool is_table = path.ends_with(".xxh3") && path.find("/.chunks/") != std::string::npos;
      if (process == 0 && (is_table || path.ends_with(file))) {
        status.kind = io::FileKind::regular;
        status.size_bytes = is_table ? kTableBytes : text.size();
        return 0;
      }
    }
    return result;
  }
};

bool is_in_run(const std::string& path, std::string_view prefix) {
  const std::string full = fmt::format("{}/{}", kRunPath, prefix);
  return path.starts_with(full) && path.find('/', full.size()) == std::string::npos;
}

Match change(Change kind, std::string suffix) {
  return [kind, suffix = std::move(suffix)](const Operation& operation) {
    return operation.change == kind && operation.path.ends_with(suffix);
  };
}

Match sync_data(std::string suffix) {
  return change(Change::sync_data, std::move(suffix));
}

Match sync_below(std::string suffix) {
  return change(Change::sync, std::move(suffix));
}

bool is_root_sync(const Operation& operation) {
  return operation.change == Change::sync && operation.path == kRunPath;
}

bool is_staged_sync(const Operation& operation) {
  return operation.change == Change::sync && is_in_run(operation.path, ".tmp-");
}

/// Of the staged directory to its final name, or the swap.
bool is_publication(const Operation& operation) {
  return operation.change == Change::rename && is_in_run(operation.path, ".tmp-");
}

bool is_retirement(const Operation& operation) {
  return operation.change == Change::rename && is_in_run(operation.new_path, ".trash-");
}

int Mistaking::run(const Operation& operation, std::function<int()> effect) {
  const int result = effect();
  if (result >= 0 && is_retirement(operation)) {
    have_moved_.insert(operation.process);
  }
  return result;
}

int Mistaking::look(int process, const std::string& path, io::FileStatus& status, int result) {
  const bool is_own = is_in_run(path, ".tmp-");
  const bool is_in_trash = is_in_run(path, ".trash-") && (!heeds_rename_ || have_moved_.contains(process));
  if (process == 0 || (!is_own && !is_in_trash) || (is_own && result < 0)) {
    return result;
  }
  status.id = {1, 1};
  return 0;
}

/// Of an older generation, to a temporary name.
bool is_replacement(const Operation& operation) {
  return operation.change == Change::rename && is_in_run(operation.new_path, ".tmp-");
}

bool is_commit_unlink(const Operation& operation) {
  return operation.change == Change::unlink && operation.path.ends_with("/COMMIT");
}

/// Of a directory below the root, by what its name begins with.
Match removal(std::string prefix) {
  return [prefix = std::move(prefix)](const Operation& operation) {
    return operation.change == Change::unlink && is_in_run(operation.path, prefix);
  };
}

/// Only what this rank does.
Match by(int rank, Match match) {
  return [rank, match = std::move(match)](const Operation& operation) {
    return operation.process == rank && match(operation);
  };
}

Match tell(std::string what) {
  return change(Change::tell, std::move(what));
}

/// Only the `number`th of those that match, from 1.
Match nth(int number, Match match) {
  return [number, match = std::move(match), seen = 0](const Operation& operation) mutable {
    return match(operation) && ++seen == number;
  };
}

Match either(Match one, Match other) {
  return [one = std::move(one), other = std::move(other)](const Operation& operation) {
    return one(operation) || other(operation);
  };
}

Sabotage drop(Match what) {
  return [what = std::move(what)] { return std::make_unique<Dropping>(what); };
}

Sabotage delay(Match what, Match until) {
  return
      [what = std::move(what), until = std::move(until)] { return std::make_unique<Delaying>(what, until); };
}

void add_mutants_of_a_save(std::vector<Mutant>& mutants, const std::string& scene) {
  for (const char* file : {"model/weights", "state/data", "chunks.xxh3", "checkpoint.json", "COMMIT"}) {
    mutants.push_back({fmt::format("{} is not synced", file), scene, drop(sync_data(file))});
  }
  mutants.push_back({"the directory of a checkpointable is not synced", scene, drop(sync_below("/model"))});
}

void add_mutants_of_publication(std::vector<Mutant>& mutants, const std::string& scene) {
  add_mutants_of_a_save(mutants, scene);
  mutants.push_back({"the staged directory is not synced", scene, drop(is_staged_sync)});
  mutants.push_back(
      {"the staged directory is synced after the rename", scene, delay(is_staged_sync, is_publication)});
  mutants.push_back(
      {"data is synced after the rename", scene, delay(sync_data("model/weights"), is_publication)});
  mutants.push_back({"COMMIT is synced after the rename", scene, delay(sync_data("COMMIT"), is_publication)});
}

void add_first_save(std::vector<Mutant>& mutants) {
  const char* scene = "save";
  add_mutants_of_publication(mutants, scene);
  mutants.push_back({".owner is not synced", scene, drop(sync_data(".owner"))});
  mutants.push_back({"the parent is not synced", scene, drop(is_root_sync)});
  mutants.push_back(
      {"the rename comes after the sync of the parent", scene, delay(is_publication, is_root_sync)});
  mutants.push_back({"a file is synced before its last write", scene,
                     delay(nth(2, change(Change::write, "model/weights")), sync_data("model/weights"))});
  mutants.push_back({"the padding is cut off after the sync", scene,
                     delay(nth(2, change(Change::resize, "model/weights")), sync_data("model/weights"))});
  mutants.push_back({".owner goes before the sync of the parent", scene,
                     delay(is_root_sync, change(Change::unlink, ".owner")), false,
                     "a sound checkpoint under a temporary name is put back, and this one may be there"});
}

void add_overwrite_by_exchange(std::vector<Mutant>& mutants) {
  const char* scene = "overwrite by exchange";
  add_mutants_of_publication(mutants, scene);
  mutants.push_back({"the parent is not synced", scene, drop(is_root_sync)});
  mutants.push_back(
      {"the parent is synced when the old one is gone", scene, delay(is_root_sync, removal(".tmp-"))});
  mutants.push_back(
      {"the swap comes after the sync of the parent", scene, delay(is_publication, is_root_sync)});
}

void add_overwrite_by_generation(std::vector<Mutant>& mutants) {
  const char* scene = "overwrite by generation";
  mutants.push_back({"the staged directory is not synced", scene, drop(is_staged_sync)});
  mutants.push_back(
      {"the parent is not synced before the old one is retired", scene, drop(nth(1, is_root_sync))});
  mutants.push_back({"the old one is retired first", scene, delay(is_publication, is_replacement)});
  mutants.push_back({"the parent is never synced", scene, drop(is_root_sync)});
  mutants.push_back({"the mark goes before the old one", scene,
                     delay(either(is_replacement, nth(2, is_root_sync)), change(Change::unlink, ".owner"))});
}

void add_marker_mode(std::vector<Mutant>& mutants) {
  const char* scene = "save by marker";
  const Match final_sync = sync_below("/.publishing");
  const Match link = change(Change::link, "/COMMIT");
  add_mutants_of_a_save(mutants, scene);
  mutants.push_back({"what moved is not synced before COMMIT", scene, drop(nth(2, final_sync))});
  mutants.push_back({"COMMIT's name is not synced", scene, drop(nth(3, final_sync))});
  mutants.push_back({"the parent is not synced", scene, drop(is_root_sync)});
  mutants.push_back({"COMMIT is linked before the manifest moves", scene,
                     delay(change(Change::rename, "/checkpoint.json"), link)});
  mutants.push_back(
      {"COMMIT is linked before the data moves", scene, delay(change(Change::rename, "/model"), link)});
  mutants.push_back({".uncommitted is not synced", scene, drop(sync_data(".uncommitted"))});
  mutants.push_back({"the staged directory is not synced", scene, drop(is_staged_sync), false,
                     "everything moves to the final directory, which is synced"});
  mutants.push_back({"the name of the mark is not synced before files move in", scene,
                     drop(nth(1, final_sync)), false,
                     "a journal keeps it before theirs; without one, what is left is reported and stays"});
  mutants.push_back({"COMMIT's name is not synced before the old one goes", "overwrite by marker",
                     drop(nth(3, final_sync))});
}

void add_marker_mode_without_links(std::vector<Mutant>& mutants) {
  const char* scene = "save by marker without links";
  const Match final_sync = sync_below("/.publishing");
  const Match made = nth(2, change(Change::write, "/COMMIT"));
  mutants.push_back({"what moved is not synced before COMMIT", scene, drop(nth(2, final_sync))});
  mutants.push_back({"COMMIT's bytes are not synced", scene, drop(nth(2, sync_data("COMMIT")))});
  mutants.push_back({"COMMIT's name is not synced", scene, drop(nth(3, final_sync))});
  mutants.push_back({"COMMIT is made before the manifest moves", scene,
                     delay(change(Change::rename, "/checkpoint.json"), made)});
  mutants.push_back({"COMMIT's bytes are not synced before the old one goes",
                     "overwrite by marker without links", drop(sync_data(".publishing/COMMIT"))});
  mutants.push_back({"recovery does not sync the bytes of a COMMIT with a mark",
                     "overwrite by marker without links", drop(sync_data("COMMIT")), true});
}

void add_removal(std::vector<Mutant>& mutants) {
  const char* scene = "remove";
  mutants.push_back({"the parent is not synced", scene, drop(is_root_sync)});
  mutants.push_back(
      {"the parent is synced when all is gone", scene, delay(is_root_sync, removal(".trash-"))});
  mutants.push_back({"files go before the rename", scene, delay(is_retirement, is_commit_unlink)});
  mutants.push_back({"COMMIT goes first", scene, delay(change(Change::unlink, ""), is_commit_unlink)});
  mutants.push_back({"the newest generation goes first", "remove two generations",
                     delay(either(nth(1, is_retirement), nth(1, is_root_sync)), nth(2, is_retirement))});
}

/// What removes old steps goes by the commit of a new one.
void add_training(std::vector<Mutant>& mutants) {
  const char* scene = "a training that keeps the newest step";
  mutants.push_back({"the parent is not synced after a commit", scene, drop(nth(1, is_root_sync))});
  mutants.push_back({"the commit comes when an old step has gone", scene,
                     delay(either(nth(1, is_publication), nth(1, is_root_sync)), is_retirement)});
  const Match is_linked = [](const Operation& operation) {
    return operation.change == Change::rename && operation.new_path == path_of("latest");
  };
  mutants.push_back({"the link comes before the commit", scene,
                     delay(either(nth(1, is_publication), nth(1, is_root_sync)), is_linked)});
  mutants.push_back(
      {"the pin is not synced", "a training with a pinned step", drop(sync_below(".cairn-pins"))});
  mutants.push_back(
      {"the directory of pins is not synced", "a training with a pinned step", drop(nth(1, is_root_sync))});
  mutants.push_back(
      {"files go before the rename", "a training that is pruned", delay(is_retirement, is_commit_unlink)});
  mutants.push_back({"the commit of the last step is lost", scene, drop(nth(2, is_publication))});
}

/// Parts go by the commit of what was made of them.
void add_parts(std::vector<Mutant>& mutants) {
  const char* scene = "a checkpoint in two parts";
  const Match is_parts_sync = [](const Operation& operation) {
    return operation.change == Change::sync && is_in_run(operation.path, ".partial-");
  };
  const Match is_merged_index = [](const Operation& operation) {
    return operation.change == Change::sync_data &&
           is_in_run(operation.path.substr(0, operation.path.rfind("/model")), ".tmp-") &&
           operation.path.ends_with("index.fb");
  };
  // The root is synced for the parts' directory, after the commit, and when the parts have gone.
  mutants.push_back({"the name of the parts' directory is not synced", scene, drop(nth(1, is_root_sync))});
  mutants.push_back({"the name of a part is not synced", scene, drop(nth(1, is_parts_sync))});
  mutants.push_back({"the merged index is not synced", scene, drop(is_merged_index)});
  mutants.push_back({"the parent is not synced after the commit", scene, drop(nth(2, is_root_sync))});
  mutants.push_back({"the commit comes when the parts have gone", scene,
                     delay(either(is_publication, nth(2, is_root_sync)), is_retirement)});
  mutants.push_back(
      {"the parts are removed before their directory is gone", scene, drop(nth(3, is_root_sync))});
}

void add_restoration(std::vector<Mutant>& mutants) {
  const Match is_restoration = [](const Operation& operation) {
    return operation.change == Change::rename && operation.new_path == path_of("step");
  };
  mutants.push_back(
      {"COMMIT of a save that was given up does not go for good", "give up", drop(nth(2, is_staged_sync))});
  mutants.push_back({"COMMIT of a save that was given up goes last", "give up",
                     delay(is_commit_unlink, change(Change::unlink, ".owner"))});
  mutants.push_back({"what was replaced outlives the removal", "remove what was half overwritten",
                     delay(nth(1, is_retirement), removal(".trash-"))});
  mutants.push_back({"that what was replaced is trash is not synced", "remove what was half overwritten",
                     drop(nth(1, is_root_sync))});
  for (const char* scene : {"restore", "restore without rename modes"}) {
    mutants.push_back({"a checkpoint is not put back", scene, drop(is_restoration)});
    mutants.push_back({"a checkpoint that was put back is not synced", scene, drop(nth(3, is_root_sync))});
  }
}

void add_recovery(std::vector<Mutant>& mutants) {
  const char* scene = "overwrite by exchange";
  mutants.push_back({"recovery does not sync", scene, drop(is_root_sync), true});
  mutants.push_back({"recovery syncs when it is done", scene, delay(is_root_sync, removal(".tmp-")), true});
  mutants.push_back(
      {"recovery removes COMMIT first", scene, delay(change(Change::unlink, ""), is_commit_unlink), true});
  mutants.push_back({"recovery does not sync a checkpoint with a mark", "overwrite by marker",
                     drop(sync_below("/step.g2")), true});
  mutants.push_back(
      {"recovery does not heed locks", "recovery within overwrite", drop(change(Change::lock, ""))});
  mutants.push_back(
      {"recovery does not sync what it has seen", "overwrite within recovery", drop(nth(2, is_root_sync))});
  mutants.push_back({"recovery does not sync before it looks", scene, drop(nth(1, is_root_sync)), true,
                     "it syncs what it has seen before it removes anything"});
}

/// The following are for saves of several ranks.
void add_votes(std::vector<Mutant>& mutants) {
  const char* calm = "save by 2 ranks, 0";
  const char* lost = "save by 2 ranks, rank 1 loses its machine";
  const Match own_file = by(1, sync_data("model/weights"));
  const Match own_table = by(1, sync_data("r00001.xxh3"));
  mutants.push_back({"a rank does not sync its files", calm, drop(own_file)});
  mutants.push_back({"a rank does not sync its table of hashes", calm, drop(own_table)});
  mutants.push_back({"a rank votes before it syncs its files", calm, delay(own_file, is_publication)});
  mutants.push_back(
      {"a rank votes before it syncs its table of hashes", calm, delay(own_table, is_publication)});
  mutants.push_back({"a rank does not sync its directories", lost, drop(by(1, sync_below("/model")))});
  mutants.push_back(
      {"a rank does not sync the directory of the tables", lost, drop(by(1, sync_below("/.chunks")))});
  // Rank 0 would find that files are missing; so the others are told aborted where nothing has happened.
  for (const char* scene : {calm, "save by marker by 2 ranks, 0"}) {
    mutants.push_back({"rank 0 does not wait for the votes", scene, drop(by(0, tell(kWaitWord)))});
  }
  for (const char* scene :
       {calm, "save by marker by 2 ranks, 0", "overwrite by exchange by 3 ranks, rank 2 is killed"}) {
    mutants.push_back({"rank 0 neither waits for the votes nor looks for the files", scene,
                       [] { return std::make_unique<Hasty>(); }});
  }
}

void add_verdicts(std::vector<Mutant>& mutants) {
  const Match mark = by(0, either(change(Change::unlink, ".owner"), change(Change::unlink, ".uncommitted")));
  for (const char* scene : {"save by 2 ranks, 0", "overwrite by exchange by 2 ranks, 0",
                            "overwrite by generation by 2 ranks, 0", "save by marker by 2 ranks, 0"}) {
    mutants.push_back(
        {"committed is told before the parent is synced", scene, delay(by(0, nth(1, is_root_sync)), mark)});
  }
  mutants.push_back({"committed is told before COMMIT's name is synced", "save by marker by 2 ranks, 0",
                     delay(by(0, nth(2, sync_below("/.publishing"))), mark)});
  const Sabotage looks_at_nothing = [] { return std::make_unique<Mistaking>(false); };
  const Sabotage heeds_rename = [] { return std::make_unique<Mistaking>(true); };
  const Match parent_sync = [](const Operation& operation) {
    return operation.process != 0 && is_root_sync(operation);
  };
  for (const char* mode : {"save", "overwrite by exchange", "overwrite by generation"}) {
    const std::string killed = fmt::format("{} by 2 ranks, rank 0 is killed", mode);
    const std::string unheard = fmt::format("{} by 2 ranks, rank 0 is not heard", mode);
    mutants.push_back({"a rank says aborted and does not look", killed, looks_at_nothing});
    mutants.push_back({"a rank says aborted and does not look", unheard, looks_at_nothing});
    mutants.push_back({"a rank says committed and does not sync the parent", killed, drop(parent_sync)});
  }
  for (const char* mishap : {"by 2 ranks, rank 0 is killed", "by 2 ranks, rank 0 is not heard",
                             "by 3 ranks, rank 0 is not heard"}) {
    mutants.push_back({"a rank says aborted when its rename succeeds",
                       fmt::format("overwrite by exchange {}", mishap), heeds_rename});
  }
}

std::vector<Mutant> make_mutants() {
  std::vector<Mutant> mutants;
  add_first_save(mutants);
  add_overwrite_by_exchange(mutants);
  add_overwrite_by_generation(mutants);
  add_marker_mode(mutants);
  add_marker_mode_without_links(mutants);
  add_removal(mutants);
  add_training(mutants);
  add_parts(mutants);
  add_restoration(mutants);
  add_recovery(mutants);
  add_votes(mutants);
  add_verdicts(mutants);
  return mutants;
}

}  // namespace

EnumerationReport enumerate(const Mutant& mutant, std::uint64_t seed) {
  EnumerationOptions options;
  options.seed = seed;
  options.states = mutant.equivalence.empty() ? 20'000 : 2'000;
  options.sabotage = mutant.sabotage;
  options.is_recovery_sabotaged = mutant.is_recovery;
  options.is_brief = true;
  const MishapScene* mishap = find_mishap_scene(mutant.scene);
  return mishap != nullptr ? enumerate(*mishap, options) : Enumerator(scene(mutant.scene), options).run();
}

const std::vector<Mutant>& all_mutants() {
  static const std::vector<Mutant> mutants = make_mutants();
  return mutants;
}

}  // namespace cairn::crash
