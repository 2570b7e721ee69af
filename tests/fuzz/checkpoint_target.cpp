// SPDX-License-Identifier: Apache-2.0
// The input is the files of a checkpoint: sizes and roots, a chunk table, data. COMMIT and checkpoint.json
// vouch for whatever it says. An Error, or data that are what lies in the file and what the chunk table says.
#include <algorithm>
#include <string>
#include <vector>

#include "crash/simulated_machine.hpp"
#include "fuzz/fuzzing.hpp"
#include "io/internal/syscalls.hpp"
#include "store/internal/committed_directory.hpp"
#include "store/internal/manifest.hpp"

namespace {

using cairn::Errc;
using cairn::fuzz::require;
using cairn::store::FileEntry;
using cairn::store::Manifest;

constexpr std::size_t kMostFiles = 4;
constexpr std::size_t kMostBytes = 1 << 16;

/// A checkpoint that is whole, but for what the input says.
struct Checkpoint {
  Manifest manifest;
  std::string table;
  std::vector<std::string> data;
};

/// The chunk hashes of a file as the table has them, as far as it goes.
std::vector<std::uint64_t> hashes_at(std::string_view table, std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> hashes;
  for (std::uint64_t at = first * 8; count > 0 && at + 8 <= table.size(); at += 8, --count) {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      hash |= std::uint64_t{static_cast<unsigned char>(table[at + i])} << (8 * i);
    }
    hashes.push_back(hash);
  }
  return hashes;
}

Checkpoint take_checkpoint(cairn::fuzz::Input& input) {
  Checkpoint checkpoint;
  const std::size_t files = 1 + input.take<std::uint8_t>() % kMostFiles;
  for (std::size_t i = 0; i < files; ++i) {
    const auto how = input.take<std::uint8_t>();
    std::string data(input.take_text(input.take<std::uint8_t>()));
    cairn::io::ChunkHasher hasher;
    hasher.update(cairn::fuzz::as_bytes(data));
    const cairn::io::FileDigest digest = hasher.finish(std::string("d/") + static_cast<char>('a' + i));
    FileEntry entry{digest.path, digest.size_bytes, digest.root()};
    if ((how & 1) != 0) {
      entry.size_bytes = input.take<std::uint64_t>() >> 1;
    }
    if ((how & 2) != 0) {
      entry.root.low ^= input.take<std::uint64_t>();
    }
    if ((how & 4) == 0) {
      const std::string own = cairn::store::encode_chunks({&digest, 1});
      checkpoint.table += own;
    }
    checkpoint.manifest.files.push_back(std::move(entry));
    checkpoint.data.push_back(std::move(data));
  }
  if ((input.take<std::uint8_t>() & 1) != 0) {
    checkpoint.table = input.rest();
    // Roots that vouch for a table that does not fit the data: the next link of the chain must find it.
    std::uint64_t first = 0;
    for (FileEntry& entry : checkpoint.manifest.files) {
      const std::uint64_t count = cairn::io::chunk_count(entry.size_bytes);
      entry.root = cairn::io::hash_root(hashes_at(checkpoint.table, first, count), entry.size_bytes);
      first += count;
    }
  }
  return checkpoint;
}

void write(cairn::crash::SimulatedDisk& disk, const Checkpoint& checkpoint, const std::string& manifest) {
  using cairn::io::FileKind;
  const auto add = [&disk](cairn::crash::Inode directory, std::string_view name, std::string_view bytes) {
    disk.write(disk.make(directory, std::string(name), FileKind::regular), 0, bytes);
  };
  const auto run = disk.make(cairn::crash::kRootInode, "run", FileKind::directory);
  const auto root = disk.make(run, "c", FileKind::directory);
  const auto directory = disk.make(root, "d", FileKind::directory);
  for (std::size_t i = 0; i < checkpoint.data.size(); ++i) {
    add(directory, std::string(1, static_cast<char>('a' + i)), checkpoint.data[i]);
  }
  add(root, cairn::store::kChunksName, checkpoint.table);
  add(root, cairn::store::kManifestName, manifest);
  add(root, cairn::store::kCommitName,
      cairn::store::encode_commit({checkpoint.manifest.uuid, manifest.size(), cairn::hash_text(manifest)}));
}

void read(const cairn::store::CommittedDirectory& directory, const FileEntry& entry,
          const std::string& stored) {
  const cairn::fuzz::MemoryBound bound(131072);
  const auto text = cairn::fuzz::attempt({Errc::checksum_mismatch, Errc::malformed_metadata},
                                         [&] { return directory.read_verified(entry.path, kMostBytes); });
  if (text) {
    require(*text == stored, "what is read is what is stored");
    cairn::io::ChunkHasher hasher;
    hasher.update(cairn::fuzz::as_bytes(*text));
    require(hasher.finish(entry.path).root() == entry.root, "what is read is what the root vouches for");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cairn::fuzz::Input input(data, size);
  const Checkpoint checkpoint = take_checkpoint(input);
  const auto manifest = cairn::fuzz::attempt(
      {Errc::invalid_argument}, [&] { return cairn::store::encode_manifest(checkpoint.manifest); });
  if (!manifest) {
    return 0;  // Sizes that add up to more than a file system holds.
  }
  cairn::crash::SimulatedMachine machine;
  write(machine.disk(), checkpoint, *manifest);
  cairn::crash::SimulatedProcess process(machine);
  const auto directory =
      cairn::store::CommittedDirectory::open(process, std::string(cairn::crash::kRunPath) + "/c");
  require(directory.manifest() == checkpoint.manifest, "the manifest is the one that COMMIT vouches for");
  for (std::size_t i = 0; i < checkpoint.data.size(); ++i) {
    read(directory, checkpoint.manifest.files[i], checkpoint.data[i]);
  }
  return 0;
}
