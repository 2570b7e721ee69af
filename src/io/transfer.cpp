// SPDX-License-Identifier: Apache-2.0
#include "io/internal/transfer.hpp"

#include <system_error>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "async/internal/sleep.hpp"
#include "async/internal/suspend.hpp"
#include "base/internal/assert.hpp"
#include "base/internal/mutex.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"

namespace cairn::io {
namespace {

constexpr std::size_t kWindow =
    16;  // Pieces in flight per transfer: enough for the bandwidth of an NVMe drive.
constexpr int kMostEmptyWrites = 3;

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::read:
      return "read";
    case Operation::write:
      return "write";
    case Operation::sync_data:
      return "fdatasync";
  }
  return "transfer";
}

/// Holds what a transfer moves, and where.
struct Span {
  Operation operation;
  int fd;
  std::byte* data;
  std::size_t size;
  std::uint64_t offset;
  std::size_t alignment_bytes;
};

/// One transfer as a state machine on the engine's threads: no coroutine is resumed before the last piece is in, or put
/// off by the kernel.
///
/// Keeps itself alive while a request is in flight, even when the coroutine that waits for it is destroyed.
class Transfer : public std::enable_shared_from_this<Transfer> {
 public:
  /// Takes all the memory that the transfer needs.
  Transfer(Engine& engine, Span span, std::filesystem::path path)
      : engine_(engine), span_(span), path_(std::move(path)), pieces_(pieces_of(span)) {}

  void start(async::Resume resume) {
    if (pieces_.empty()) {
      resume();
      return;
    }
    resume_.emplace(std::move(resume));
    const auto keep = shared_from_this();  // The pieces may all be in before the loop ends.
    expect(pieces_.size(), keep);
    for (Piece& piece : pieces_) {
      piece.transfer = this;
      piece.done = &Transfer::on_done;
      piece.operation = span_.operation;
      piece.fd = span_.fd;
      piece.is_direct = span_.alignment_bytes > 1;
      advance(piece);
    }
  }

  /// How long to wait before `go_on`; nothing when the transfer is over. No request is in flight meanwhile.
  [[nodiscard]] std::optional<std::chrono::microseconds> pause() const {
    std::optional<std::chrono::microseconds> longest;
    for (const Piece& piece : pieces_) {
      if (piece.is_put_off) {
        longest = std::max(longest.value_or(pause_before(0)), pause_before(piece.attempts));
      }
    }
    return longest;
  }

  /// Asks once more for the pieces that were put off.
  void go_on(async::Resume resume) {
    resume_.emplace(std::move(resume));
    const auto keep = shared_from_this();
    auto left = static_cast<std::size_t>(
        std::count_if(pieces_.begin(), pieces_.end(), [](const Piece& piece) { return piece.is_put_off; }));
    CAIRN_ASSERT(left > 0, "a transfer goes on for pieces that were put off");
    expect(left, keep);
    for (Piece& piece : pieces_) {
      if (piece.is_put_off) {
        piece.is_put_off = false;
        const bool is_last = --left == 0;
        engine_.submit(piece);
        if (is_last) {
          return;  // They may all be in, and the next `go_on` at work.
        }
      }
    }
  }

 private:
  struct Piece : Request {
    Transfer* transfer = nullptr;
    int attempts = 0;      // Since the last progress.
    int empty_writes = 0;  // Likewise.
    bool is_put_off = false;
  };

  static std::size_t pieces_of(const Span& span) noexcept {
    return span.operation == Operation::sync_data
               ? 1
               : std::min(kWindow, (span.size + kPieceBytes - 1) / kPieceBytes);
  }

  static void on_done(Request& request, std::int64_t result) noexcept {
    auto& piece = static_cast<Piece&>(request);
    piece.transfer->handle(piece, result);
  }

  void handle(Piece& piece, std::int64_t result) noexcept {
    if (span_.operation == Operation::sync_data) {
      finish_piece(piece, result < 0 ? static_cast<int>(-result) : 0);
      return;
    }
    if (result < 0) {
      const bool is_passing = result == -EINTR || result == -EAGAIN;
      if (is_passing && ++piece.attempts < kMostTransferAttempts) {
        if (result == -EAGAIN && pause_before(piece.attempts).count() != 0) {
          CAIRN_PROBE("io.transfer_put_off");
          piece.is_put_off = true;
          finish_piece(piece, 0);
        } else {
          engine_.submit(piece);
        }
      } else {
        finish_piece(piece, static_cast<int>(-result));
      }
      return;
    }
    std::size_t moved = std::min(static_cast<std::size_t>(result), piece.size);
    CAIRN_ASSERT(span_.alignment_bytes > 0, "pieces are aligned to a byte at least");
    if (moved < piece.size) {
      moved -= moved % span_.alignment_bytes;  // O_DIRECT can only go on from a boundary.
    }
    if (moved == 0) {
      const bool is_hopeless = result == 0 && span_.operation == Operation::read;  // The end of the file.
      if (!is_hopeless && ++piece.empty_writes < kMostEmptyWrites) {
        CAIRN_PROBE("io.empty_write_repeated");
        engine_.submit(piece);
      } else {
        finish_piece(piece, kNothingMoved);
      }
      return;
    }
    CAIRN_ASSERT(moved <= piece.size, "a piece moves no more than it has");
    piece.data += moved;
    piece.size -= moved;
    piece.offset += moved;
    piece.attempts = piece.empty_writes = 0;
    if (piece.size > 0) {
      engine_.submit(piece);
    } else {
      advance(piece);
    }
  }

