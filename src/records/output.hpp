// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "io/internal/replacing_file.hpp"
#include "records/layout.hpp"

namespace cairn::records {

/// Where a writer's bytes go, in order.
class Output {
 public:
  Output() = default;
  virtual ~Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  virtual void append(Bytes bytes) = 0;
  virtual void finish() = 0;
};

class StringOutput final : public Output {
 public:
  explicit StringOutput(std::string& out) : out_(out) {}

  void append(Bytes bytes) override {
    out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void finish() override {}

 private:
  std::string& out_;
};

/// Few bytes are kept until they are many; many are written from where they lie.
class FileOutput final : public Output {
 public:
  FileOutput(io::Syscalls& syscalls, const std::filesystem::path& path);

  void append(Bytes bytes) override;
  void finish() override;

 private:
  void write(Bytes bytes);

  io::ReplacingFile file_;
  std::filesystem::path path_;
  std::uint64_t written_ = 0;
  std::string kept_;
};

}  // namespace cairn::records
