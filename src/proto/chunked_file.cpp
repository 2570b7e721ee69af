// SPDX-License-Identifier: Apache-2.0
#include "cairn/proto/chunked_file.hpp"

#include <system_error>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include "cairn/base/error.hpp"
#include "cairn/proto/chunked.pb.h"
#include "cairn/proto/splitter.hpp"
#include "cairn/records/record_options.hpp"
#include "cairn/records/record_reader.hpp"
#include "cairn/records/record_writer.hpp"

#include "base/internal/parallel_for.hpp"
#include "io/internal/check.hpp"
#include "io/internal/file.hpp"
#include "io/internal/read_small_file.hpp"
#include "io/internal/replacing_file.hpp"
#include "proto/internal/add_element.hpp"
#include "proto/internal/chunked_file.hpp"
#include "proto/most_bytes.hpp"
#include "proto/parallel.hpp"
#include "proto/splitter_plan.hpp"
#include "records/internal/records.hpp"
#include "records/internal/signature.hpp"

namespace cairn::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;
using records::RecordReader;
using records::RecordWriter;

constexpr std::uint64_t kMostUnnamedBytes = std::uint64_t{1} << 20;
constexpr auto kMostMessageBytes = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());

/// A write has as many chunks in memory as it has threads; a larger one is serialised when it is written. Threads do
/// not take turns for chunks that are small.
constexpr unsigned kMostThreadsOfAWrite = 8;
constexpr std::uint64_t kMostBytesAhead = std::uint64_t{64} << 20;
constexpr std::uint64_t kWorthATurn = std::uint64_t{64} << 10;

std::filesystem::path with_ending(const std::filesystem::path& prefix, const char* ending) {
  return std::filesystem::path(prefix) += ending;
}

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.parent_path().empty() ? "." : path.parent_path();
}

/// The message, or the part of one, that chunks are merged into.
struct Wanted {
  const Descriptor& whole;
  const Path& part;
  Message& out;
  const MergeOptions& options;
};

records::ReaderOptions at_most(std::uint64_t record_bytes) {
  records::ReaderOptions options;
  options.most_record_bytes = record_bytes;
  return options;
}

bool has_record_before(const RecordReader& records, std::uint64_t position) {
  RecordReader reader = records::another_reader(records, {});
  while (const auto chunk = reader.next_chunk()) {
    if (chunk->records > 0) {
      return chunk->begin < position;
    }
  }
  return false;
}

/// Returns how many bytes the last record has, which is parsed into `metadata`.
std::uint64_t read_metadata_of(const RecordReader& records, chunked::ChunkMetadata& metadata) {
  const std::optional<records::LastRecord> last = records::read_last(records);
  if (!last || !metadata.ParseFromArray(last->bytes.data(), static_cast<int>(last->bytes.size()))) {
    throw Error(Errc::malformed_metadata, "the last record does not say where chunks belong");
  }
  // No bytes are a message of each type, so they say nothing.
  if (metadata.chunks().empty() && has_record_before(records, last->position)) {
    throw Error(
        Errc::malformed_metadata,
        "the last record does not say where chunks belong: it names none, and there are other records");
  }
  return last->bytes.size();
}

/// Lists chunks by their places, those of which the records lie together in one list: they are unpacked together.
///
/// Errors: Errc::malformed_metadata where two are the same record: a small file could ask for any number of copies.
std::vector<std::vector<std::uint64_t>> lie_together(std::span<const std::uint64_t> wanted,
                                                     const chunked::ChunkMetadata& metadata) {
  const auto offset = [&](std::uint64_t chunk) { return metadata.chunks(static_cast<int>(chunk)).offset(); };
  std::vector<std::uint64_t> sorted(wanted.begin(), wanted.end());
  std::sort(sorted.begin(), sorted.end(),
            [&](std::uint64_t one, std::uint64_t other) { return offset(one) < offset(other); });
  std::vector<std::vector<std::uint64_t>> lists;
  for (const std::uint64_t chunk : sorted) {
    if (!lists.empty() && offset(chunk) == offset(lists.back().back())) {
      throw Error(Errc::malformed_metadata,
                  fmt::format("chunks {} and {} are both the record at {}; each has one of its own",
                              lists.back().back(), chunk, offset(chunk)));
    }
    // Positions count the records of a chunk of the file; the next such chunk begins further behind.
    if (lists.empty() || offset(chunk) != offset(lists.back().back()) + 1) {
      lists.emplace_back();
    }
    lists.back().push_back(chunk);
  }
  return lists;
}