  /// So many pieces are under way from now on; the last of them drops `self`.
  void expect(std::size_t pieces, std::shared_ptr<Transfer> self) {
    const MutexLock lock(mutex_);
    CAIRN_ASSERT(active_ == 0 && self_ == nullptr, "a transfer is under way once");
    active_ = pieces;
    self_ = std::move(self);
  }

  /// Gives the piece the next part of the transfer; when there is none, or one has failed, the piece ends.
  void advance(Piece& piece) noexcept {
    {
      const MutexLock lock(mutex_);
      const bool is_sync = span_.operation == Operation::sync_data;
      CAIRN_ASSERT(next_ <= span_.size, "no piece lies beyond the transfer");
      if (error_ != 0 || (!is_sync && next_ == span_.size)) {
        piece.size = 0;
      } else {
        piece.size = std::min(kPieceBytes, span_.size - next_);
        piece.data = span_.data + next_;
        piece.offset = span_.offset + next_;
        next_ += piece.size;
      }
    }
    if (piece.size > 0 || (span_.operation == Operation::sync_data)) {
      engine_.submit(piece);
    } else {
      finish_piece(piece, 0);
    }
  }

  void finish_piece(Piece& piece, int error) noexcept {
    std::shared_ptr<Transfer> self;
    std::uint64_t offset = 0;
    {
      const MutexLock lock(mutex_);
      CAIRN_ASSERT(active_ > 0, "a piece ends once");
      if (error != 0 && error_ == 0) {
        error_ = error;
        error_offset_ = piece.offset;
      }
      if (--active_ > 0) {
        return;
      }
      self = std::move(self_);
      error = error_;
      offset = error_offset_;
    }
    CAIRN_ASSERT(resume_.has_value(), "whoever waits for a transfer is resumed once");
    const async::Resume resume = *std::exchange(resume_, std::nullopt);
    std::exception_ptr failed;
    try {
      failed = failure(error, offset);
    } catch (...) {
      CAIRN_PROBE("io.no_memory_for_a_failure");
      failed = std::current_exception();  // No memory for the words.
    }
    resume(std::move(failed));  // The waiting coroutine may already run on another thread.
  }

  [[nodiscard]] std::exception_ptr failure(int error, std::uint64_t offset) const {
    if (error == 0) {
      return nullptr;
    }
    if (error == kNothingMoved) {
      const bool is_read = span_.operation == Operation::read;
      return std::make_exception_ptr(Error(
          Errc::io_failure, fmt::format("{} {} at {}: {}", name_of(span_.operation), path_.string(), offset,
                                        is_read ? "the file ends here" : "nothing was written")));
    }
    const std::string detail =
        span_.operation == Operation::sync_data
            ? fmt::format("fdatasync {}", path_.string())
            : fmt::format("{} {} at {}", name_of(span_.operation), path_.string(), offset);
    return std::make_exception_ptr(Error(std::error_code(error, std::system_category()), detail));
  }

  static constexpr int kNothingMoved = -1;  // No errno: the kernel reported success and moved no byte.

  Engine& engine_;
  const Span span_;
  const std::filesystem::path path_;
  std::optional<async::Resume> resume_;
  std::vector<Piece> pieces_;

  Mutex mutex_;
  std::size_t next_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::size_t active_ CAIRN_GUARDED_BY(mutex_) = 0;
  int error_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::uint64_t error_offset_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<Transfer> self_ CAIRN_GUARDED_BY(mutex_);
};

Background<> run(std::shared_ptr<Transfer> transfer) {
  async::Start start = [transfer](async::Resume resume) { transfer->start(std::move(resume)); };
  co_await async::suspend(std::move(start));
  while (const auto pause = transfer->pause()) {
    co_await async::sleep_for(*pause);
    async::Start go_on = [transfer](async::Resume resume) { transfer->go_on(std::move(resume)); };
    co_await async::suspend(std::move(go_on));
  }
}

}  // namespace

Background<> write_exact(Engine& engine, int fd, std::span<const std::byte> data, std::uint64_t offset,
                         std::filesystem::path path, std::size_t alignment_bytes) {
  // A request has one kind of pointer; a write only reads through it.
  const Span span{Operation::write, fd,     const_cast<std::byte*>(data.data()),
                  data.size(),      offset, alignment_bytes};
  return run(std::make_shared<Transfer>(engine, span, std::move(path)));
}

Background<> read_exact(Engine& engine, int fd, std::span<std::byte> data, std::uint64_t offset,
                        std::filesystem::path path, std::size_t alignment_bytes) {
  const Span span{Operation::read, fd, data.data(), data.size(), offset, alignment_bytes};
  return run(std::make_shared<Transfer>(engine, span, std::move(path)));
}

Background<> sync_data(Engine& engine, int fd, std::filesystem::path path) {
  const Span span{Operation::sync_data, fd, nullptr, 0, 0, 1};
  return run(std::make_shared<Transfer>(engine, span, std::move(path)));
}

}  // namespace cairn::io
