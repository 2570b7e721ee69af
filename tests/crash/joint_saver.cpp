// SPDX-License-Identifier: Apache-2.0
#include "crash/joint_saver.hpp"

#include <exception>
#include <memory>
#include <set>
#include <utility>

#include "cairn/base/error.hpp"

#include "async/internal/start.hpp"
#include "store/internal/save_target.hpp"

namespace cairn::crash {
namespace {

/// The process has been killed while it waited for others.
class Killed final : public std::exception {};

std::string directory_of(const std::string& path) {
  return path.substr(0, path.find('/'));
}

/// What the others would have said, for a rank that does not listen.
std::vector<store::FileEntry> votes_of(std::size_t ranks) {
  std::vector<store::FileEntry> files;
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    for (const auto& [path, text] : part_of(new_content(), rank, ranks)) {
      const io::FileDigest digest = digest_of(path, text);
      files.push_back({path, digest.size_bytes, digest.root(), static_cast<std::uint32_t>(rank)});
    }
  }
  return files;
}

template <class T>
Awaitable<> keep(Awaitable<T> task, std::shared_ptr<std::optional<T>> result) {
  result->emplace(co_await std::move(task));
}

}  // namespace

Content part_of(const Content& content, std::size_t rank, std::size_t ranks) {
  // Rank 1 has the large file, and one in a directory that rank 0 writes in, too.
  std::size_t next = 0;
  Content part;
  for (const auto& file : content) {
    if (next++ % ranks == rank) {
      part.insert(file);
    }
  }
  return part;
}

JointSaver::JointSaver(World world, std::string target, bool overwrite, std::function<void(RankVerdict)> told)
    : world_(std::move(world)),
      target_(std::move(target)),
      overwrite_(overwrite),
      told_(std::move(told)),
      engine_(world_.process) {}

void JointSaver::run() {
  joint_.emplace(world_.coordinator);
  joint_->on_failure([this](const std::exception_ptr&) { commit_.stop(); });
  std::exception_ptr failure;
  RankVerdict verdict = RankVerdict::committed;
  try {
    save();
  } catch (const Killed&) {
    verdict = RankVerdict::none;
  } catch (const Error& error) {
    failure = std::current_exception();
    verdict = error.code() == Errc::commit_unknown ? RankVerdict::unknown : RankVerdict::aborted;
  }
  if (failure) {
    commit_.stop();
    joint_->fail(failure);
  }
  tell_user(verdict);
  if (failure && staged_) {
    staged_->abandon();
  }
  joint_->stop_listening();
  joint_->leave();
  staged_.reset();
}

void JointSaver::save() {
  const auto agreement =
      async::start(world_.executor, joint_->agree({{"the path", path_of(target_)}}, {}, {}));
  if (is_primary()) {
    make_directory();
  } else {
    await(joint_->receive_created());
    join_directory();
  }
  const std::vector<io::FileDigest> digests = write_files();
  wait_for(agreement);
  if (is_primary()) {
    publish(digests);
  } else {
    take_part(digests);
  }
}

void JointSaver::make_directory() {
  require_running();
  store::StagedOptions options;
  options.overwrite = overwrite_;
  options.uuid = joint_->uuid();
  options.random = world_.process.machine().random();
  options.may_publish = [this] { return commit_.begin_commit(); };
  options.may_retire = [this] { return commit_.state() == core::CommitState::State::committed; };
  options.on_step = [this](store::PublishStep step) {
    if (step != store::PublishStep::sync_parent) {
      return;
    }
    static_cast<void>(commit_.end_commit());
    world_.process.tell(kCommittedWord, [this] {
      joint_->send_verdict(joint::Verdict(joint::Verdict::Kind::committed, ""));
      return 0;
    });
    tell_user(RankVerdict::committed);
  };
  staged_.emplace(store::StagedDirectory::create(
      engine_, store::look_at_target(world_.process, path_of(target_), overwrite_), std::move(options)));
  std::set<std::string> directories;
  for (const auto& [path, text] : new_content()) {
    if (directories.insert(directory_of(path)).second) {
      staged_->make_directory(directory_of(path));
    }
  }
  staged_->make_directory(store::kTablesName);
  joint_->send_created();
}

