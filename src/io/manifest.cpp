// SPDX-License-Identifier: Apache-2.0
#include "cairn/io/manifest.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/checked.hpp"
#include "cairn/base/error.hpp"
#include "cairn/base/utf8.hpp"
#include "cairn/io/file.hpp"

#include "io/json.hpp"
#include "io/little_endian.hpp"

namespace cairn::io {
namespace {

constexpr std::string_view kCommitMagic = "CAIRNCMT";
constexpr std::string_view kFormatName = "cairn checkpoint";
constexpr std::size_t kMostPathBytes = 4096;
constexpr std::size_t kMostNameBytes = 65536;

JsonView member(JsonView object, std::string_view key, const Blame& refuse) {
  const std::optional<JsonView> found = object.find(key);
  if (!found) {
    refuse(fmt::format("'{}' is missing", key));
  }
  return *found;
}

std::string text_member(JsonView object, std::string_view key, const Blame& refuse) {
  const JsonView value = member(object, key, refuse);
  if (!value.is(NodeKind::string)) {
    refuse(fmt::format("'{}' is no string", key));
  }
  return value.node().text;
}

std::uint64_t number_member(JsonView object, std::string_view key, std::uint64_t most, const Blame& refuse) {
  const JsonView value = member(object, key, refuse);
  if (!value.is(NodeKind::natural) || value.node().number > most) {
    refuse(fmt::format("'{}' is no integer between 0 and {}", key, most));
  }
  return value.node().number;
}

std::vector<JsonView> list_member(JsonView object, std::string_view key, const Blame& refuse) {
  const JsonView value = member(object, key, refuse);
  std::vector<JsonView> entries = value.elements();
  if (!value.is(NodeKind::array) || !std::all_of(entries.begin(), entries.end(),
                                                 [](JsonView entry) { return entry.is(NodeKind::object); })) {
    refuse(fmt::format("'{}' is no list of objects", key));
  }
  return entries;
}

bool is_reserved(std::string_view name) noexcept {
  return name.starts_with('.') || name == kCommitName || name == kManifestName || name == kChunksName;
}

void validate_checkpointables(const Manifest& manifest, const Blame& refuse) {
  std::unordered_set<std::string_view> names;
  std::unordered_set<std::string_view> directories;
  for (const CheckpointableEntry& entry : manifest.checkpointables) {
    if (entry.name.empty() || entry.name.size() > kMostNameBytes || !names.insert(entry.name).second) {
      refuse(fmt::format("checkpointable '{}': the name is empty, too long, or comes twice",
                         printable(entry.name)));
    }
    if (!is_checkpointable_directory(entry.directory) || !directories.insert(entry.directory).second) {
      refuse(fmt::format("checkpointable '{}': '{}' is no directory of its own", printable(entry.name),
                         printable(entry.directory)));
    }
    if (entry.handler_id.empty() || entry.handler_id.size() > kMostNameBytes) {
      refuse(
          fmt::format("checkpointable '{}': the handler's id is empty or too long", printable(entry.name)));
    }
  }
}

void validate_files(const Manifest& manifest, const Blame& refuse) {
  std::set<std::string_view> paths;
  std::uint64_t total_bytes = 0;
  for (const FileEntry& file : manifest.files) {
    const std::string_view first = std::string_view(file.path).substr(0, file.path.find('/'));
    if (file.path.size() > kMostPathBytes || !is_plain_relative(file.path) || is_reserved(first)) {
      refuse(fmt::format("'{}' is no path of a file in a checkpoint", printable(file.path)));
    }
    if (!paths.insert(file.path).second) {
      refuse(fmt::format("file '{}' comes twice", printable(file.path)));
    }
    const auto sum = checked_add(total_bytes, file.size_bytes);
    if (!sum || *sum > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      refuse(
          fmt::format("file '{}': the sizes add up to more than a file system holds", printable(file.path)));
    }
    total_bytes = *sum;
  }
  for (const FileEntry& file : manifest.files) {
    for (std::size_t at = file.path.find('/'); at != std::string::npos; at = file.path.find('/', at + 1)) {
      if (paths.contains(std::string_view(file.path).substr(0, at))) {
        refuse(fmt::format("file '{}' lies under another file", printable(file.path)));
      }
    }
  }
}

void validate(const Manifest& manifest, const Blame& refuse) {
  if (manifest.generation == 0 || manifest.world_size == 0) {
    refuse("'generation' and 'world_size' start at 1");
  }
  validate_checkpointables(manifest, refuse);
  validate_files(manifest, refuse);
}

FileEntry decode_file(JsonView entry, const Blame& refuse) {
  FileEntry file;
  file.path = text_member(entry, "path", refuse);
  file.size_bytes = number_member(
      entry, "size", static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()), refuse);
  const std::optional<Hash128> root = parse_hash(text_member(entry, "xxh3", refuse));
  if (!root) {
    refuse(fmt::format("file '{}': 'xxh3' is not 32 hexadecimal digits", printable(file.path)));
  }
  file.root = *root;
  return file;
}

void require_version(JsonView document, const Blame& refuse) {
  if (!document.is(NodeKind::object) || text_member(document, "format", refuse) != kFormatName) {
    refuse("this is no checkpoint.json");
  }
  const std::uint64_t version =
      number_member(document, "version", std::numeric_limits<std::uint32_t>::max(), refuse);
  if (version == 0) {
    refuse("format versions start at 1");
  }
  if (version > kFormatVersion) {
    throw Error(Errc::unsupported_version,
                fmt::format("{}: format {}; this library reads format {} and before", refuse.where, version,
                            kFormatVersion));
  }
}

void write_text(JsonWriter& writer, std::string_view key, const std::string& text, const Blame& refuse) {
  if (!is_valid_utf8(text)) {
    refuse(fmt::format("'{}': '{}' is no UTF-8", key, printable(text)));
  }
  writer.key(key);
  writer.string(text);
}

void write_number(JsonWriter& writer, std::string_view key, std::uint64_t number) {
  writer.key(key);
  writer.natural(number);
}

void write_checkpointables(JsonWriter& writer, const Manifest& manifest, const Blame& refuse) {
  writer.key("checkpointables");
  writer.begin('[');
  for (const CheckpointableEntry& entry : manifest.checkpointables) {
    writer.begin('{');
    write_text(writer, "name", entry.name, refuse);
    write_text(writer, "handler", entry.handler_id, refuse);
    write_text(writer, "directory", entry.directory, refuse);
    writer.end('}');
  }
  writer.end(']');
}

void write_files(JsonWriter& writer, const Manifest& manifest, const Blame& refuse) {
  writer.key("files");
  writer.begin('[');
  for (const FileEntry& file : manifest.files) {
    writer.begin('{');
    write_text(writer, "path", file.path, refuse);
    write_number(writer, "size", file.size_bytes);
    write_text(writer, "xxh3", to_hex(file.root), refuse);
    writer.end('}');
  }
  writer.end(']');
}

}  // namespace