void add_chunk(RecordReader& reader, const chunked::ChunkInfo& info, std::uint64_t chunk, Merger& merger) {
  const bool is_message = info.type() == chunked::ChunkInfo::MESSAGE;
  std::string_view message;
  std::string bytes;
  reader.seek(info.offset());
  if (!(is_message ? reader.next(message) : reader.next(bytes)) || reader.position() != info.offset()) {
    throw Error(Errc::malformed_metadata, fmt::format("there is no record at {}", info.offset()));
  }
  if (is_message) {
    return merger.add(chunk, std::as_bytes(std::span(message)));
  }
  merger.add(chunk, std::move(bytes));
}

Merged merge_records(const RecordReader& records, const Wanted& wanted) {
  google::protobuf::Arena arena;
  auto* metadata = google::protobuf::Arena::CreateMessage<chunked::ChunkMetadata>(&arena);
  // Records that are said to be small unpack to no more. Several may lie together, with what says where they belong,
  // and with small ones that it does not name.
  std::uint64_t most_unpacked = kMostUnnamedBytes + read_metadata_of(records, *metadata);
  Merger merger(*metadata, wanted.whole, wanted.part, wanted.out, wanted.options);
  const std::vector<std::vector<std::uint64_t>> lists = lie_together(merger.wanted(), *metadata);
  std::uint64_t bytes = 0;
  for (const std::uint64_t chunk : merger.wanted()) {
    bytes += metadata->chunks(static_cast<int>(chunk)).size();
  }
  const std::uint64_t most_bytes = std::max(most_bytes_of(wanted.options), most_unpacked);
  for (const chunked::ChunkInfo& chunk : metadata->chunks()) {
    most_unpacked += std::min(chunk.size(), most_bytes - most_unpacked);
  }
  const std::size_t threads = std::min<std::size_t>(threads_for(bytes, wanted.options.threads), lists.size());
  std::atomic<std::size_t> next = 0;
  parallel_for(threads, threads, [&](std::size_t) {
    RecordReader reader = records::another_reader(records, at_most(most_unpacked));
    for (std::size_t i = next++; i < lists.size(); i = next++) {
      for (const std::uint64_t chunk : lists[i]) {
        add_chunk(reader, metadata->chunks(static_cast<int>(chunk)), chunk, merger);
      }
    }
  });
  return merger.finish();
}

Merged merge_whole(std::string_view bytes, const Wanted& wanted) {
  chunked::ChunkMetadata metadata;
  metadata.mutable_message()->set_chunk_index(0);
  chunked::ChunkInfo& info = add_element(*metadata.mutable_chunks());
  info.set_type(chunked::ChunkInfo::MESSAGE);
  info.set_size(bytes.size());
  Merger merger(metadata, wanted.whole, wanted.part, wanted.out, wanted.options);
  merger.add(0, std::as_bytes(std::span(bytes)));
  return merger.finish();
}

/// Calls `work`, and has its errors name the file, that of a lack of memory as well.
template <class Work>
auto in_file(const std::filesystem::path& path, const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw Error(
        std::error_code(ENOMEM, std::system_category()),
        fmt::format("{}: what it unpacks to does not fit into memory; MergeOptions::most_bytes bounds it",
                    path.string()));
  } catch (const Error& error) {
    const bool is_about_chunks =
        error.code() == Errc::malformed_metadata || error.code() == Errc::unsupported_version;
    if (!is_about_chunks || error.detail().starts_with(path.string())) {
      throw;
    }
    throw Error(static_cast<Errc>(error.code().value()),
                fmt::format("{}: {}", path.string(), error.detail()));
  }
}

/// Reads a whole file, behind a link as well; nothing when there is none.
std::optional<std::string> read_if_there(io::Syscalls& syscalls, const std::filesystem::path& path) {
  const std::optional<records::RegularFile> file = records::open_regular(syscalls, path);
  return file ? std::optional(io::read_small_file(file->handle, path, kMostMessageBytes)) : std::nullopt;
}

