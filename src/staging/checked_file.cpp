// SPDX-License-Identifier: Apache-2.0
#include "staging/internal/checked_file.hpp"

#include <algorithm>
#include <utility>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"

namespace cairn::staging {
namespace {

/// Below this, opening a file a second time costs more than passing the page cache by saves.
constexpr std::uint64_t kMinDirectBytes = std::uint64_t{8} << 20;

/// The same where less than this is read, however large the file is.
constexpr std::uint64_t kMinDirectRead = std::uint64_t{1} << 20;

}  // namespace

CheckedFile::CheckedFile(DataPlane& plane, FileToRead file, std::uint64_t asked_bytes)
    : plane_(plane), file_(std::move(file)), asked_bytes_(asked_bytes) {}

CheckedFile::~CheckedFile() {
  if (stored_) {
    plane_.drop_later(std::pair(std::move(place_), std::move(stored_)));
  }
}

Awaitable<> CheckedFile::acquire_descriptors() {
  place_ = co_await plane_.files.acquire(descriptors());
}

void CheckedFile::open() {
  CAIRN_ASSERT(!stored_, "a file is opened once");
  try {
    stored_ = file_.open(plane_.engine, wants_direct());
    if (file_.digest) {
      digest_ = file_.digest();
    }
  } catch (const Error& error) {
    throw Error(error.code(), error.detail() + file_.origin);
  }
}

void CheckedFile::close() {
  CAIRN_ASSERT(stored_ != nullptr, "a file that is closed was opened");
  plane_.meter.add_direct_bytes(stored_->direct_bytes());
  if (const std::string why = stored_->why_not_direct(); !why.empty()) {
    CAIRN_PROBE("staging.read_through_the_page_cache");
    plane_.meter.add_fallback(why + "; read through the page cache", file_.name);
  }
  stored_.reset();
  place_.release();
}

bool CheckedFile::wants_direct() const noexcept {
  return file_.size_bytes >= kMinDirectBytes && asked_bytes_ >= kMinDirectRead;
}

bool CheckedFile::has_hashes(std::uint64_t first, std::span<const std::uint64_t> hashes) const {
  CAIRN_ASSERT(!digest_ || first + hashes.size() <= digest_->chunks.size(),
               "the hashes that are compared are those of the file");
  return !digest_ || std::equal(hashes.begin(), hashes.end(),
                                digest_->chunks.begin() + static_cast<std::ptrdiff_t>(first));
}

std::uint64_t CheckedFile::unit_bytes() const noexcept {
  return digest_ ? io::kChunkBytes : stored_->unit_bytes();
}

bool CheckedFile::needs_buffer(std::uint64_t offset_bytes, std::span<const std::byte> data) const noexcept {
  const std::size_t unit = stored_->unit_bytes();
  return (offset_bytes | data.size()) % unit == 0 &&
         reinterpret_cast<std::uintptr_t>(data.data()) % unit != 0;
}

// outlives: `data` is the caller's, who awaits this
Awaitable<> CheckedFile::read(std::uint64_t offset_bytes, std::span<std::byte> data) {
  CAIRN_ASSERT(stored_ != nullptr, "a file is open while it is read");
  CAIRN_ASSERT(offset_bytes + data.size() <= file_.size_bytes, "no read goes beyond the file");
  const async::Permit turn = co_await plane_.transfers.acquire();
  const observe::TransferSpan span(plane_.meter, Work::read, file_.name, offset_bytes, data.size());
  co_await stored_->read(offset_bytes, data);
  plane_.read_bytes += data.size();
}

void CheckedFile::read_now(std::uint64_t offset_bytes, std::span<std::byte> data) const {
  CAIRN_ASSERT(stored_ != nullptr, "a file is open while it is read at once");
  CAIRN_ASSERT(offset_bytes + data.size() <= file_.size_bytes, "no read at once goes beyond the file");
  {
    const observe::WorkSpan span(plane_.meter, Work::read, file_.name, offset_bytes, data.size());
    stored_->read_now(offset_bytes, data);
  }
  plane_.cached_bytes += data.size();
  plane_.read_bytes += data.size();
}

void CheckedFile::verify(std::uint64_t offset_bytes, std::span<const std::byte> data) const {
  if (!digest_) {
    return;
  }
  const observe::WorkSpan span(plane_.meter, Work::verify, file_.name, offset_bytes, data.size());
  try {
    io::verify_chunks(file_.path.string(), offset_bytes, data, *digest_);
  } catch (const Error& error) {
    CAIRN_PROBE("staging.damaged_chunk");
    throw Error(error.code(), error.detail() + file_.origin);
  }
}

}  // namespace cairn::staging
