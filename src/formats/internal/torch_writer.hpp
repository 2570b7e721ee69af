// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array/dtype.hpp"
#include "cairn/array/shape.hpp"

#include "formats/internal/pickle_writer.hpp"
#include "formats/internal/zip.hpp"

namespace cairn::formats {

/// The largest archive that is written: its directory has room below 2^63.
inline constexpr std::uint64_t kMaxArchiveBytes = std::uint64_t{1} << 62;

/// Returns why torch cannot have an array; empty where it can.
[[nodiscard]] std::string why_not_in_torch(DType dtype, const Shape& shape);

/// Writes the tensor that is all of a storage, row-major. An array of float4 is a tensor of half as many elements.
void write_tensor(PickleWriter& pickle, DType dtype, const Shape& shape, std::string_view storage_key);

/// Says where the parts of an archive of torch.save lie, before the bytes of its storages are known: those may be
/// written first, and the rest, which has their sums, behind them.
///
/// Members are stored as they are, and the bytes of each begin at a multiple of 64. Sums are 0 where this build cannot
/// compute them, as torch.serialization.set_crc32_options(False) has it.
/// Threads: not safe.
/// Source: docs/format.md, "Archives of torch.save"; APPNOTE.TXT 6.3.10 of PKWARE.
class TorchArchiveWriter {
 public:
  /// The storages have the keys "0", "1" and so on.
  ///
  /// Errors: Errc::invalid_argument when the pickle exceeds kMaxPickleBytes, or the members exceed kMaxArchiveBytes.
  TorchArchiveWriter(std::string pickle, std::span<const std::uint64_t> storage_bytes);

  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  /// Where the bytes of a storage begin in the archive.
  [[nodiscard]] std::uint64_t begin_of(std::size_t storage) const { return members_[kFirst + storage].begin; }
  /// Counts the next bytes of a storage into its sum.
  void add_to_sum(std::size_t storage, std::span<const std::byte> bytes);

  /// Gives everything but the storages, when the sums of those are complete.
  void write_rest(const std::function<void(std::uint64_t begin, std::string_view bytes)>& write) const;

 private:
  static constexpr std::size_t kFirst = 2;  // The first storage among the members.

  void add_member(std::string name, std::uint64_t bytes);
  [[nodiscard]] std::string directory() const;

  std::string pickle_;
  std::vector<ZipMember> members_;  // In the order of the file; `limit` is where the bytes end.
  std::uint64_t size_bytes_ = 0;
};

}  // namespace cairn::formats
