// SPDX-License-Identifier: Apache-2.0
// What a save does because other ranks save the same checkpoint. Rank 0 publishes; the others make durable what they
// have written, say so, and wait for its verdict. From the moment at which a rank has said so rank 0 may publish,
// whatever happens here: this rank says nothing else than rank 0, or than the disk.
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "cairn/async/awaitable.hpp"

#include "async/internal/suspend.hpp"
#include "coord/internal/of_peer.hpp"
#include "core/save_job.hpp"
#include "store/internal/other_files.hpp"

namespace cairn::core {
namespace {

/// How long what rank 0 has made may be invisible here: network file systems keep what they have seen for a while.
constexpr std::chrono::milliseconds kLookAgain{50};
constexpr int kMostLooks = 1200;

/// Values that are sent as texts; the rest as one hash.
constexpr std::size_t kMostItems = 16;

/// Returns what another rank says of the save, with the save named once.
std::string named(std::string_view words, std::string_view title) {
  return words.starts_with(title) ? std::string(words) : fmt::format("{}: {}", title, words);
}

/// Returns the text of a failure. For the failure of another rank it leaves out the words that its code adds,
/// because the new error adds them again.
std::string words_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (coord::is_of_peer(error.code())) {
      return error.detail();
    }
  } catch (...) {  // Not of another rank.
  }
  return describe(failure);
}

Errc code_of_abortion(const joint::Verdict& verdict) {
  if (verdict.is_superseded) {
    return Errc::superseded;
  }
  return verdict.is_peer_lost ? Errc::peer_lost : Errc::peer_failed;
}

/// A failure of another rank, or one that all ranks are told alike, with the save named; any other as it is.
std::exception_ptr with_save_named(const std::exception_ptr& failure, std::string_view title,
                                   bool is_of_all) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (is_of_all || coord::is_of_peer(error.code())) {
      return std::make_exception_ptr(Error(error.code(), named(error.detail(), title)));
    }
  } catch (...) {  // Of this rank.
  }
  return failure;
}

}  // namespace

bool SaveJob::takes_part(const SaveItem& item) const {
  return is_primary() || item.registration.handler->participation() == Participation::all;
}

joint::RankValues SaveJob::rank_values() const {
  joint::RankValues values;
  values.emplace_back("the path", path_.string());
  values.emplace_back("overwrite", options_.overwrite ? "true" : "false");
  values.emplace_back("the number of checkpointables", std::to_string(items_.size()));
  std::string rest;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const ErasedHandler& handler = *items_[i].registration.handler;
    std::string item = fmt::format("{} (handler {}{})", items_[i].checkpointable.name(), handler.id(),
                                   handler.participation() == Participation::all ? ", on all ranks" : "");
    if (i < kMostItems) {
      values.emplace_back(fmt::format("checkpointable {}", i + 1), std::move(item));
    } else {
      rest += fmt::format("{}:{}", item.size(), item);
    }
  }
  values.emplace_back("further checkpointables", std::move(rest));
  return values;
}

Awaitable<> SaveJob::agree(std::shared_ptr<SaveJob> self) {
  std::exception_ptr failure;
  try {
    joint::JointSave::Word word{self->options_.word, self->options_.on_word};
    const OptionWords options = self->options_.handler_options.same_on_all_ranks();
    Awaitable<> agreeing = self->joint_->agree(self->rank_values(), options, std::move(word));
    co_await std::move(agreeing);
  } catch (...) {
    failure = std::current_exception();
    const bool is_of_all = failure == self->joint_->failure();
    if (is_of_all && !self->joint_->has_failed()) {  // Otherwise it is a failure of this rank itself.
      self->take_peer_failure(failure);              // Stops the handlers: what they still do is in vain.
    }
    if (is_of_all && self->is_stopped()) {
      failure = async::cancelled();  // Why it was stopped says the same, and the save's name.
    }
  }
  self->agreed_.complete(failure);
}

