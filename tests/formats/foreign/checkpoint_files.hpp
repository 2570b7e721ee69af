// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/formats/foreign_catalogue.hpp"

#include "formats/internal/zip.hpp"

namespace cairn::formats {

/// Files by their names.
using Files = std::map<std::string, std::string>;

[[nodiscard]] Files read_files(const std::filesystem::path& folder);

/// Reads from bytes that must stay; what is asked for beyond them fails the test.
[[nodiscard]] ReadAt reader_of(std::string_view bytes);

[[nodiscard]] ForeignCatalogue read_archive(std::string_view bytes, std::string_view path = "f");

/// Describes a distributed checkpoint; no slice is located.
[[nodiscard]] ForeignCatalogue describe_dcp(const Files& files);

/// Reads a distributed checkpoint, with all slices located.
[[nodiscard]] ForeignCatalogue read_dcp(const Files& files);

/// The elements of an array, little-endian and row-major, as the slow way finds them. An Error for arrays of more than
/// 4 Mi elements, which a damaged file may describe.
[[nodiscard]] std::string elements_of(const ForeignArray& array, const ForeignCatalogue& catalogue,
                                      const Files& files);

/// Everything that a catalogue says, by path: "<f32 [2, 3] sha256", "int 7", "list 2", "left out: a sparse tensor".
[[nodiscard]] std::map<std::string, std::string> shown(const ForeignCatalogue& catalogue, const Files& files);

/// A pickle of protocol 2 that makes a tensor of f32.
struct TensorPickle {
  std::string key = "0";
  std::string count;   ///< Opcodes; of elements.
  std::string offset;  ///< Opcodes.
  std::string shape;
  std::string strides;
  [[nodiscard]] std::string text() const;
};

/// Opcodes of a number, a text and a tuple.
[[nodiscard]] std::string pickled(std::uint64_t number);
[[nodiscard]] std::string pickled(std::string_view text);
[[nodiscard]] std::string pickled_tuple(const std::string& items);

/// Writes archives, right ones and others.
struct ArchiveMember {
  ArchiveMember(std::string name_in, std::string data_in, std::uint16_t flags_in = 0,
                std::uint16_t method_in = 0)
      : name(std::move(name_in)), data(std::move(data_in)), flags(flags_in), method(method_in) {}

  std::string name;
  std::string data;
  std::uint16_t flags;
  std::uint16_t method;
  std::string local_name;  ///< Where it is another.
  std::int64_t header_shift = 0;
  bool is_wide = false;  ///< Its numbers stand in a field of 64 bits.
  bool has_sum = true;   ///< Otherwise its CRC-32 is written as 0, as torch does it for what it skips.
};
[[nodiscard]] std::string make_archive(const std::vector<ArchiveMember>& members,
                                       std::string_view comment = {});

/// An archive of torch.save with that pickle and storages 0, 1, ….
[[nodiscard]] std::string make_torch_archive(std::string_view pickle,
                                             const std::vector<std::string>& storages = {});

}  // namespace cairn::formats
