// SPDX-License-Identifier: Apache-2.0
#include "cairn/coord/conversation.hpp"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/opinions.hpp"
#include "coord/exchanges.hpp"

namespace cairn {
namespace {

using coord::Exchange;
using coord::RankedText;
using coord::Step;

constexpr std::size_t kMostShownBytes = 100;  // Of a text on which ranks do not agree.

Awaitable<std::vector<std::string>> texts_of(std::shared_ptr<Step> step) {
  co_await step->done.wait();
  std::vector<std::string> texts;
  for (RankedText& each : step->texts) {
    texts.push_back(std::move(each.second));
  }
  co_return texts;
}

Awaitable<std::string> text_of(std::shared_ptr<Step> step) {
  co_await step->done.wait();
  co_return std::move(step->text);
}

Awaitable<std::string> merged_text_of(std::shared_ptr<Step> step, bool is_root) {
  co_await step->done.wait();
  co_return is_root ? std::move(step->text) : std::string();
}

/// Who says what; empty when all say the same.
std::string difference_in(std::string_view merged) {
  std::vector<Opinion> opinions = decode_opinions(merged);
  if (opinions.size() < 2) {
    return {};
  }
  std::vector<std::string> shown;
  shown.reserve(opinions.size());  // They stay where they are.
  for (Opinion& opinion : opinions) {
    const bool is_long = opinion.says.size() > kMostShownBytes;
    shown.push_back(fmt::format("'{}{}'", opinion.says.substr(0, kMostShownBytes), is_long ? "…" : ""));
    opinion.says = shown.back();
  }
  return to_string(opinions);
}

Awaitable<Told> told_of(std::shared_ptr<coord::Hearing> hearing) {
  co_await hearing->done.wait();
  co_return std::move(hearing->told);
}

/// As the failure of the conversation it is heard by all, also by those that are slower than a rank that ends because of it.
[[noreturn]] void refuse(Exchange& exchange, const Error& why) {
  exchange.fail_together(why);
  if (const std::exception_ptr failure = exchange.failure()) {
    std::rethrow_exception(failure);
  }
  throw why;  // This rank has left.
}

Awaitable<> agree_on(std::shared_ptr<Exchange> exchange, std::string subject, std::uint32_t next,
                     std::string what, std::shared_ptr<Step> up) {
  co_await up->done.wait();
  if (exchange->rank() == 0) {
    const std::string difference = difference_in(up->text);
    if (!difference.empty()) {
      refuse(*exchange, Error(Errc::invalid_argument, fmt::format("{}: {}", what, difference)));
    }
  }
  const std::shared_ptr<Step> down = exchange->begin_down(subject, next, "");
  co_await down->done.wait();
}

void leave_and_forget(Exchange& exchange, const std::weak_ptr<coord::Exchanges>& exchanges) noexcept {
  if (exchange.leave()) {
    if (const auto all = exchanges.lock()) {
      all->forget(exchange.number());
    }
  }
}

}  // namespace

Subject::Subject(std::shared_ptr<Exchange> exchange, std::string name)
    : exchange_(std::move(exchange)), name_(std::move(name)) {}

std::size_t Subject::rank() const noexcept {
  return exchange_->rank();
}

Awaitable<std::vector<std::string>> Subject::gather(std::string mine) {
  return texts_of(exchange_->begin_up(name_, next_step_++, std::move(mine), {}));
}

Awaitable<std::string> Subject::reduce(std::string mine, Merge merge) {
  return merged_text_of(exchange_->begin_up(name_, next_step_++, std::move(mine), std::move(merge)),
                        exchange_->rank() == 0);
}

Awaitable<std::string> Subject::broadcast(std::string text) {
  return text_of(exchange_->begin_down(name_, next_step_++, std::move(text)));
}

Awaitable<std::string> Subject::scatter(std::vector<std::string> by_rank) {
  if (exchange_->rank() == 0 && by_rank.size() != exchange_->size()) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} texts for the {} ranks of '{}'", by_rank.size(), exchange_->size(), name_));
  }
  return text_of(exchange_->begin_parts(name_, next_step_++, std::move(by_rank)));
}

Awaitable<> Subject::agree(std::string what, std::string mine) {
  Opinion own;
  own.ranks.add(exchange_->rank());
  own.says = mine;
  std::shared_ptr<Step> up =
      exchange_->begin_up(name_, next_step_++, encode_opinions({&own, 1}), merge_encoded_opinions);
  return agree_on(exchange_, name_, next_step_++, std::move(what), std::move(up));
}

void Subject::refuse_together(const Error& why) const {
  refuse(*exchange_, why);
}

void Subject::tell(std::span<const std::size_t> ranks, std::string_view text,
                   std::span<const std::byte> data) const {
  exchange_->tell(name_, ranks, text, data);
}

Awaitable<Told> Subject::hear() const {
  return told_of(exchange_->hear(name_));
}

Conversation::Conversation(std::shared_ptr<Exchange> exchange, std::weak_ptr<coord::Exchanges> exchanges)
    : exchange_(std::move(exchange)), exchanges_(std::move(exchanges)) {}

Conversation::~Conversation() {
  if (exchange_ && !leaves_later_) {
    fail(std::make_exception_ptr(Error(Errc::closed, "the conversation was dropped")));
    leave();
  }
}

std::uint64_t Conversation::number() const noexcept {
  return exchange_->number();
}

Subject Conversation::about(std::string_view name) const {
  return {exchange_, std::string(name)};
}

void Conversation::fail(const std::exception_ptr& why) const noexcept {
  exchange_->fail(why);
}

void Conversation::fail_together(const Error& why) const noexcept {
  exchange_->fail_together(why);
}

Awaitable<> Conversation::failed() const {
  return exchange_->failed().wait();
}

std::exception_ptr Conversation::failure() const {
  return exchange_->failure();
}

void Conversation::on_failure(std::function<void(const std::exception_ptr& why)> work) const {
  exchange_->failed().on_complete(std::move(work));
}

SomeRanks Conversation::missing() const {
  return exchange_->missing();
}

void Conversation::leave_later() noexcept {
  try {
    // The last step that ends leaves: until then each shares `last`.
    const auto end = [exchange = exchange_, exchanges = exchanges_](std::nullptr_t) {
      leave_and_forget(*exchange, exchanges);
    };
    const std::shared_ptr<void> last(nullptr, end);
    leaves_later_ = true;
    for (const auto& step : exchange_->open_steps()) {
      step->done.on_complete([last](const std::exception_ptr&) {});
    }
  } catch (...) {  // No memory: what this rank would have passed on is lost, and nobody waits for it.
    leave();
  }
}

void Conversation::leave() noexcept {
  leave_and_forget(*exchange_, exchanges_);
}

}  // namespace cairn
