// SPDX-License-Identifier: Apache-2.0
#include "core/save_ranks.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "async/internal/event.hpp"
#include "async/internal/suspend.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/printable.hpp"
#include "base/internal/probe.hpp"
#include "coord/internal/of_peer.hpp"
#include "store/internal/new_checkpoint.hpp"
#include "store/internal/other_files.hpp"

namespace cairn::core {
namespace {

using Act = joint::SaveProtocol::Act;

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

/// A failure of a handler without the place that it begins with: ranks name the save to each other.
std::exception_ptr without_place(const std::exception_ptr& failure, const std::string& place) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    const std::string beginning = printable(place) + ": ";
    const std::string& detail = error.detail();
    if (detail.starts_with(beginning)) {
      return std::make_exception_ptr(Error(error.code(), detail.substr(beginning.size())));
    }
  } catch (...) {  // Not of a handler.
  }
  return failure;
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

/// With other ranks.
class JointRanks final : public SaveRanks {
 public:
  JointRanks(std::unique_ptr<joint::JointSave> joint, Parts parts)
      : joint_(std::move(joint)),
        operation_(parts.operation),
        files_(parts.files),
        protocol_(parts.protocol) {}

  [[nodiscard]] bool is_primary() const noexcept override { return joint_->is_primary(); }

  void listen() override {
    joint_->on_failure([this](const std::exception_ptr& why) { take_peer_failure(why); });
  }
  void begin_to_agree() override {
    operation_.helpers().spawn(agree(std::shared_ptr<JointRanks>(operation_.shared_from_this(), this)));
  }
  [[nodiscard]] Awaitable<> agreed() override { return agreed_.wait(); }
  void announce_directory() override;
  [[nodiscard]] Awaitable<> hear_of_directory() override {
    return is_primary() ? nothing() : joint_->receive_created();
  }
  void join_directory() override;
  [[nodiscard]] Awaitable<> collect_votes() override { others_ = co_await joint_->collect_votes(); }
  [[nodiscard]] std::span<const store::FileEntry> others() const noexcept override { return others_; }
  [[nodiscard]] std::set<std::string, std::less<>> shared_directories() const override;
  void require_announced(std::span<const io::FileDigest> digests) const override;
  void judge_division() override;
  void send_committed() noexcept override { joint_->send_verdict(committed()); }
  void prepared(std::vector<store::FileEntry> files) override { own_ = std::move(files); }
  [[nodiscard]] Awaitable<> take_part() override;
  void fail(const std::exception_ptr& why) noexcept override { joint_->fail(why); }
  [[nodiscard]] Awaitable<std::exception_ptr> end(std::exception_ptr failure) override;
  [[nodiscard]] bool is_of_all(const std::exception_ptr& failure) const noexcept override {
    return failure == joint_->failure();
  }
  void refuse(joint::CommitState::State state) noexcept override;
  [[nodiscard]] SomeRanks missing() const override { return joint_->missing(); }
  void stop_listening() noexcept override { joint_->stop_listening(); }
  void leave() noexcept override { joint_->leave(); }

 private:
  static Awaitable<> agree(std::shared_ptr<JointRanks> self);
  [[nodiscard]] joint::RankValues values() const;
  void take_peer_failure(const std::exception_ptr& why) noexcept;
  /// Returns whether a failure of this rank may be that it misses what rank 0 has removed, because another
  /// rank has failed.
  [[nodiscard]] bool may_follow(const std::exception_ptr& failure) const;
  /// Returns what the other ranks are told of a failure of this one.
  [[nodiscard]] std::exception_ptr for_others(const std::exception_ptr& failure) const;
  /// Returns the failure of another rank where `failure` is only its consequence; else `failure`. `is_of_all` says
  /// that all ranks are told that one alike.
  Awaitable<std::exception_ptr> attribute(std::exception_ptr failure, bool is_of_all);
  void vote();
  Awaitable<> hear_verdict();
  void decide_alone();
  void hear(joint::Verdict verdict);
  [[nodiscard]] joint::Verdict committed() const;
  /// Throws why the checkpoint is not committed.
  [[noreturn]] void fail_by_verdict() const;

