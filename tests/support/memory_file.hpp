// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "cairn/base/error.hpp"

#include "io/internal/new_file.hpp"
#include "io/internal/stored_file.hpp"

namespace cairn::testing {

/// A stored file that lies in memory.
class StoredInMemory final : public io::StoredFile {
 public:
  explicit StoredInMemory(std::shared_ptr<const std::vector<std::byte>> bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] std::span<const std::byte> memory() const noexcept override { return *bytes_; }
  [[nodiscard]] bool is_cached() const noexcept override { return true; }
  void read_now(std::uint64_t offset, std::span<std::byte> data) const override {
    if (offset + data.size() > bytes_->size()) {
      throw Error(Errc::io_failure, "the file ends");
    }
    std::copy_n(bytes_->begin() + static_cast<std::ptrdiff_t>(offset), data.size(), data.begin());
  }
  // outlives: the caller keeps the file and the data until the task has finished.
  [[nodiscard]] Background<> read(std::uint64_t offset, std::span<std::byte> data) override {
    read_now(offset, data);
    co_return;
  }

 private:
  const std::shared_ptr<const std::vector<std::byte>> bytes_;
};

/// A new file in memory.
class NewInMemory final : public io::NewFile {
 public:
  explicit NewInMemory(std::shared_ptr<std::vector<std::byte>> bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] bool can_write_direct(const void*, std::size_t, std::uint64_t) const noexcept override {
    return false;
  }
  // outlives: the caller keeps the file and the data until the task has finished.
  [[nodiscard]] Background<> write(std::uint64_t offset, std::span<const std::byte> data) override {
    const std::lock_guard lock(mutex_);
    bytes_->resize(std::max<std::size_t>(bytes_->size(), offset + data.size()));
    std::copy(data.begin(), data.end(), bytes_->begin() + static_cast<std::ptrdiff_t>(offset));
    co_return;
  }
  [[nodiscard]] Background<> finish(std::uint64_t final_bytes) override {
    bytes_->resize(final_bytes);
    co_return;
  }

 private:
  std::mutex mutex_;
  const std::shared_ptr<std::vector<std::byte>> bytes_;
};

}  // namespace cairn::testing
