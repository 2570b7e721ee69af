// SPDX-License-Identifier: Apache-2.0
#include "core/internal/joint_save.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/hash.hpp"

namespace cairn::core {
namespace {

constexpr std::size_t kMostShownBytes = 200;  // Of a claim in which ranks differ.
constexpr char kDiffer = '!';
constexpr char kAgree = '=';

// Texts between ranks: numbers are little-endian, strings have their size before them.

template <class Number>
void put(std::string& text, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) {
    text += static_cast<char>(number >> (8 * i) & 0xff);
  }
}

void put_text(std::string& text, std::string_view what) {
  put(text, std::uint64_t{what.size()});
  text += what;
}

/// Takes apart what was put together on another rank.
class Parts {
 public:
  explicit Parts(std::string_view text) : text_(text) {}

  [[nodiscard]] bool empty() const noexcept { return text_.empty(); }

  template <class Number>
  Number number() {
    const std::string_view bytes = take(sizeof(Number));
    Number number = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      number |= static_cast<Number>(static_cast<Number>(static_cast<unsigned char>(bytes[i])) << (8 * i));
    }
    return number;
  }

  std::string text() { return std::string(take(number<std::uint64_t>())); }

 private:
  std::string_view take(std::uint64_t bytes) {
    if (bytes > text_.size()) {
      throw Error(Errc::malformed_metadata, "a text of another rank ends too early");
    }
    const std::string_view taken = text_.substr(0, static_cast<std::size_t>(bytes));
    text_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view text_;
};

store::Uuid uuid_of(const Hash128& job, std::uint64_t number) {
  std::string text = "cairn save";
  put(text, job.high);
  put(text, job.low);
  put(text, number);
  const Hash128 hash = hash_text(text);
  const auto fill = [&hash](std::span<std::byte> bytes) {
    std::memcpy(bytes.data(), &hash, std::min(bytes.size(), sizeof hash));
  };
  return store::make_uuid(fill);
}

std::string encode_claims(std::uint32_t rank, const JointSave::Claims& claims) {
  std::string text(1, kAgree);
  put(text, rank);
  for (const auto& [what, mine] : claims) {
    put_text(text, what);
    const bool is_long = mine.size() > kMostShownBytes;
    put_text(text, is_long
                       ? fmt::format("{}… ({})", mine.substr(0, kMostShownBytes / 2), to_hex(hash_text(mine)))
                       : mine);
  }
  return text;
}

/// The claims of one rank when all say the same, else how two of them differ.
std::string merge_claims(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text.front() == kDiffer) {
      return text;
    }
  }
  for (const std::string& text : texts) {
    Parts first(std::string_view(texts.front()).substr(1));
    Parts other(std::string_view(text).substr(1));
    const auto one = first.number<std::uint32_t>();
    const auto two = other.number<std::uint32_t>();
    while (!first.empty() && !other.empty()) {
      const std::string what = first.text();
      static_cast<void>(other.text());
      const std::string here = first.text();
      const std::string there = other.text();
      if (here != there) {
        return fmt::format("{}{}: rank {} has '{}', rank {} has '{}'", kDiffer, what, one, here, two, there);
      }
    }
    if (first.empty() != other.empty()) {
      return fmt::format("{}ranks {} and {} were called with another number of things", kDiffer, one, two);
    }
  }
  return texts.front();
}

// What is awaited is begun by then, so nothing of the save is referred to while they wait.

Awaitable<> require_agreement(std::shared_ptr<const Conversation> work, Subject subject,
                              Awaitable<std::string> merged, JointSave::Word word) {
  const std::string answer = co_await std::move(merged);
  if (answer.starts_with(kDiffer)) {
    const Error error(Errc::invalid_argument,
                      fmt::format("the ranks do not save the same: {}", std::string_view(answer).substr(1)));
    work->fail_together(error);
    throw error;
  }
  static_cast<void>(subject.broadcast(word.of_primary));
  if (word.heard) {
    word.heard(word.of_primary);
  }
}

Awaitable<> hear_agreement(Awaitable<std::string> answer, JointSave::Word word) {
  word.of_primary = co_await std::move(answer);
  if (word.heard) {
    word.heard(word.of_primary);
  }
}

Awaitable<> hear_nothing(Awaitable<std::string> text) {
  co_await std::move(text);
}

Awaitable<std::vector<store::FileEntry>> decode_votes(Awaitable<std::vector<std::string>> votes) {
  const std::vector<std::string> texts = co_await std::move(votes);
  std::vector<store::FileEntry> files;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    Parts parts(texts[rank]);
    while (!parts.empty()) {
      store::FileEntry& file = files.emplace_back();
      file.rank = static_cast<std::uint32_t>(rank);
      file.path = parts.text();
      file.size_bytes = parts.number<std::uint64_t>();
      file.root.high = parts.number<std::uint64_t>();
      file.root.low = parts.number<std::uint64_t>();
    }
  }
  co_return files;
}