  const std::unique_ptr<joint::JointSave> joint_;
  Operation& operation_;
  SaveFiles& files_;
  joint::SaveProtocol& protocol_;
  async::Event agreed_;                                 // All ranks save the same.
  std::vector<store::FileEntry> others_;                // At rank 0.
  std::vector<store::FileEntry> own_;                   // At the others: what they vote with.
  std::optional<joint::Verdict> verdict_;               // Likewise.
  std::exception_ptr silence_;                          // Likewise: why rank 0 cannot be heard.
  std::atomic<bool> may_be_told_a_consequence_{false};  // Of what another rank was told to stop for.
};

joint::RankValues JointRanks::values() const {
  const std::vector<SaveItem>& items = files_.items();
  joint::RankValues values;
  values.emplace_back("the path", files_.path().string());
  values.emplace_back("overwrite", files_.options().overwrite ? "true" : "false");
  values.emplace_back("the number of checkpointables", std::to_string(items.size()));
  std::string rest;
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::string item =
        fmt::format("{} (handler {}{})", items[i].checkpointable.name(), items[i].registration.handler->id(),
                    items[i].is_of_all_ranks() ? ", on all ranks" : "");
    if (i < kMostItems) {
      values.emplace_back(fmt::format("checkpointable {}", i + 1), std::move(item));
    } else {
      rest += fmt::format("{}:{}", item.size(), item);
    }
  }
  values.emplace_back("further checkpointables", std::move(rest));
  return values;
}

Awaitable<> JointRanks::agree(std::shared_ptr<JointRanks> self) {
  std::exception_ptr failure;
  try {
    const SaveOptions& options = self->files_.options();
    const OptionWords words = options.handler_options.same_on_all_ranks();
    Awaitable<> agreeing = self->joint_->agree(self->values(), words);
    co_await std::move(agreeing);
  } catch (...) {
    failure = std::current_exception();
    const bool is_of_all = self->is_of_all(failure);
    if (is_of_all && !self->joint_->has_failed()) {  // Otherwise it is a failure of this rank itself.
      self->take_peer_failure(failure);              // Stops the handlers: what they still do is in vain.
      CAIRN_PROBE("core.agreement_fails_on_all_ranks");
    }
    if (is_of_all && self->operation_.is_stopped()) {
      failure = async::cancelled();  // Why it was stopped says the same, and the save's name.
    }
  }
  self->agreed_.complete(failure);
}

void JointRanks::announce_directory() {
  CAIRN_ASSERT(is_primary(), "rank 0 announces the directory");
  files_.staged().make_directory(store::kTablesName);
  joint_->send_created();
}

void JointRanks::join_directory() {
  CAIRN_ASSERT(!is_primary(), "the other ranks join the directory");
  store::JoinOptions options;
  options.uuid = files_.uuid();
  options.rank = joint_->rank();
  options.look_again = [this, looks = 0]() mutable {
    std::this_thread::sleep_for(kLookAgain);
    return ++looks < kMostLooks && protocol_.commit().state() == joint::CommitState::State::running;
  };
  while (files_.target() == nullptr && !files_.find()) {  // Rank 0 has made its directory by now.
    if (!options.look_again()) {
      CAIRN_PROBE("core.directory_of_rank_0_not_seen");
      throw Error(
          Errc::not_found,
          fmt::format("rank 0 created {}, but it is not visible here: do all ranks use one shared directory?",
                      files_.path().parent_path().string()));
    }
  }
  files_.join(std::move(options));
}

std::set<std::string, std::less<>> JointRanks::shared_directories() const {
  std::set<std::string, std::less<>> directories = {std::string(store::kTablesName)};
  for (const SaveItem& item : files_.items()) {
    if (item.is_of_all_ranks()) {
      directories.insert(item.directory);
    }
  }
  return directories;
}

