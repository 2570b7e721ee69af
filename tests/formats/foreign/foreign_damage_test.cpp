// SPDX-License-Identifier: Apache-2.0
// Files of torch cut at every length and with every byte flipped, of which one in sixteen is taken (see sampling.hpp):
// an error, the same values, or a sum of the archive that says that they are not.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cairn/base/error.hpp"

#include "formats/fixtures.hpp"
#include "formats/foreign/checkpoint_files.hpp"
#include "formats/internal/torch_archive.hpp"
#include "support/sampling.hpp"
#include "support/sanitizer.hpp"
#include "support/temp_dir.hpp"

namespace cairn::formats {
namespace {

using Lines = std::map<std::string, std::string>;

constexpr std::size_t kMostBytes = 8192;
constexpr std::uint64_t kOneIn = testing::kHasSanitizer ? 256 : 16;

/// Returns what is read; nothing when that fails with an error of ours. Anything else fails the test.
using Read = std::function<std::optional<Lines>(const std::string& bytes)>;

struct DamageCounts {
  std::size_t tried = 0, refused = 0, other_values = 0;
};

/// Returns whether every sum of an archive is that of its member, as far as anybody can tell.
bool has_right_sums(const std::string& bytes) {
  const TorchArchive archive = open_torch_archive(reader_of(bytes), bytes.size(), "f");
  return std::all_of(
      archive.directory.members.begin(), archive.directory.members.end(), [&](const ZipMember& member) {
        const std::string_view data = std::string_view(bytes).substr(member.begin, member.size);
        return member.has_sum() && update_crc32(0, as_bytes(data)) == member.crc32;
      });
}

std::optional<Lines> read_lines_of(const std::string& bytes) {
  try {
    return shown(read_archive(bytes), {{"f", bytes}});
  } catch (const Error&) {
    return std::nullopt;
  }
}

DamageCounts damage(const std::string& good, const Read& read,
                    const std::function<bool(const std::string&)>& is_vouched_for) {
  DamageCounts counts;
  const testing::Sample sample(kOneIn);
  const std::optional<Lines> wanted = read(good);
  const auto judge = [&](const std::string& bytes) {
    const std::optional<Lines> lines = read(bytes);
    ++counts.tried;
    counts.refused += lines ? 0 : 1;
    if (lines && lines != wanted && is_vouched_for(bytes)) {
      ++counts.other_values;
    }
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    if (sample.takes(at)) {
      judge(good.substr(0, at));
      std::string flipped = good;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
      judge(flipped);
      flipped[at] = static_cast<char>(~good[at]);
      judge(flipped);
    }
  }
  return counts;
}

TEST(ForeignDamage, OfArchivesGivesAnErrorTheSameValuesOrAWrongSum) {
  DamageCounts all;
  for (const char* folder : {"torch", "torch_more", "megatron/flat_tp2_dp3"}) {
    for (const auto& [name, bytes] : read_files(data_path(folder))) {
      if (!name.ends_with(".pt") || bytes.size() > kMostBytes) {
        continue;
      }
      const bool has_sums = name != "no_crc.pt" && can_compute_crc32();
      const DamageCounts counts = damage(bytes, read_lines_of, [&](const std::string& damaged) {
        return has_sums && has_right_sums(damaged);
      });
      EXPECT_EQ(counts.other_values, 0u) << name;
      all.tried += counts.tried;
      all.refused += counts.refused;
    }
  }
  EXPECT_GT(all.tried, 100u);
  fmt::print("damage: archives: {} tried, {} refused (seed {})\n", all.tried, all.refused, testing::seed());
}

/// Returns where in `file` the archives of a distributed checkpoint lie.
std::vector<FileRange> parts_of(const Files& files, const std::string& file) {
  std::vector<FileRange> parts;
  const ForeignCatalogue catalogue = describe_dcp(files);
  const auto add = [&](const FileRange& range) {
    if (catalogue.files[range.file] == file) {
      parts.push_back(range);
    }
  };
  for (const ForeignArray& array : catalogue.arrays) {
    for (const ForeignSlice& slice : array.slices) {
      add(slice.range);
    }
  }
  for (const ForeignObject& object : catalogue.objects) {
    add(object.range);
  }
  return parts;
}

Lines elements_of_all(const Files& files) {
  Lines lines;
  const ForeignCatalogue catalogue = read_dcp(files);
  for (const ForeignArray& array : catalogue.arrays) {
    lines[array.path] = elements_of(array, catalogue, files);
  }
  return lines;
}

TEST(ForeignDamage, OfDistributedCheckpointsGivesAnErrorTheSameValuesOrAWrongSum) {
  DamageCounts all;
  for (const char* folder : {"torch/dcp", "torch_more/fsdp2", "torch_more/plain", "torch_more/per_rank",
                             "torch_more/zstd", "megatron/tp2_pp2", "megatron/flat_tp2_dp3"}) {
    const Files good = read_files(data_path(folder));
    for (const auto& [name, bytes] : good) {
      const bool is_metadata = name.ends_with("metadata");
      if (!is_metadata && (bytes.size() > kMostBytes || !name.ends_with(".distcp"))) {
        continue;
      }
      const Read read = [&, file = name](const std::string& damaged) -> std::optional<Lines> {
        Files files = good;
        files[file] = damaged;
        try {
          return elements_of_all(files);
        } catch (const Error&) {
          return std::nullopt;
        }
      };
      const std::vector<FileRange> parts = parts_of(good, name);
      // No sum vouches for `.metadata`: what it then says may be other arrays, in the bounds of their files.
      const DamageCounts counts = damage(bytes, read, [&](const std::string& damaged) {
        return !is_metadata && can_compute_crc32() &&
               std::all_of(parts.begin(), parts.end(), [&](const FileRange& part) {
                 return has_right_sums(damaged.substr(part.begin, part.end - part.begin));
               });
      });
      EXPECT_EQ(counts.other_values, 0u) << folder << "/" << name;
      all.tried += counts.tried;
      all.refused += counts.refused;
    }
  }
  EXPECT_GT(all.tried, 100u);
  fmt::print("damage: distributed checkpoints: {} tried, {} refused (seed {})\n", all.tried, all.refused,
             testing::seed());
}

}  // namespace
}  // namespace cairn::formats
