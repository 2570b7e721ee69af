// SPDX-License-Identifier: Apache-2.0
#include "io/internal/durable_file.hpp"

#include <system_error>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/checked.hpp"
#include "base/internal/probe.hpp"
#include "io/internal/check.hpp"
#include "io/internal/direct.hpp"
#include "io/internal/mapped_file.hpp"
#include "io/internal/mapped_files.hpp"
#include "io/internal/transfer.hpp"

namespace cairn::io {

struct DurableFile::State {
  explicit State(Engine& engine_) : engine(engine_) {}

  Engine& engine;
  std::filesystem::path path;
  FileHandle buffered;
  /// The file, while it is filled where it lies; null: it is written.
  std::shared_ptr<const std::span<std::byte>> memory;
  std::shared_ptr<const void> use;  ///< Where it is written, though it is one of MappedFiles.
  FileHandle direct;                ///< A second descriptor with O_DIRECT, when the file system has it.
  std::string refusal;              ///< Why there is none, or no memory; said when it was opened.
  std::atomic<bool> is_direct{false};
  std::atomic<bool> refused_a_write{false};  ///< Although the open accepted O_DIRECT.
  std::atomic<bool> is_poisoned{false};
  std::atomic<bool> is_finished{false};
  std::atomic<std::uint64_t> direct_bytes{0};
};

namespace {

std::uintptr_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

/// Returns whether the file has blocks of its own for `size` bytes; else only that size.
bool reserve(const FileHandle& file, std::uint64_t size, const std::filesystem::path& path) {
  Syscalls& syscalls = file.syscalls();
  const int result = uninterrupted([&] { return syscalls.allocate(file.fd(), size); });
  // EPERM: a sandbox that does not know the call. Where the file itself refuses, the next call does, too.
  if (result == -EOPNOTSUPP || result == -ENOSYS || result == -EPERM) {
    CAIRN_PROBE("io.no_fallocate");
    // Without blocks of its own, but with its final size: extending writes would be serialised.
    require(uninterrupted([&] { return syscalls.truncate(file.fd(), size); }), "ftruncate", path);
    return false;
  }
  require(result, "fallocate", path);
  return true;
}

/// The part of a write that may go past the page cache: `[begin, end)` within its data.
struct DirectPart {
  std::size_t begin = 0;
  std::size_t end = 0;
};

DirectPart direct_part(const std::byte* data, std::size_t size, std::uint64_t offset) {
  const auto head = static_cast<std::size_t>(round_up(offset, std::uint64_t{kDirectBytes}) - offset);
  CAIRN_ASSERT(head < kDirectBytes, "no more than a block lies before the first boundary of a block");
  if (head >= size || address_of(data + head) % kDirectBytes != 0) {
    return {};
  }
  return {head, head + (size - head) / kDirectBytes * kDirectBytes};
}

}  // namespace

void DurableFile::put(const State& state, std::uint64_t offset, std::span<const std::byte> data) {
  const std::span<std::byte> memory = *state.memory;
  if (offset > memory.size() || data.size() > memory.size() - offset) {
    throw_errno(EFBIG, "write", state.path);
  }
  std::byte* const place = memory.data() + offset;
  CAIRN_ASSERT(place >= memory.data() && place + data.size() <= memory.data() + memory.size(),
               "what is put lies within the file's memory");
  if (place != data.data()) {
    std::copy(data.begin(), data.end(), place);
  }
}

DurableFile::DurableFile(std::shared_ptr<State> state) : state_(std::move(state)) {}

DurableFile DurableFile::create(Engine& engine, const Directory& directory, std::string_view relative,
                                NewFileOptions options) {
  auto state = std::make_shared<State>(engine);
  state->path = directory.path() / relative;
  state->buffered = directory.create_file(relative, 0, options.mode);
  const std::uint64_t expected = options.expected_bytes;
  const bool is_large =
      options.use_direct && !options.is_filled_in_place && expected >= options.min_direct_bytes;
  if (is_large) {
    state->direct = open_direct(directory, relative, state->buffered, state->refusal);
    state->is_direct = state->direct.is_open();
  }
  if (expected > static_cast<std::uint64_t>(INT64_MAX) - kDirectBytes) {
    throw_errno(EFBIG, "fallocate", state->path);
  }
  if (expected > 0) {
    // Whole pages, so that a padded last write does not extend the file.
    const bool is_reserved =
        reserve(state->buffered,
                state->is_direct ? round_up(expected, std::uint64_t{kDirectBytes}) : expected, state->path);
    if (options.is_filled_in_place && is_reserved) {
      fill_in_place(*state, options);
    }
  }
  CAIRN_ASSERT(!state->memory || state->memory->size() == expected,
               "a file that is filled in place has the size that was expected");
  return DurableFile(std::move(state));
}

DurableFile DurableFile::reuse(Engine& engine, FileHandle file, std::filesystem::path path,
                               const NewFileOptions& options) {
  auto state = std::make_shared<State>(engine);
  state->path = std::move(path);
  state->buffered = std::move(file);
  fill_in_place(*state, options);
  return DurableFile(std::move(state));
}

void DurableFile::fill_in_place(State& state, const NewFileOptions& options) {
  const std::uint64_t bytes = options.expected_bytes;
  CAIRN_ASSERT(!state.memory, "a file is mapped once");
  if (options.mappings == nullptr) {
    state.memory = map_to_fill(state.buffered, bytes, state.refusal);
  } else {
    state.memory = options.mappings->map(state.buffered, bytes, state.path, options.pin, state.refusal);
    if (state.memory->empty()) {
      state.use = std::exchange(state.memory, nullptr);
    }
  }
  if (state.memory) {
    require(state.buffered.close(), "close", state.path);  // There may be a thousand such files.
  }
}

bool DurableFile::is_direct() const noexcept {
  return state_->is_direct;
}

std::string DurableFile::why_not_direct() const {
  return state_->refused_a_write ? io::why_not_direct(std::error_code(EINVAL, std::system_category()))
                                 : state_->refusal;
}

std::uint64_t DurableFile::direct_bytes() const noexcept {
  return state_->direct_bytes;
}

std::span<std::byte> DurableFile::memory() const noexcept {
  return state_->memory ? *state_->memory : std::span<std::byte>();
}

bool DurableFile::can_write_direct(const void* data, std::size_t size, std::uint64_t offset) const noexcept {
  return is_direct() && size > 0 && (address_of(data) | size | offset) % kDirectBytes == 0;
}

Background<> DurableFile::write(std::uint64_t offset, std::span<const std::byte> data) {
  return run_write(state_, offset, data);
}

Background<> DurableFile::finish(std::uint64_t final_bytes) {
  return run_finish(state_, final_bytes);
}

// outlives: the caller of `write` keeps the data until the task has finished.
Background<> DurableFile::run_write(std::shared_ptr<State> state, std::uint64_t offset,
                                    std::span<const std::byte> data) {
  if (state->is_finished) {
    throw Error(Errc::closed, fmt::format("write {}", state->path.string()));
  }
  CAIRN_ASSERT(state->memory || state->buffered.is_open(),
               "a file that is not finished has memory or a descriptor");
  if (state->memory) {
    put(*state, offset, data);
    co_return;
  }
  DirectPart part = state->is_direct ? direct_part(data.data(), data.size(), offset) : DirectPart{};
  CAIRN_ASSERT(part.begin <= part.end && part.end <= data.size(),
               "the part that goes past the page cache lies within the write");
  std::exception_ptr failure;
  try {
    if (part.begin < part.end) {
      CAIRN_ASSERT(state->direct.is_open(), "a write past the page cache has a descriptor for that");
      CAIRN_ASSERT((offset + part.begin) % kDirectBytes == 0,
                   "a write past the page cache begins at a block of the file");
      co_await write_exact(state->engine, state->direct.fd(), data.subspan(part.begin, part.end - part.begin),
                           offset + part.begin, state->path, kDirectBytes);
      state->direct_bytes += part.end - part.begin;
    }
  } catch (const Error& error) {
    if (!is_direct_refusal(error.code())) {
      failure = std::current_exception();
    }
    // Refused: the open accepted O_DIRECT, but a write does not. No page of the cache holds this range, so
    // writing it through the cache is as good; the pieces that did go out are written again.
    CAIRN_PROBE("io.direct_write_refused");
    state->is_direct = false;
    state->refused_a_write = true;
    part = {};
  }
  try {
    if (!failure && part.begin > 0) {
      co_await write_exact(state->engine, state->buffered.fd(), data.first(part.begin), offset, state->path);
    }
    if (!failure && part.end < data.size()) {
      co_await write_exact(state->engine, state->buffered.fd(), data.subspan(part.end), offset + part.end,
                           state->path);
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    state->is_poisoned = true;
    std::rethrow_exception(failure);
  }
}

Background<> DurableFile::run_finish(std::shared_ptr<State> state, std::uint64_t final_bytes) {
  if (state->is_finished.exchange(true)) {
    throw Error(Errc::closed, fmt::format("finish {}", state->path.string()));
  }
  if (state->is_poisoned) {
    CAIRN_PROBE("io.finish_of_poisoned_file");
    throw Error(Errc::io_failure, fmt::format("finish {}: an earlier write failed", state->path.string()));
  }
  if (state->memory) {  // There is no disk that it could miss.
    CAIRN_ASSERT(!state->buffered.is_open(), "a file that is filled where it lies keeps no descriptor");
    if (final_bytes != state->memory->size()) {
      throw Error(Errc::io_failure, fmt::format("finish {}: it has {} bytes, not {}", state->path.string(),
                                                state->memory->size(), final_bytes));
    }
    state->memory.reset();
    co_return;
  }
  // The size first: fdatasync covers it. All data has arrived before the sync is asked for, because
  // neither engine orders a sync after the writes that are in flight.
  FileStatus status;
  require(uninterrupted([&] { return state->buffered.syscalls().status(state->buffered.fd(), status); }),
          "stat", state->path);
  if (status.size_bytes != final_bytes) {
    require(
        uninterrupted([&] { return state->buffered.syscalls().truncate(state->buffered.fd(), final_bytes); }),
        "ftruncate", state->path);
  }
  CAIRN_ASSERT(!state->is_poisoned, "a file whose write has failed is never synced");
  co_await sync_data(state->engine, state->buffered.fd(), state->path);
  const int direct_result = state->direct.close();
  const int buffered_result = state->buffered.close();
  require(direct_result, "close", state->path);
  require(buffered_result, "close", state->path);
}

}  // namespace cairn::io