void JointRanks::require_announced(std::span<const io::FileDigest> digests) const {
  const io::Directory* directory = files_.directory();
  if (directory == nullptr) {
    return;
  }
  std::set<std::string, std::less<>> known;
  for (const io::FileDigest& digest : digests) {
    known.insert(digest.path);
  }
  for (const store::FileEntry& file : others_) {
    known.insert(file.path);
  }
  for (const SaveItem& item : files_.items()) {
    if (!item.is_of_all_ranks()) {
      continue;
    }
    for (const std::string& path : store::unknown_files(*directory, item.directory, known)) {
      throw Error(
          Errc::handler_failed,
          fmt::format("{}: '{}' was written by a handler that saves on all ranks, and announced on none",
                      files_.place(), path));
    }
  }
  if (others_.empty()) {
    directory->remove_empty_directory(store::kTablesName);
  }
}

void JointRanks::judge_division() {
  const std::uint64_t alone = files_.alone_bytes();
  const std::uint64_t bytes = files_.report().totals().bytes;
  if (is_primary() && alone > bytes / 2) {
    files_.add_problem(fmt::format(
        "rank 0 wrote {} of the {} bytes alone, in arrays that are not sharded; ranks share them out where "
        "rules say that all have copies (ArrayForm::replicated)",
        alone, bytes));
  }
}

Awaitable<> JointRanks::take_part() {
  switch (protocol_.act()) {
    case Act::hand_over:
      files_.staged().hand_over();
      co_return;
    case Act::vote:
      vote();
      co_return;
    case Act::hear_verdict: {
      Awaitable<> hearing = hear_verdict();
      co_await std::move(hearing);
      co_return;
    }
    case Act::ask_disk: {
      std::function<void()> decide = [this] { decide_alone(); };
      co_await operation_.run_call(std::move(decide));
      co_return;
    }
    case Act::take_back:
      files_.staged().take_back();
      co_return;
    default:
      fail_by_verdict();
  }
}

void JointRanks::vote() {
  try {
    joint_->vote(own_);
  } catch (...) {
    silence_ = std::current_exception();
    protocol_.silent();
  }
}

Awaitable<> JointRanks::hear_verdict() {
  try {
    Awaitable<joint::Verdict> told = joint_->receive_verdict();
    hear(co_await std::move(told));
  } catch (...) {
    silence_ = std::current_exception();
  }
  if (silence_) {
    protocol_.silent();
  }
}

void JointRanks::decide_alone() {
  CAIRN_ASSERT(!is_primary() && silence_ != nullptr, "a rank decides alone when it does not hear rank 0");
  if (files_.staged().decide_alone() == store::LoneVerdict::committed) {
    hear(committed());
    return;
  }
  CAIRN_PROBE("core.rank_decides_that_it_was_aborted");
  joint::Verdict verdict(joint::Ending::aborted, words_of(silence_));
  verdict.is_peer_lost = code_of(silence_) == Errc::peer_lost;
  hear(std::move(verdict));
}

void JointRanks::hear(joint::Verdict verdict) {
  verdict_ = std::move(verdict);
  protocol_.heard(verdict_->kind);
  if (verdict_->kind == joint::Ending::committed) {
    operation_.meter().end_step(Step::sync_parent);
    files_.report().set_totals({verdict_->files, verdict_->bytes});
    files_.report().measure();
  }
}

joint::Verdict JointRanks::committed() const {
  joint::Verdict verdict(joint::Ending::committed, "");
  const SaveReport::Totals totals = files_.report().totals();
  verdict.files = totals.files;
  verdict.bytes = totals.bytes;
  return verdict;
}