void SaveJob::join_directory() {
  const async::Gate::Visit inside = enter_directory();
  store::JoinOptions options;
  options.uuid = uuid_;
  options.rank = joint_->rank();
  options.look_again = [this, looks = 0]() mutable {
    std::this_thread::sleep_for(kLookAgain);
    return ++looks < kMostLooks && commit_.state() == CommitState::State::running;
  };
  while (!target_) {  // Rank 0 has made its directory by now.
    target_ = services().checkpoint_store().find(engine().syscalls(), path_, options_.create_parents);
    if (!target_ && !options.look_again()) {
      throw Error(
          Errc::not_found,
          fmt::format("rank 0 created {}, but it is not visible here: do all ranks use one shared directory?",
                      path_.parent_path().string()));
    }
  }
  staged_ = target_->join(engine(), std::move(options));
}

std::optional<coord::Channel> SaveJob::channel(const std::string& directory, std::string_view what) const {
  for (const SaveItem& item : items_) {
    if (joint_ && item.directory == directory &&
        item.registration.handler->participation() == Participation::all) {
      return joint_->channel(fmt::format("{}/{}", directory, what));
    }
  }
  return std::nullopt;
}

std::string SaveJob::alone_problem(std::uint64_t bytes) const {
  const std::uint64_t alone = alone_bytes_;
  if (!joint_ || !is_primary() || alone <= bytes / 2) {
    return {};
  }
  return fmt::format(
      "rank 0 wrote {} of the {} bytes alone, in arrays that are not sharded; ranks share them out where "
      "rules say that "
      "all have copies (ArrayForm::replicated)",
      alone, bytes);
}

void SaveJob::adopt_file(const std::string& relative) {
  const async::Gate::Visit inside = enter_directory();
  const io::Directory* directory = staged_->directory();
  if (directory == nullptr) {
    throw Error(Errc::not_found, fmt::format("'{}': the checkpoint is not written in a directory", relative));
  }
  staged_->adopt(relative);
  files_.add(store::digest_other_file(*directory, relative));
}

void SaveJob::require_announced(std::span<const io::FileDigest> digests) const {
  const io::Directory* directory = staged_->directory();
  if (!joint_ || directory == nullptr) {
    return;
  }
  std::set<std::string, std::less<>> known;
  for (const io::FileDigest& digest : digests) {
    known.insert(digest.path);
  }
  for (const store::FileEntry& file : others_) {
    known.insert(file.path);
  }
  for (const SaveItem& item : items_) {
    if (item.registration.handler->participation() != Participation::all) {
      continue;
    }
    for (const std::string& path : store::unknown_files(*directory, item.directory, known)) {
      throw Error(
          Errc::handler_failed,
          fmt::format("'{}' was written by a handler that saves on all ranks, and announced on none", path));
    }
  }
}

Awaitable<> SaveJob::collect_votes() {
  others_ = co_await joint_->collect_votes();
}

std::vector<store::FileEntry> SaveJob::prepare_part() {
  const async::Gate::Visit inside = enter_directory();
  const std::vector<io::FileDigest> digests = digest_files();
  judge_handlers();
  prepare_result(digests);
  return staged_->prepare(digests);
}

Awaitable<> SaveJob::take_part() {
  std::vector<store::FileEntry> files;
  std::function<void()> prepare = [&] {
    files = prepare_part();
    meter().end_step(Step::describe);
  };
  co_await run_call(std::move(prepare));
  // A rank that is stopped from here on still waits for the verdict: once it has voted, rank 0 may publish.
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  if (!commit_.begin_commit()) {
    throw Error(Errc::cancelled, title());
  }
  staged_->hand_over();
  joint::Verdict verdict;
  std::exception_ptr silence;
  try {
    joint_->vote(files);
    verdict = co_await joint_->receive_verdict();
  } catch (...) {
    silence = std::current_exception();
  }
  if (silence) {
    std::function<void()> decide = [&] { verdict = decide_alone(silence); };
    co_await run_call(std::move(decide));
  }
  apply_verdict(verdict);
}

joint::Verdict SaveJob::decide_alone(const std::exception_ptr& silence) {
  if (staged_->decide_alone() == store::LoneVerdict::aborted) {
    joint::Verdict verdict(joint::Verdict::Kind::aborted, words_of(silence));
    verdict.is_peer_lost = code_of(silence) == Errc::peer_lost;
    return verdict;
  }
  return committed();
}