/// Opens a file of records; nothing when there is none.
std::optional<RecordReader> open_if_there(io::Syscalls& syscalls, const std::filesystem::path& path) {
  try {
    return records::open_records(syscalls, path);
  } catch (const Error& error) {
    if (error.code() != Errc::not_found) {
      throw;
    }
    return std::nullopt;
  }
}

/// Reads either file. One may be replaced by the other between two looks, so both are looked for again.
Merged read_either(io::Syscalls& syscalls, const std::filesystem::path& prefix, const Wanted& wanted) {
  constexpr int kMostLooks = 10;
  const std::filesystem::path cut = with_ending(prefix, ".cpb");
  const std::filesystem::path whole = with_ending(prefix, ".pb");
  for (int look = 0; look < kMostLooks; ++look) {
    if (const auto records = open_if_there(syscalls, cut)) {
      Merged merged = in_file(cut, [&] { return merge_records(*records, wanted); });
      const io::Directory directory = io::Directory::enter(syscalls, directory_of(whole));
      if (directory.status(whole.filename().native())) {
        merged.remarks.push_back(fmt::format("{} lies beside it and was not read", whole.string()));
      }
      return merged;
    }
    const auto bytes = in_file(whole, [&] { return read_if_there(syscalls, whole); });
    if (bytes) {
      return in_file(whole, [&] { return merge_whole(*bytes, wanted); });
    }
  }
  throw Error(Errc::not_found, fmt::format("neither {} nor {} is there", cut.string(), whole.string()));
}

void make_directories(io::Syscalls& syscalls, const std::filesystem::path& directory) {
  try {
    static_cast<void>(io::Directory::enter(syscalls, directory));
    return;
  } catch (const Error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) {
      throw;
    }
  }
  make_directories(syscalls, directory_of(directory));
  const io::Directory parent = io::Directory::open(syscalls, directory_of(directory));
  const std::string name = directory.filename().native();
  const int result = io::uninterrupted(
      [&] { return syscalls.make_directory_at(parent.fd(), name.c_str(), io::kDirectoryMode); });
  if (result != -EEXIST) {  // Another writer may make it for a message of its own.
    io::require(result, "mkdir", directory);
  }
  parent.sync();
}

/// Returns whether nothing was cut out of a message: it is its only chunk, or there is nothing of it.
bool is_whole(const SplitResult& split) {
  return split.chunks.empty() || (split.chunks.size() == 1 && split.chunked_message.has_chunk_index());
}

std::string whole_bytes(const SplitResult& split) {
  return split.chunks.empty() ? std::string() : split.chunks.front().to_string();
}

/// Serialises, hashes and packs chunks on several threads, and writes them in order.
void write_chunks(RecordWriter writer, const SplitResult& split, std::int32_t splitter_version) {
  chunked::ChunkMetadata metadata;
  metadata.mutable_version()->set_splitter_version(splitter_version);
  *metadata.mutable_message() = split.chunked_message;
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : split.chunks) {
    chunked::ChunkInfo& info = add_element(*metadata.mutable_chunks());
    info.set_type(chunk.type() == nullptr ? chunked::ChunkInfo::BYTES : chunked::ChunkInfo::MESSAGE);
    info.set_size(chunk.size_bytes());
    bytes += chunk.size_bytes();
  }
  const bool are_large = bytes / split.chunks.size() >= kWorthATurn;
  const std::size_t threads = are_large ? std::min(threads_for(bytes, 0), kMostThreadsOfAWrite) : 1;
  const auto* whole = split.chunked_message.has_chunk_index()
                          ? split.chunks[static_cast<std::size_t>(split.chunked_message.chunk_index())].type()
                          : nullptr;
  const auto serialised = [&](std::size_t i) {
    try {
      return split.chunks[i].to_string();
    } catch (const Error& error) {
      const std::string path = ChunkPaths(metadata, whole).text(i).value_or("");
      throw Error(error.code(),
                  fmt::format("'{}': {}", path.empty() ? "the message itself" : path, error.detail()));
    }
  };
  parallel_in_order(split.chunks.size(), threads, [&](std::size_t i) -> std::function<void()> {
    const Chunk& chunk = split.chunks[i];
    chunked::ChunkInfo& info = *metadata.mutable_chunks(static_cast<int>(i));
    if (chunk.type() != nullptr && chunk.size_bytes() > kMostBytesAhead) {
      return [&, i] { info.set_offset(writer.write(serialised(i))); };
    }
    auto message = std::make_shared<const std::string>(chunk.type() != nullptr ? serialised(i) : "");
    auto write = records::prepare_write(writer, chunk.type() != nullptr ? *message : chunk.bytes());
    return [&info, message, write = std::move(write)] { info.set_offset(write()); };
  });
  writer.write(metadata.SerializeAsString());
  writer.finish();
}

}  // namespace