void JointRanks::fail_by_verdict() const {
  CAIRN_ASSERT(!is_primary(), "the verdict of rank 0 is for the others");
  if (verdict_ && verdict_->kind == joint::Ending::unknown) {
    throw Error(Errc::commit_unknown, named(verdict_->words, operation_.title()));
  }
  if (!verdict_ || operation_.is_stopped()) {
    throw Error(Errc::cancelled, operation_.title());  // Asked for on this rank: its caller is told so.
  }
  CAIRN_PROBE("core.verdict_is_aborted");
  throw Error(code_of_abortion(*verdict_), named(verdict_->words, operation_.title()));
}

bool JointRanks::may_follow(const std::exception_ptr& failure) const {
  return !is_primary() && protocol_.commit().state() == joint::CommitState::State::stopped &&
         code_of(failure) == std::errc::no_such_file_or_directory;
}

std::exception_ptr JointRanks::for_others(const std::exception_ptr& failure) const {
  const std::exception_ptr why = without_place(operation_.explain(failure), files_.place());
  return may_follow(failure) ? coord::as_following(why) : why;
}

Awaitable<std::exception_ptr> JointRanks::end(std::exception_ptr failure) {
  const bool is_told_alike = is_of_all(failure);
  joint_->fail(for_others(failure));
  return attribute(std::move(failure), is_told_alike);
}

Awaitable<std::exception_ptr> JointRanks::attribute(std::exception_ptr failure, bool is_of_all) {
  const std::optional<std::error_code> code = code_of(failure);
  const bool was_told =
      may_be_told_a_consequence_ && (async::is_cancelled(failure) || (code && coord::is_of_peer(*code)));
  if (!was_told && !may_follow(failure)) {
    co_return with_save_named(failure, operation_.title(), is_of_all);
  }
  // Rank 0 removes what it has made once it has heard of a failure. A rank may see that before it hears of the failure,
  // or before it ends because it was stopped; and others may hear of what it misses before they hear of the failure.
  if (operation_.is_stopped() && !may_be_told_a_consequence_) {
    co_return operation_.explain(nullptr);
  }
  // Rank 0 says what came first: it has heard of that before it removed anything. What stops this rank meanwhile does
  // not end the wait: it may be a mere consequence.
  co_await boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
  try {
    const joint::Verdict verdict = co_await joint_->receive_verdict();
    const std::string own = fmt::format("rank {}: ", joint_->rank());
    const std::string words = named(verdict.words, operation_.title());
    if (!std::string_view(words).substr(operation_.title().size()).starts_with(": " + own)) {
      failure = std::make_exception_ptr(Error(code_of_abortion(verdict), words));
    }
  } catch (const Error& error) {
    if (coord::is_of_peer(error.code())) {  // Rank 0 cannot be heard: it is lost, or this rank is.
      failure = std::make_exception_ptr(Error(error.code(), named(error.detail(), operation_.title())));
    }
  } catch (...) {  // No memory for what rank 0 says: this rank's own failure stays.
  }
  if (operation_.is_stopped() && !may_be_told_a_consequence_) {
    co_return operation_.explain(nullptr);
  }
  co_return failure;
}

void JointRanks::take_peer_failure(const std::exception_ptr& why) noexcept {
  // Otherwise it was handed over, or is being published: the verdict will come.
  if (protocol_.commit().stop() == joint::CommitState::State::stopped) {
    if (!is_primary() && !operation_.is_stopped() && coord::is_following(why)) {
      may_be_told_a_consequence_ = true;
    }
    operation_.stop_because(why);
  }
}

void JointRanks::refuse(joint::CommitState::State state) noexcept {
  if (state == joint::CommitState::State::stopped || !is_primary()) {
    joint_->fail(operation_.explain(nullptr));
  }
}

}  // namespace

std::unique_ptr<SaveRanks> SaveRanks::make(std::unique_ptr<joint::JointSave> joint, Parts parts) {
  if (!joint) {
    return std::make_unique<SaveRanks>();
  }
  return std::make_unique<JointRanks>(std::move(joint), parts);
}

Awaitable<std::exception_ptr> SaveRanks::end(std::exception_ptr failure) {
  co_return failure;
}

}  // namespace cairn::core