joint::Verdict SaveJob::committed() const {
  joint::Verdict verdict(joint::Verdict::Kind::committed, "");
  const MutexLock lock(mutex_);
  verdict.files = result_.files;
  verdict.bytes = result_.bytes;
  return verdict;
}

void SaveJob::send_committed() noexcept {
  if (joint_) {
    joint_->send_verdict(committed());
  }
}

void SaveJob::apply_verdict(const joint::Verdict& verdict) {
  switch (verdict.kind) {
    case joint::Verdict::Kind::committed: {
      static_cast<void>(commit_.end_commit());
      meter().end_step(Step::sync_parent);
      {
        const MutexLock lock(mutex_);
        result_.files = verdict.files;
        result_.bytes = verdict.bytes;
      }
      measure_result();
      return;
    }
    case joint::Verdict::Kind::unknown:
      throw Error(Errc::commit_unknown, named(verdict.words, title()));
    case joint::Verdict::Kind::aborted:
      break;
  }
  staged_->take_back();
  if (is_stopped()) {
    throw Error(Errc::cancelled, title());  // Asked for on this rank: its caller is told so.
  }
  throw Error(code_of_abortion(verdict), named(verdict.words, title()));
}

bool SaveJob::may_follow(const std::exception_ptr& failure) const {
  return !is_primary() && commit_.state() == CommitState::State::stopped &&
         code_of(failure) == std::errc::no_such_file_or_directory;
}

std::exception_ptr SaveJob::for_others(const std::exception_ptr& failure) const {
  const std::exception_ptr why = explain(failure);
  return may_follow(failure) ? coord::as_following(why) : why;
}

Awaitable<std::exception_ptr> SaveJob::attribute(std::exception_ptr failure, bool is_of_all) {
  const std::optional<std::error_code> code = code_of(failure);
  const bool was_told =
      may_be_told_a_consequence_ && (async::is_cancelled(failure) || (code && coord::is_of_peer(*code)));
  if (!was_told && !may_follow(failure)) {
    co_return with_save_named(failure, title(), is_of_all);
  }
  // Rank 0 removes what it has made once it has heard of a failure. A rank may see that before it hears of the failure,
  // or before it ends because it was stopped; and others may hear of what it misses before they hear of the failure.
  if (is_stopped() && !may_be_told_a_consequence_) {
    co_return explain(nullptr);
  }
  // Rank 0 says what came first: it has heard of that before it removed anything. What stops this rank meanwhile does
  // not end the wait: it may be a mere consequence.
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  try {
    const joint::Verdict verdict = co_await joint_->receive_verdict();
    const std::string own = fmt::format("rank {}: ", joint_->rank());
    const std::string words = named(verdict.words, title());
    if (!std::string_view(words).substr(title().size()).starts_with(": " + own)) {
      failure = std::make_exception_ptr(Error(code_of_abortion(verdict), words));
    }
  } catch (const Error& error) {
    if (coord::is_of_peer(error.code())) {  // Rank 0 cannot be heard: it is lost, or this rank is.
      failure = std::make_exception_ptr(Error(error.code(), named(error.detail(), title())));
    }
  } catch (...) {  // No memory for what rank 0 says: this rank's own failure stays.
  }
  if (is_stopped() && !may_be_told_a_consequence_) {
    co_return explain(nullptr);
  }
  co_return failure;
}

void SaveJob::take_peer_failure(const std::exception_ptr& why) noexcept {
  if (commit_.stop() ==
      CommitState::State::
          stopped) {  // Else it was handed over, or is being published: the verdict will come.
    if (!is_primary() && !is_stopped() && coord::is_following(why)) {
      may_be_told_a_consequence_ = true;
    }
    stop_because(why);
  }
}

void SaveJob::refuse_effect() noexcept {
  const CommitState::State state = commit_.stop();
  if (joint_ && (state == CommitState::State::stopped || !joint_->is_primary())) {
    joint_->fail(explain(nullptr));
  }
}

}  // namespace cairn::core
