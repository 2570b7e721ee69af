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

using Act = joint::SaveProtocol::Act;

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

RankVerdict verdict_of(const std::exception_ptr& failure) {
  return code_of(failure) == Errc::commit_unknown ? RankVerdict::unknown : RankVerdict::aborted;
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
  protocol_.emplace(joint_->is_primary());
  joint_->on_failure([this](const std::exception_ptr&) { protocol_->commit().stop(); });
  try {
    for (Act act = protocol_->act(); act != Act::end; act = protocol_->act()) {
      try {
        perform(act);
        protocol_->did(act);
      } catch (const Error&) {
        failure_ = failure_ ? failure_ : std::current_exception();
        protocol_->failed();
      }
    }
    tell_user(failure_ ? verdict_of(failure_) : RankVerdict::committed);
  } catch (const Killed&) {
    tell_user(RankVerdict::none);
  }
  joint_->stop_listening();
  joint_->leave();
  staged_.reset();
}

void JointSaver::perform(Act act) {
  switch (act) {
    case Act::write:
      write();
      break;
    case Act::collect_votes:
      collect_votes();
      break;
    case Act::publish:
      publish();
      break;
    case Act::prepare:
      require_running();
      files_ = staged_->prepare(digests_);
      break;
    case Act::hand_over:
      staged_->hand_over();
      break;
    case Act::vote:
    case Act::hear_verdict:
      return hear_verdict();
    case Act::ask_disk:
      ending_ = staged_->decide_alone() == store::LoneVerdict::aborted ? joint::Ending::aborted
                                                                       : joint::Ending::committed;
      return protocol_->heard(ending_);
    case Act::take_back:
      staged_->take_back();
      break;
    case Act::fail:
      fail();
    case Act::tell_failure:
      joint_->fail(failure_);
      tell_user(verdict_of(failure_));
      break;
    case Act::abandon:
      if (staged_) {
        staged_->abandon();
      }
      break;
    case Act::close:
    case Act::end:
      break;
  }
}

void JointSaver::write() {
  const auto agreement = async::start(world_.executor, joint_->agree({{"the path", path_of(target_)}}, {}));
  if (is_primary()) {
    make_directory();
  } else {
    await(joint_->receive_created());
    join_directory();
  }
  write_files();
  wait_for(agreement);
}

void JointSaver::make_directory() {
  require_running();
  store::StagedOptions options;
  options.overwrite = overwrite_;
  options.uuid = joint_->uuid();
  options.random = world_.process.machine().random();
  options.may_publish = [this] { return protocol_->commit().begin_commit(); };
  options.may_retire = [this] { return protocol_->commit().state() == joint::CommitState::State::committed; };
  options.on_step = [this](store::PublishStep step) {
    if (step != store::PublishStep::sync_parent) {
      return;
    }
    static_cast<void>(protocol_->commit().end_commit());
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

void JointSaver::write_files() {
  for (const auto& [path, text] : part_of(new_content(), joint_->rank(), world_.coordinator.size())) {
    require_running();
    write_file(*staged_, path, text);
    digests_.push_back(digest_of(path, text));
  }
}

void JointSaver::collect_votes() {
  bool must_wait = false;
  world_.process.tell(kWaitWord, [&must_wait] {
    must_wait = true;
    return 0;
  });
  files_ = must_wait ? await(joint_->collect_votes()) : votes_of(world_.coordinator.size());
}

void JointSaver::publish() {
  store::Manifest manifest = manifest_of_save();
  manifest.world_size = static_cast<std::uint32_t>(world_.coordinator.size());
  staged_->publish(std::move(manifest), digests_, files_);
}

void JointSaver::hear_verdict() {
  try {
    if (protocol_->act() == Act::vote) {
      world_.process.tell(kVoteWord, [this] {
        joint_->vote(files_);
        return 0;
      });
      return;
    }
    ending_ = await(joint_->receive_verdict()).kind;
  } catch (const Error&) {  // Nobody says it any more.
    return protocol_->silent();
  }
  protocol_->heard(ending_);
}

void JointSaver::fail() const {
  throw Error(ending_ == joint::Ending::unknown ? Errc::commit_unknown : Errc::peer_failed, target_);
}

void JointSaver::require_running() const {
  if (protocol_->commit().state() != joint::CommitState::State::running) {
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
