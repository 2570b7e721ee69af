// SPDX-License-Identifier: Apache-2.0
#include "store/internal/manifest.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <variant>

#include <boost/endian/arithmetic.hpp>
#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/checked.hpp"
#include "base/internal/json_reader.hpp"
#include "base/internal/json_writer.hpp"
#include "base/internal/utf8.hpp"
#include "io/internal/file.hpp"

namespace cairn::store {
namespace {

constexpr std::string_view kCommitMagic = "CAIRNCMT";
constexpr std::string_view kFormatName = "cairn checkpoint";
constexpr std::size_t kMostPathBytes = 4096;
constexpr std::size_t kMostNameBytes = 65536;
constexpr std::uint32_t kMostNanoseconds = 999'999'999;
constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max();  // Of a file, and of all.

/// Where a refusal comes from: the reader blames the file, the writer its caller.
struct Blame {
  Errc code;
  std::string where;

  [[noreturn]] void operator()(std::string_view why) const {
    throw Error(code, fmt::format("{}: {}", where, why));
  }
};

/// A text from outside as it may stand in a message.
std::string_view shown(std::string_view text) {
  constexpr std::size_t kMost = 200;
  return text.substr(0, kMost);
}

JsonRules rules(Errc code, std::size_t depth) {
  JsonRules result;
  result.code = code;
  result.max_depth = depth;
  result.has_unique_keys = true;
  return result;
}

std::string read_text(JsonReader& json, std::string_view key) {
  if (json.peek() != '"') {
    json.fail(fmt::format("'{}' is not a string", key));
  }
  return std::string(json.read_string());
}

template <class T>
T read_number(JsonReader& json, std::string_view key, T most = std::numeric_limits<T>::max()) {
  const int next = json.peek();
  const JsonScalar scalar = next == '{' || next == '[' ? JsonScalar() : json.read_scalar();
  const auto* number = std::get_if<std::uint64_t>(&scalar);
  if (number == nullptr || *number > most) {
    json.fail(fmt::format("'{}' is not an integer between 0 and {}", key, most));
  }
  return static_cast<T>(*number);
}

/// Writes what a text of the user's holds.
void copy(std::string_view text, const Blame& refuse, JsonWriter& to) {
  JsonReader json(text, refuse.where, rules(refuse.code, kMaxMetadataDepth - 1));
  json.read_value(to);
  json.finish();
}

std::string read_compact(JsonReader& json) {
  std::string text;
  JsonWriter writer(text);
  json.read_value(writer);
  return text;
}

std::string read_object_text(JsonReader& json, std::string_view key) {
  if (json.peek() != '{') {
    json.fail(fmt::format("'{}' is not an object", key));
  }
  return read_compact(json);
}

struct Member {
  std::string_view key;
  std::function<void(std::string_view key)> read;
  bool is_optional = false;
};

/// Reads an object that has all of `members` but optional ones, and maybe others.
void read_object(JsonReader& json, const std::vector<Member>& members) {
  std::vector<bool> is_there;
  for (const Member& member : members) {
    is_there.push_back(member.is_optional);
  }
  json.begin_object();
  while (const auto key = json.next_key()) {
    const auto member =
        std::find_if(members.begin(), members.end(), [&key](const Member& each) { return each.key == *key; });
    if (member == members.end()) {
      json.skip_value();
    } else {
      is_there[static_cast<std::size_t>(member - members.begin())] = true;
      member->read(member->key);
    }
  }
  const auto missing = std::find(is_there.begin(), is_there.end(), false);
  if (missing != is_there.end()) {
    json.fail(
        fmt::format("'{}' is missing", members[static_cast<std::size_t>(missing - is_there.begin())].key));
  }
}

/// Reads a list of objects; `read` reads one.
template <class Read>
void read_list(JsonReader& json, std::string_view key, Read read) {
  const auto expect = [&](int bracket) {
    if (json.peek() != bracket) {
      json.fail(fmt::format("'{}' is not a list of objects", key));
    }
  };
  expect('[');
  json.begin_list();
  while (json.next_element()) {
    expect('{');
    read();
  }
}

bool is_reserved(std::string_view name) noexcept {
  return name.starts_with('.') || name == kCommitName || name == kManifestName || name == kChunksName;
}

void validate_checkpointables(const Manifest& manifest, const Blame& refuse) {
  std::unordered_set<std::string_view> names;
  std::unordered_set<std::string_view> directories;
  for (const CheckpointableEntry& entry : manifest.checkpointables) {
    if (entry.name.empty() || entry.name.size() > kMostNameBytes || !names.insert(entry.name).second) {
      refuse(
          fmt::format("checkpointable '{}': the name is empty, too long, or comes twice", shown(entry.name)));
    }
    if (!is_checkpointable_directory(entry.directory) || !directories.insert(entry.directory).second) {
      refuse(fmt::format("checkpointable '{}': '{}' is not a directory of its own", shown(entry.name),
                         shown(entry.directory)));
    }
    if (entry.handler_id.empty() || entry.handler_id.size() > kMostNameBytes) {
      refuse(fmt::format("checkpointable '{}': the handler's id is empty or too long", shown(entry.name)));
    }
  }
}

void validate_files(const Manifest& manifest, const Blame& refuse) {
  std::set<std::string_view> paths;
  std::uint64_t total_bytes = 0;
  for (const FileEntry& file : manifest.files) {
    if (file.rank >= manifest.world_size) {
      refuse(fmt::format("file '{}': there is no rank {} of {}", shown(file.path), file.rank,
                         manifest.world_size));
    }
    const std::string_view first = std::string_view(file.path).substr(0, file.path.find('/'));
    if (file.path.size() > kMostPathBytes || !io::is_plain_relative(file.path) || is_reserved(first)) {
      refuse(fmt::format("'{}' is not a path of a file in a checkpoint", shown(file.path)));
    }
    if (!paths.insert(file.path).second) {
      refuse(fmt::format("file '{}' comes twice", shown(file.path)));
    }
    const auto sum = checked_add(total_bytes, file.size_bytes);
    if (!sum || *sum > kMostBytes) {
      refuse(fmt::format("file '{}': the sizes add up to more than a file system holds", shown(file.path)));
    }
    total_bytes = *sum;
  }
  for (const FileEntry& file : manifest.files) {
    for (std::size_t at = file.path.find('/'); at != std::string::npos; at = file.path.find('/', at + 1)) {
      if (paths.contains(std::string_view(file.path).substr(0, at))) {
        refuse(fmt::format("file '{}' lies under another file", shown(file.path)));
      }
    }
  }
}

void validate(const Manifest& manifest, const Blame& refuse) {
  if (manifest.generation == 0 || manifest.world_size == 0) {
    refuse("'generation' and 'world_size' start at 1");
  }
  for (const auto& [name, nanoseconds] :
       {std::pair("started_nanoseconds", manifest.started_nanoseconds),
        std::pair("committed_nanoseconds", manifest.committed_nanoseconds)}) {
    if (nanoseconds > kMostNanoseconds) {
      refuse(fmt::format("'{}' are a second or more", name));
    }
  }
  validate_checkpointables(manifest, refuse);
  validate_files(manifest, refuse);
}

void write_text(JsonWriter& json, std::string_view key, std::string_view text, const Blame& refuse) {
  if (!is_valid_utf8(text)) {
    refuse(fmt::format("'{}': '{}' is not UTF-8", key, shown(text)));
  }
  json.key(key).value(text);
}

void write_checkpointables(JsonWriter& json, const Manifest& manifest, const Blame& refuse) {
  json.key("checkpointables").begin_list();
  for (const CheckpointableEntry& entry : manifest.checkpointables) {
    json.begin_object();
    write_text(json, "name", entry.name, refuse);
    write_text(json, "handler", entry.handler_id, refuse);
    write_text(json, "directory", entry.directory, refuse);
    json.end();
  }
  json.end();
}

void write_files(JsonWriter& json, const Manifest& manifest, const Blame& refuse) {
  json.key("files").begin_list();
  for (const FileEntry& file : manifest.files) {
    json.begin_object();
    write_text(json, "path", file.path, refuse);
    json.key("size").value(file.size_bytes).key("xxh3").value(to_hex(file.root));
    if (file.rank != 0) {
      json.key("rank").value(std::uint64_t{file.rank});
    }
    json.end();
  }
  json.end();
}

CheckpointableEntry read_checkpointable(JsonReader& json) {
  CheckpointableEntry entry;
  const auto into = [&json](std::string& text) {
    return [&json, &text](std::string_view key) { text = read_text(json, key); };
  };
  read_object(json, {{"name", into(entry.name)},
                     {"handler", into(entry.handler_id)},
                     {"directory", into(entry.directory)}});
  return entry;
}

FileEntry read_file(JsonReader& json) {
  FileEntry file;
  std::optional<Hash128> root;
  read_object(json, {{"path", [&](auto key) { file.path = read_text(json, key); }},
                     {"size", [&](auto key) { file.size_bytes = read_number(json, key, kMostBytes); }},
                     {"xxh3", [&](auto key) { root = parse_hash(read_text(json, key)); }},
                     {"rank", [&](auto key) { file.rank = read_number<std::uint32_t>(json, key); }, true}});
  if (!root) {
    json.fail(fmt::format("file '{}': 'xxh3' is not 32 hexadecimal digits", shown(file.path)));
  }
  file.root = *root;
  return file;
}

/// Refuses the text of another format, before anything else in it is believed: a later one may have other members.
void require_version(JsonReader json, const Blame& refuse) {
  std::string format;
  std::uint32_t version = 0;
  if (json.peek() == '{') {
    read_object(json, {{"format", [&](auto key) { format = read_text(json, key); }},
                       {"version", [&](auto key) { version = read_number<std::uint32_t>(json, key); }}});
    json.finish();
  }
  if (format != kFormatName) {
    refuse("this is not a checkpoint.json");
  }
  if (version == 0) {
    refuse("format versions start at 1");
  }
  if (version > kFormatVersion) {
    throw Error(Errc::unsupported_version,
                fmt::format("{}: format {}; this library reads format {} and before", refuse.where, version,
                            kFormatVersion));
  }
}

Manifest read_manifest(JsonReader json) {
  Manifest manifest;
  std::optional<Uuid> uuid;
  read_object(
      json,
      {{"uuid", [&](auto key) { uuid = parse_uuid(read_text(json, key)); }},
       {"generation", [&](auto key) { manifest.generation = read_number<std::uint32_t>(json, key); }},
       {"started", [&](auto key) { manifest.started = read_text(json, key); }},
       {"started_nanoseconds",
        [&](auto key) { manifest.started_nanoseconds = read_number(json, key, kMostNanoseconds); }, true},
       {"committed", [&](auto key) { manifest.committed = read_text(json, key); }},
       {"committed_nanoseconds",
        [&](auto key) { manifest.committed_nanoseconds = read_number(json, key, kMostNanoseconds); }, true},
       {"world_size", [&](auto key) { manifest.world_size = read_number<std::uint32_t>(json, key); }},
       {"custom_metadata", [&](auto) { manifest.custom_metadata = read_compact(json); }},
       {"annotations", [&](auto key) { manifest.annotations = read_object_text(json, key); }, true},
       {"checkpointables",
        [&](auto key) {
          read_list(json, key, [&] { manifest.checkpointables.push_back(read_checkpointable(json)); });
        }},
       {"files",
        [&](auto key) { read_list(json, key, [&] { manifest.files.push_back(read_file(json)); }); }}});
  json.finish();
  if (!uuid) {
    json.fail("'uuid' is not a UUID");
  }
  manifest.uuid = *uuid;
  return manifest;
}

/// The bytes of COMMIT.
struct CommitBytes {
  std::array<char, kCommitMagic.size()> magic{};
  boost::endian::little_uint32_t version{};
  boost::endian::little_uint32_t reserved{};
  Uuid uuid;
  boost::endian::little_uint64_t manifest_bytes{};
  boost::endian::little_uint64_t manifest_hash_high{};
  boost::endian::little_uint64_t manifest_hash_low{};
  std::array<char, 16> more_reserved{};
  boost::endian::little_uint64_t checksum{};
};
static_assert(sizeof(CommitBytes) == kCommitBytes && std::is_trivially_copyable_v<CommitBytes>);

std::uint64_t checksum_of(const CommitBytes& bytes) {
  return io::hash_chunk(std::as_bytes(std::span(&bytes, 1)).first(offsetof(CommitBytes, checksum)));
}

}  // namespace

bool is_checkpointable_directory(std::string_view name) noexcept {
  return name.size() <= 255 && io::is_plain_relative(name) && name.find('/') == std::string_view::npos &&
         !is_reserved(name);
}

std::string encode_manifest(const Manifest& manifest) {
  const Blame refuse{Errc::invalid_argument, std::string(kManifestName)};
  validate(manifest, refuse);
  std::string text;
  JsonWriter json(text, {JsonLayout::block, 1});
  json.begin_object().key("format").value(kFormatName).key("version").value(std::uint64_t{kFormatVersion});
  json.key("uuid")
      .value(to_string(manifest.uuid))
      .key("generation")
      .value(std::uint64_t{manifest.generation});
  const auto write_time = [&](const char* name, const std::string& time, std::uint64_t nanoseconds) {
    write_text(json, name, time, refuse);
    if (nanoseconds != 0) {
      json.key(fmt::format("{}_nanoseconds", name)).value(nanoseconds);
    }
  };
  write_time("started", manifest.started, manifest.started_nanoseconds);
  write_time("committed", manifest.committed, manifest.committed_nanoseconds);
  json.key("world_size").value(std::uint64_t{manifest.world_size}).key("custom_metadata");
  copy(manifest.custom_metadata, refuse, json);
  if (manifest.annotations != "{}") {
    json.key("annotations");
    copy(manifest.annotations, refuse, json);
  }
  write_checkpointables(json, manifest, refuse);
  write_files(json, manifest, refuse);
  json.end();
  if (text.size() > kMaxManifestBytes || manifest.custom_metadata.size() > kMaxCustomMetadataBytes ||
      manifest.annotations.size() > kMaxCustomMetadataBytes) {
    refuse(fmt::format("{} bytes of metadata are too many", text.size()));
  }
  return text;
}

Manifest decode_manifest(std::string_view text, std::string_view path) {
  const Blame refuse{Errc::malformed_metadata, std::string(path)};
  if (text.size() > kMaxManifestBytes) {
    refuse(fmt::format("{} bytes are too many", text.size()));
  }
  const JsonReader json(text, path, rules(refuse.code, kMaxMetadataDepth));
  require_version(json, refuse);
  Manifest manifest = read_manifest(json);
  validate(manifest, refuse);
  return manifest;
}

std::string encode_commit(const CommitRecord& record) {
  CommitBytes bytes;
  std::copy(kCommitMagic.begin(), kCommitMagic.end(), bytes.magic.begin());
  bytes.version = kFormatVersion;
  bytes.uuid = record.uuid;
  bytes.manifest_bytes = record.manifest_bytes;
  bytes.manifest_hash_high = record.manifest_hash.high;
  bytes.manifest_hash_low = record.manifest_hash.low;
  bytes.checksum = checksum_of(bytes);
  return {reinterpret_cast<const char*>(&bytes), sizeof bytes};
}

CommitRecord decode_commit(std::string_view bytes, std::string_view path) {
  const Blame refuse{Errc::malformed_metadata, std::string(path)};
  CommitBytes fields;
  bytes.copy(reinterpret_cast<char*>(&fields), sizeof fields);
  if (bytes.size() < offsetof(CommitBytes, reserved) || !bytes.starts_with(kCommitMagic)) {
    refuse("this is not a commit record");
  }
  // The version before the checksum: a later format may be longer and hashed otherwise.
  if (fields.version > kFormatVersion) {
    throw Error(Errc::unsupported_version,
                fmt::format("{}: format {}; this library reads format {} and before", path,
                            fields.version.value(), kFormatVersion));
  }
  if (bytes.size() != kCommitBytes || fields.version == 0) {
    refuse(
        fmt::format("{} bytes of format {} are not a commit record", bytes.size(), fields.version.value()));
  }
  if (checksum_of(fields) != fields.checksum) {
    throw Error(Errc::checksum_mismatch, std::string(path));
  }
  return {fields.uuid, fields.manifest_bytes, {fields.manifest_hash_high, fields.manifest_hash_low}};
}

std::string encode_chunks(std::span<const io::FileDigest> digests) {
  std::string bytes;
  for (const io::FileDigest& digest : digests) {
    const std::vector<boost::endian::little_uint64_t> chunks(digest.chunks.begin(), digest.chunks.end());
    bytes.append(reinterpret_cast<const char*>(chunks.data()), chunks.size() * sizeof(std::uint64_t));
  }
  return bytes;
}

std::string table_name(std::uint32_t rank) {
  return rank == 0 ? std::string(kChunksName) : fmt::format("{}/r{:05}.xxh3", kTablesName, rank);
}

std::map<std::uint32_t, std::uint64_t> chunk_tables(std::span<const FileEntry> files) {
  std::map<std::uint32_t, std::uint64_t> tables = {{0, 0}};
  for (const FileEntry& file : files) {
    tables[file.rank] += io::chunk_count(file.size_bytes) * sizeof(std::uint64_t);
  }
  return tables;
}

namespace {

std::string normalise(std::string_view text, const Blame& refuse) {
  if (text.size() > kMaxCustomMetadataBytes) {
    refuse(fmt::format("{} bytes; at most {} are allowed", text.size(), kMaxCustomMetadataBytes));
  }
  std::string normal;
  JsonWriter json(normal);
  copy(text, refuse, json);
  return normal;
}

}  // namespace

std::string normalise_custom_metadata(std::string_view text) {
  return normalise(text, {Errc::invalid_argument, "custom metadata"});
}

std::string normalise_annotations(std::string_view text) {
  const Blame refuse{Errc::invalid_argument, "annotations"};
  std::string normal = normalise(text, refuse);
  if (!normal.starts_with('{')) {
    refuse("this is not an object");
  }
  return normal;
}

}  // namespace cairn::store