void JointSaver::join_directory() {
  require_running();
  store::JoinOptions options;
  options.uuid = joint_->uuid();
  options.rank = joint_->rank();
  staged_.emplace(store::StagedDirectory::join(engine_, store::open_target(world_.process, path_of(target_)),
                                               std::move(options)));
}

std::vector<io::FileDigest> JointSaver::write_files() {
  std::vector<io::FileDigest> digests;
  for (const auto& [path, text] : part_of(new_content(), joint_->rank(), world_.coordinator.size())) {
    require_running();
    write_file(*staged_, path, text);
    digests.push_back(digest_of(path, text));
  }
  return digests;
}

void JointSaver::publish(const std::vector<io::FileDigest>& digests) {
  bool must_wait = false;
  world_.process.tell(kWaitWord, [&must_wait] {
    must_wait = true;
    return 0;
  });
  const std::vector<store::FileEntry> others =
      must_wait ? await(joint_->collect_votes()) : votes_of(world_.coordinator.size());
  store::Manifest manifest = manifest_of_save();
  manifest.world_size = static_cast<std::uint32_t>(world_.coordinator.size());
  staged_->publish(std::move(manifest), digests, others);
}

void JointSaver::take_part(const std::vector<io::FileDigest>& digests) {
  require_running();
  const std::vector<store::FileEntry> files = staged_->prepare(digests);
  if (!commit_.begin_commit()) {
    throw Error(Errc::cancelled, target_);
  }
  staged_->hand_over();
  bool is_heard = false;
  joint::Verdict::Kind verdict = joint::Verdict::Kind::unknown;
  try {
    world_.process.tell(kVoteWord, [this, files] {
      joint_->vote(files);
      return 0;
    });
    verdict = await(joint_->receive_verdict()).kind;
    is_heard = true;
  } catch (const Error&) {  // Nobody says it any more.
  }
  if (!is_heard) {
    verdict = staged_->decide_alone() == store::LoneVerdict::aborted ? joint::Verdict::Kind::aborted
                                                                     : joint::Verdict::Kind::committed;
  }
  apply_verdict(verdict);
}

void JointSaver::apply_verdict(joint::Verdict::Kind verdict) {
  switch (verdict) {
    case joint::Verdict::Kind::committed:
      static_cast<void>(commit_.end_commit());
      return;
    case joint::Verdict::Kind::unknown:
      throw Error(Errc::commit_unknown, target_);
    case joint::Verdict::Kind::aborted:
      break;
  }
  staged_->take_back();
  throw Error(Errc::peer_failed, target_);
}

void JointSaver::require_running() const {
  if (commit_.state() != core::CommitState::State::running) {
    throw Error(Errc::cancelled, target_);
  }
}

void JointSaver::tell_user(RankVerdict verdict) {
  if (!world_.process.is_dead() && !std::exchange(is_told_, true)) {
    told_(verdict);
  }
}

template <class T>
T JointSaver::await(Awaitable<T> task) {
  const auto result = std::make_shared<std::optional<T>>();
  wait_for(async::start(world_.executor, keep(std::move(task), result)));
  return std::move(**result);
}

void JointSaver::await(Awaitable<> task) {
  wait_for(async::start(world_.executor, std::move(task)));
}

void JointSaver::wait_for(const async::Event& event) {
  const SimulatedProcess& process = world_.process;
  world_.schedule.wait(rank(), [&process, event] { return process.is_dead() || event.has_happened(); });
  if (!event.has_happened() || process.is_dead()) {
    throw Killed();
  }
  event.get();
}

}  // namespace cairn::crash