bool is_checkpointable_directory(std::string_view name) noexcept {
  return name.size() <= 255 && is_plain_relative(name) && name.find('/') == std::string_view::npos &&
         !is_reserved(name);
}

std::string encode_manifest(const Manifest& manifest) {
  const Blame refuse{Errc::invalid_argument, std::string(kManifestName)};
  validate(manifest, refuse);
  const JsonDocument custom = JsonDocument::parse(manifest.custom_metadata, kMaxMetadataDepth - 1, refuse);
  JsonWriter writer(true);
  writer.begin('{');
  write_text(writer, "format", std::string(kFormatName), refuse);
  write_number(writer, "version", kFormatVersion);
  write_text(writer, "uuid", to_string(manifest.uuid), refuse);
  write_number(writer, "generation", manifest.generation);
  write_text(writer, "started", manifest.started, refuse);
  write_text(writer, "committed", manifest.committed, refuse);
  write_number(writer, "world_size", manifest.world_size);
  writer.key("custom_metadata");
  custom.root().write(writer);
  write_checkpointables(writer, manifest, refuse);
  write_files(writer, manifest, refuse);
  writer.end('}');
  std::string text = std::move(writer.text()) + "\n";
  if (text.size() > kMaxManifestBytes || manifest.custom_metadata.size() > kMaxCustomMetadataBytes) {
    refuse(fmt::format("{} bytes of metadata are too many", text.size()));
  }
  return text;
}

