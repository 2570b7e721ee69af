// SPDX-License-Identifier: Apache-2.0
#include "cairn/contract/file_stream.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "contract/file_stream.hpp"

namespace cairn {

FileStream::State::State(std::shared_ptr<contract::SaveBackend> save, std::string relative)
    : save_(std::move(save)), relative_(std::move(relative)), plane_(save_->resources().plane) {}

FileStream::State::~State() {
  if (file_) {
    plane_.drop_later(std::pair(std::move(place_), std::move(file_)));
  }
}

void FileStream::State::begin_call() {
  if (!std::exchange(is_usable_, false)) {  // Until the call has ended well: a cancelled one leaves it so.
    throw Error(Errc::closed, fmt::format("the stream of '{}'", relative_));
  }
}

Awaitable<> FileStream::State::flush() {
  co_await save_->created().wait();
  std::function<void()> work = [this] {
    if (!file_) {
      const observe::WorkSpan span(plane_.meter, Work::create, relative_, 0, 0);
      io::NewFileOptions options;
      options.use_direct = false;  // Nobody knows how large it will be.
      file_ = save_->create_file(relative_, options);
    }
    const observe::WorkSpan span(plane_.meter, Work::hash, relative_, written_bytes_, collected_.size());
    hasher_.update(collected_);
  };
  co_await plane_.run_call(std::move(work));
  {
    const observe::TransferSpan span(plane_.meter, Work::write, relative_, written_bytes_, collected_.size());
    co_await file_->write(written_bytes_, collected_);
  }
  written_bytes_ += collected_.size();
  plane_.written_bytes += collected_.size();
  collected_.clear();
}

// outlives: the caller of FileStream::write keeps the bytes until it has ended
Awaitable<> FileStream::State::append(std::shared_ptr<State> self, std::span<const std::byte> bytes) {
  self->begin_call();
  self->save_->grow(bytes.size());
  while (!bytes.empty()) {
    const std::size_t fits = std::min(bytes.size(), io::kChunkBytes - self->collected_.size());
    self->collected_.insert(self->collected_.end(), bytes.begin(),
                            bytes.begin() + static_cast<std::ptrdiff_t>(fits));
    bytes = bytes.subspan(fits);
    if (self->collected_.size() == io::kChunkBytes) {
      co_await self->flush();
    }
  }
  self->is_usable_ = true;
}

Awaitable<> FileStream::State::finish(std::shared_ptr<State> self) {
  self->begin_call();
  if (!self->file_) {
    // All at once from here on: it can wait for its turn among other files. A stream that stays open while its
    // handler does other things must not: several of them could wait for each other.
    self->place_ = co_await self->plane_.files.acquire(1);
  }
  if (!self->file_ || !self->collected_.empty()) {
    co_await self->flush();
  }
  {
    const observe::TransferSpan span(self->plane_.meter, Work::sync, self->relative_, 0,
                                     self->written_bytes_);
    co_await self->file_->finish(self->written_bytes_);
  }
  self->file_.reset();
  self->place_ = {};
  self->save_->add(self->hasher_.finish(self->relative_));
}

FileStream::FileStream(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

Background<> FileStream::write(std::span<const std::byte> bytes) const {
  return async::run_on(state_->strand(), State::append(state_, bytes));
}

Background<> FileStream::write(std::string_view text) const {
  return write(std::as_bytes(std::span(text)));
}

Background<> FileStream::finish() const {
  return async::run_on(state_->strand(), State::finish(state_));
}

}  // namespace cairn