Written write_message(io::Syscalls& syscalls, const SplitResult& split, const std::filesystem::path& prefix,
                      const WriteOptions& options, std::int32_t splitter_version) {
  make_directories(syscalls, directory_of(prefix));
  Written written;
  written.path = with_ending(prefix, is_whole(split) ? ".pb" : ".cpb");
  if (is_whole(split)) {
    const std::string bytes = whole_bytes(split);
    io::ReplacingFile file(syscalls, written.path);
    file.append(std::as_bytes(std::span(bytes)));
    file.publish();
  } else {
    const auto record_options = records::RecordOptions::parse(options.records);
    write_chunks(records::create_records(syscalls, written.path, record_options), split, splitter_version);
  }
  // Readers take a `.cpb` where there is one. So an old one goes only when the new `.pb` is durable, and an old `.pb`
  // is not looked at any more.
  const io::Directory directory = io::Directory::open(syscalls, directory_of(prefix));
  const std::filesystem::path other = with_ending(prefix, is_whole(split) ? ".cpb" : ".pb");
  if (directory.status(other.filename().native())) {
    directory.remove_file(other.filename().native());
    directory.sync();
  }
  io::ReplacingFile::remove_left_over(syscalls, other);
  if (const auto status = directory.status(written.path.filename().native())) {
    written.bytes = status->size_bytes;
  }
  return written;
}

Merged read_message(io::Syscalls& syscalls, const std::filesystem::path& prefix, Message& out,
                    const MergeOptions& options) {
  const Path part;
  return read_either(syscalls, prefix, {*out.GetDescriptor(), part, out, options});
}

Written ComposableSplitter::write(const std::filesystem::path& prefix, const WriteOptions& options) {
  state_->check_unchanged();
  return write_message(io::posix_syscalls(), split(), prefix, options, this->options().splitter_version);
}

std::pair<std::string, bool> ComposableSplitter::write_to_string(const WriteOptions& options) {
  state_->check_unchanged();
  const SplitResult result = split();
  if (is_whole(result)) {
    return {whole_bytes(result), false};
  }
  std::string bytes;
  write_chunks(RecordWriter::append_to(bytes, records::RecordOptions::parse(options.records)), result,
               this->options().splitter_version);
  return {std::move(bytes), true};
}

Merged read(const std::filesystem::path& prefix, Message& out, const MergeOptions& options) {
  return read_message(io::posix_syscalls(), prefix, out, options);
}

Merged read_string(std::string_view bytes, Message& out, const MergeOptions& options) {
  const Path part;
  const Wanted wanted{*out.GetDescriptor(), part, out, options};
  return bytes.starts_with(records::kFileBegin)
             ? merge_records(RecordReader(std::as_bytes(std::span(bytes))), wanted)
             : merge_whole(bytes, wanted);
}

Merged read_part(const std::filesystem::path& prefix, const Descriptor& whole, const Path& part, Message& out,
                 const MergeOptions& options) {
  return read_either(io::posix_syscalls(), prefix, {whole, part, out, options});
}

std::unique_ptr<chunked::ChunkMetadata> read_metadata(const std::filesystem::path& prefix) {
  const std::filesystem::path path = with_ending(prefix, ".cpb");
  const RecordReader records(path);
  return in_file(path, [&] {
    auto metadata = std::make_unique<chunked::ChunkMetadata>();
    static_cast<void>(read_metadata_of(records, *metadata));
    return metadata;
  });
}

}  // namespace cairn::proto