Manifest decode_manifest(std::string_view text, std::string_view path) {
  const Blame refuse{Errc::malformed_metadata, std::string(path)};
  if (text.size() > kMaxManifestBytes) {
    refuse(fmt::format("{} bytes are too many", text.size()));
  }
  const JsonDocument parsed = JsonDocument::parse(text, kMaxMetadataDepth, refuse);
  const JsonView document = parsed.root();
  require_version(document, refuse);
  Manifest manifest;
  const std::optional<Uuid> uuid = parse_uuid(text_member(document, "uuid", refuse));
  if (!uuid) {
    refuse("'uuid' is no UUID");
  }
  constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
  manifest.uuid = *uuid;
  manifest.generation = static_cast<std::uint32_t>(number_member(document, "generation", kMost32, refuse));
  manifest.started = text_member(document, "started", refuse);
  manifest.committed = text_member(document, "committed", refuse);
  manifest.world_size = static_cast<std::uint32_t>(number_member(document, "world_size", kMost32, refuse));
  JsonWriter custom(false);
  member(document, "custom_metadata", refuse).write(custom);
  manifest.custom_metadata = std::move(custom.text());
  for (const JsonView& entry : list_member(document, "checkpointables", refuse)) {
    manifest.checkpointables.push_back({text_member(entry, "name", refuse),
                                        text_member(entry, "handler", refuse),
                                        text_member(entry, "directory", refuse)});
  }
  for (const JsonView& entry : list_member(document, "files", refuse)) {
    manifest.files.push_back(decode_file(entry, refuse));
  }
  validate(manifest, refuse);
  return manifest;
}

std::string encode_commit(const CommitRecord& record) {
  std::string bytes(kCommitMagic);
  append_little_endian(bytes, kFormatVersion);
  append_little_endian(bytes, std::uint32_t{0});  // Reserved.
  for (const std::byte byte : record.uuid.bytes) {
    bytes += static_cast<char>(byte);
  }
  append_little_endian(bytes, record.manifest_bytes);
  append_little_endian(bytes, record.manifest_hash.high);
  append_little_endian(bytes, record.manifest_hash.low);
  bytes.resize(kCommitBytes - sizeof(std::uint64_t), '\0');
  append_little_endian(bytes, hash_chunk(std::as_bytes(std::span(bytes))));
  return bytes;
}

CommitRecord decode_commit(std::string_view bytes, std::string_view path) {
  const Blame refuse{Errc::malformed_metadata, std::string(path)};
  if (bytes.size() < kCommitMagic.size() + sizeof(std::uint32_t) || !bytes.starts_with(kCommitMagic)) {
    refuse("this is no commit record");
  }
  // The version before the checksum: a later format may be longer and hashed otherwise.
  const auto version = little_endian_at<std::uint32_t>(bytes, 8);
  if (version > kFormatVersion) {
    throw Error(
        Errc::unsupported_version,
        fmt::format("{}: format {}; this library reads format {} and before", path, version, kFormatVersion));
  }
  if (bytes.size() != kCommitBytes || version == 0) {
    refuse(fmt::format("{} bytes of format {} are no commit record", bytes.size(), version));
  }
  constexpr std::size_t kHashed = kCommitBytes - sizeof(std::uint64_t);
  if (hash_chunk(std::as_bytes(std::span(bytes.substr(0, kHashed)))) !=
      little_endian_at<std::uint64_t>(bytes, kHashed)) {
    throw Error(Errc::checksum_mismatch, std::string(path));
  }
  CommitRecord record;
  for (std::size_t i = 0; i < record.uuid.bytes.size(); ++i) {
    record.uuid.bytes[i] = static_cast<std::byte>(bytes[16 + i]);
  }
  record.manifest_bytes = little_endian_at<std::uint64_t>(bytes, 32);
  record.manifest_hash.high = little_endian_at<std::uint64_t>(bytes, 40);
  record.manifest_hash.low = little_endian_at<std::uint64_t>(bytes, 48);
  return record;
}

std::string encode_chunks(std::span<const FileDigest> digests) {
  std::string bytes;
  for (const FileDigest& digest : digests) {
    for (const std::uint64_t chunk : digest.chunks) {
      append_little_endian(bytes, chunk);
    }
  }
  return bytes;
}

std::uint64_t chunk_table_bytes(std::span<const FileEntry> files) {
  std::uint64_t chunks = 0;
  for (const FileEntry& file : files) {
    chunks += chunk_count(file.size_bytes);
  }
  return chunks * sizeof(std::uint64_t);
}

std::string normalise_custom_metadata(std::string_view text) {
  const Blame refuse{Errc::invalid_argument, "custom metadata"};
  if (text.size() > kMaxCustomMetadataBytes) {
    refuse(fmt::format("{} bytes; at most {} are allowed", text.size(), kMaxCustomMetadataBytes));
  }
  const JsonDocument document = JsonDocument::parse(text, kMaxMetadataDepth - 1, refuse);
  JsonWriter writer(false);
  document.root().write(writer);
  return std::move(writer.text());
}

}  // namespace cairn::io
