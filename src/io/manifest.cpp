// SPDX-License-Identifier: Apache-2.0
#include "cairn/io/manifest.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/base/checked.hpp"
#include "cairn/base/error.hpp"
#include "cairn/io/file.hpp"

#include "io/little_endian.hpp"

namespace cairn::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCommitMagic = "CAIRNCMT";
constexpr std::string_view kFormatName = "cairn checkpoint";
constexpr std::size_t kMostPathBytes = 4096;
constexpr std::size_t kMostNameBytes = 65536;

/// `text` as it may stand in a message: bounded, without control characters (a NUL would end what() early).
std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 200;
  std::string shown;
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return text.size() > kMost ? shown + "..." : shown;
}

/// Where a refusal comes from: the reader blames the file, the writer its caller.
struct Blame {
  Errc code;
  std::string where;

  [[noreturn]] void operator()(std::string_view why) const {
    throw Error(code, fmt::format("{}: {}", where, why));
  }
};

/// Refuses nesting that is too deep, before any parser sees it.
void require_shallow(std::string_view text, std::size_t limit, const Blame& refuse) {
  std::size_t depth = 0;
  bool is_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      i += c == '\\' ? 1 : 0;
      is_string = c != '"';
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > limit) {
        refuse(fmt::format("nested deeper than {} levels", limit));
      }
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
}

/// Parses JSON (RFC 8259) and refuses what its readers disagree on: keys that come twice.
Json parse_json(std::string_view text, std::size_t depth_limit, const Blame& refuse) {
  require_shallow(text, depth_limit, refuse);
  std::vector<std::unordered_set<std::string>> keys;
  std::optional<std::string> repeated;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  Json parsed;
  try {
    parsed = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    refuse(error.what());
  }
  if (repeated) {
    refuse(fmt::format("the key '{}' comes twice", printable(*repeated)));
  }
  return parsed;
}

const Json& member(const Json& object, const char* key, const Blame& refuse) {
  const auto found = object.find(key);
  if (found == object.end()) {
    refuse(fmt::format("'{}' is missing", key));
  }
  return *found;
}

std::string text_member(const Json& object, const char* key, const Blame& refuse) {
  const Json& value = member(object, key, refuse);
  if (!value.is_string()) {
    refuse(fmt::format("'{}' is no string", key));
  }
  return value.get<std::string>();
}

std::uint64_t number_member(const Json& object, const char* key, std::uint64_t most, const Blame& refuse) {
  const Json& value = member(object, key, refuse);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
    refuse(fmt::format("'{}' is no integer between 0 and {}", key, most));
  }
  return value.get<std::uint64_t>();
}

const Json& list_member(const Json& object, const char* key, const Blame& refuse) {
  const Json& value = member(object, key, refuse);
  if (!value.is_array() ||
      !std::all_of(value.begin(), value.end(), [](const Json& entry) { return entry.is_object(); })) {
    refuse(fmt::format("'{}' is no list of objects", key));
  }
  return value;
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

FileEntry decode_file(const Json& entry, const Blame& refuse) {
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

void require_version(const Json& document, const Blame& refuse) {
  if (!document.is_object() || text_member(document, "format", refuse) != kFormatName) {
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

}  // namespace

bool is_checkpointable_directory(std::string_view name) noexcept {
  return name.size() <= 255 && is_plain_relative(name) && name.find('/') == std::string_view::npos &&
         !is_reserved(name);
}

std::string encode_manifest(const Manifest& manifest) {
  const Blame refuse{Errc::invalid_argument, std::string(kManifestName)};
  validate(manifest, refuse);
  Json document;
  document["format"] = kFormatName;
  document["version"] = kFormatVersion;
  document["uuid"] = to_string(manifest.uuid);
  document["generation"] = manifest.generation;
  document["started"] = manifest.started;
  document["committed"] = manifest.committed;
  document["world_size"] = manifest.world_size;
  document["custom_metadata"] = parse_json(manifest.custom_metadata, kMaxMetadataDepth - 1, refuse);
  document["checkpointables"] = Json::array();
  for (const CheckpointableEntry& entry : manifest.checkpointables) {
    document["checkpointables"].push_back(
        {{"name", entry.name}, {"handler", entry.handler_id}, {"directory", entry.directory}});
  }
  document["files"] = Json::array();
  for (const FileEntry& file : manifest.files) {
    document["files"].push_back(
        {{"path", file.path}, {"size", file.size_bytes}, {"xxh3", to_hex(file.root)}});
  }
  std::string text;
  try {
    text = document.dump(1) + "\n";
  } catch (const Json::exception& error) {  // A name that is no UTF-8.
    refuse(error.what());
  }
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
  const Json document = parse_json(text, kMaxMetadataDepth, refuse);
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
  manifest.custom_metadata = member(document, "custom_metadata", refuse).dump();
  for (const Json& entry : list_member(document, "checkpointables", refuse)) {
    manifest.checkpointables.push_back({text_member(entry, "name", refuse),
                                        text_member(entry, "handler", refuse),
                                        text_member(entry, "directory", refuse)});
  }
  for (const Json& entry : list_member(document, "files", refuse)) {
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
  return parse_json(text, kMaxMetadataDepth - 1, refuse).dump();
}

}  // namespace cairn::io
