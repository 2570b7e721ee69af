// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

namespace cairn::testing {

/// Writes an archive as torch.save does: members lie at multiples of 64 bytes, with sizes and sums behind them.
class TorchArchiveWriter {
 public:
  explicit TorchArchiveWriter(std::ostream& out) : out_(out) {}

  void add(std::string_view name, std::string_view bytes);
  /// Adds what stands behind the storages, and the directory. Returns the bytes of the archive.
  std::uint64_t finish();

 private:
  struct Member {
    std::string name;
    std::uint64_t header = 0;
    std::uint64_t bytes = 0;
    std::uint32_t crc32 = 0;
  };

  void write(std::string_view bytes);

  std::ostream& out_;
  std::uint64_t written_ = 0;
  std::vector<Member> members_;
};

/// A tensor of an archive; its elements are row-major.
struct TorchTensor {
  std::string name;
  DType dtype = DType::float32;
  Shape shape;
};

/// The `data.pkl` of a map of tensors, whose storages are "0", "1" and so on; of the one tensor when it has no name.
[[nodiscard]] std::string torch_pickle(const std::vector<TorchTensor>& tensors);

/// Writes the archive of one tensor; returns its bytes.
std::uint64_t write_torch_tensor(std::ostream& out, const TorchTensor& tensor, std::string_view bytes);

/// Writes a distributed checkpoint as torch does.
class DcpWriter {
 public:
  explicit DcpWriter(std::filesystem::path folder);

  /// Adds a chunk of an array to a file. `flattened_from`, if not empty, is the shape of the array that `whole` is the
  /// flattened form of, as Megatron-Core up to 0.15 saves states of optimizers.
  void add(const std::string& file, const TorchTensor& whole, const Box& box, std::string_view bytes,
           const Shape& flattened_from = {});
  /// Adds a chunk to the description alone: its file is not written.
  void describe(const std::string& file, const TorchTensor& whole, const Box& box, std::uint64_t offset,
                std::uint64_t length);
  /// Writes `.metadata`.
  void finish();

 private:
  struct Chunk {
    Box box;
    std::string file;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };
  struct Array {
    TorchTensor whole;
    Shape flattened_from;
    std::vector<Chunk> chunks;
  };

  std::filesystem::path folder_;
  std::map<std::string, std::pair<std::ofstream, std::uint64_t>> files_;  // With how long they are.
  std::vector<Array> arrays_;
  std::map<std::string, std::size_t> numbers_;  // Of arrays.
};

}  // namespace cairn::testing
