// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "cairn/base/error.hpp"

#include "io/internal/stored_file.hpp"

namespace cairn::io {

/// A stored file that is mapped.
class StoredMemory final : public StoredFile {
 public:
  explicit StoredMemory(std::shared_ptr<const std::span<const std::byte>> bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] std::span<const std::byte> memory() const noexcept override { return *bytes_; }
  [[nodiscard]] bool is_cached() const noexcept override { return true; }
  void read_now(std::uint64_t offset, std::span<std::byte> data) const override {
    if (offset > bytes_->size() || data.size() > bytes_->size() - offset) {
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
  const std::shared_ptr<const std::span<const std::byte>> bytes_;
};

}  // namespace cairn::io