Awaitable<Verdict> decode_verdict(Awaitable<std::string> text) {
  const std::string encoded = co_await std::move(text);
  Parts parts(encoded);
  Verdict verdict;
  verdict.kind = static_cast<Verdict::Kind>(parts.number<std::uint8_t>());
  verdict.is_superseded = parts.number<std::uint8_t>() != 0;
  verdict.files = parts.number<std::uint64_t>();
  verdict.bytes = parts.number<std::uint64_t>();
  verdict.words = parts.text();
  co_return verdict;
}

/// What the others are told of a failure at rank 0.
Verdict verdict_of(const std::exception_ptr& why) {
  const std::optional<std::error_code> code = code_of(why);
  Verdict verdict(code == Errc::commit_unknown ? Verdict::Kind::unknown : Verdict::Kind::aborted, "");
  verdict.is_superseded = code == Errc::superseded;
  verdict.words = fmt::format("rank 0: {}", describe(why));
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    if (error.code() == Errc::peer_failed) {
      verdict.words = error.detail();  // It names its rank.
    }
  } catch (...) {  // What it says is there already.
  }
  return verdict;
}

}  // namespace

std::unique_ptr<JointSave> JointSave::join(Coordinator& coordinator) {
  return coordinator.size() == 1 ? nullptr : std::make_unique<JointSave>(coordinator);
}

JointSave::JointSave(Coordinator& coordinator)
    : JointSave(coordinator, coordinator.join({Bond::all, Bond::above})) {}

JointSave::JointSave(const Coordinator& coordinator, std::vector<Conversation> conversations)
    : rank_(static_cast<std::uint32_t>(coordinator.rank())),
      work_(std::make_shared<Conversation>(std::move(conversations[0]))),
      last_word_(std::move(conversations[1])),
      uuid_(uuid_of(coordinator.job(), work_->number())) {
  if (!is_primary()) {
    created_ = work_->about("directory").broadcast("");
    verdict_ = last_word_.about("verdict").broadcast("");
  }
}

JointSave::~JointSave() {
  fail(std::make_exception_ptr(Error(Errc::closed, "the save was dropped")));
  leave();
}

void JointSave::fail(const std::exception_ptr& why) noexcept {
  listener_->has_failed = true;
  try {
    std::rethrow_exception(why);
  } catch (const Error& error) {
    if (error.code() == Errc::superseded) {
      work_->fail_together(error);  // It is no failure, on no rank.
    }
  } catch (...) {  // That of this rank.
  }
  work_->fail(why);
  if (is_primary()) {
    try {
      tell(verdict_of(why));
    } catch (...) {  // No memory for a sentence.
      tell(Verdict());
    }
  }
}

void JointSave::on_failure(std::function<void(const std::exception_ptr& why)> work) {
  {
    const std::lock_guard lock(listener_->mutex);
    listener_->work = std::move(work);
  }
  work_->on_failure([listener = listener_](const std::exception_ptr& why) {
    const std::lock_guard lock(listener->mutex);
    if (listener->work && !listener->has_failed) {
      listener->work(why);
    }
  });
}

void JointSave::stop_listening() noexcept {
  const std::lock_guard lock(listener_->mutex);
  listener_->work = nullptr;
}

Awaitable<> JointSave::agree(const Claims& claims, Word word) {
  Subject subject = work_->about("claims");
  Awaitable<std::string> merged = subject.reduce(encode_claims(rank_, claims), merge_claims);
  return is_primary() ? require_agreement(work_, subject, std::move(merged), std::move(word))
                      : hear_agreement(subject.broadcast(""), std::move(word));
}

void JointSave::tell_created() {
  static_cast<void>(work_->about("directory").broadcast(""));
}

Awaitable<> JointSave::hear_created() {
  return hear_nothing(std::move(*created_));
}

void JointSave::vote(std::span<const store::FileEntry> files) {
  std::string text;
  for (const store::FileEntry& file : files) {
    put_text(text, file.path);
    put(text, file.size_bytes);
    put(text, file.root.high);
    put(text, file.root.low);
  }
  static_cast<void>(work_->about("votes").gather(std::move(text)));
}

Awaitable<std::vector<store::FileEntry>> JointSave::hear_votes() {
  return decode_votes(work_->about("votes").gather(""));
}

void JointSave::tell(const Verdict& verdict) noexcept {
  if (is_told_.exchange(true)) {
    return;
  }
  try {
    std::string text;
    put(text, static_cast<std::uint8_t>(verdict.kind));
    put(text, static_cast<std::uint8_t>(verdict.is_superseded));
    put(text, verdict.files);
    put(text, verdict.bytes);
    put_text(text, verdict.words);
    static_cast<void>(last_word_.about("verdict").broadcast(std::move(text)));
  } catch (...) {  // No memory: the others let the disk decide.
    last_word_.fail(std::current_exception());
  }
}

Awaitable<Verdict> JointSave::hear_verdict() {
  return decode_verdict(std::move(*verdict_));
}

void JointSave::leave() noexcept {
  if (!has_left_.exchange(true)) {
    work_->leave_later();
    last_word_.leave_later();
  }
}

}  // namespace cairn::core
