// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include <google/protobuf/message.h>

#include "cairn/proto/chunked_message.hpp"
#include "cairn/proto/merger.hpp"
#include "cairn/proto/path.hpp"

// Files of whole messages (`.pb`) and of chunks (`.cpb`: riegeli/records, the last record says where the others
// belong). ComposableSplitter::write makes them, and so does TensorFlow.

namespace cairn::proto {

/// Reads `<prefix>.cpb`, or `<prefix>.pb` where that is all there is, into `out`, which is cleared first. When it fails
/// `out` holds anything.
///
/// A message that is replaced meanwhile is read whole, as it was before or as it is then. Chunks are read, unpacked and
/// parsed by several threads, each once.
/// Errors: as Merger and records::RecordReader; Errc::not_found, naming both files; Errc::malformed_metadata for two
///         chunks that are one record; ENOMEM, naming the file; Errc::feature_missing for a `.cpb` where this library
///         was built without records.
Merged read(const std::filesystem::path& prefix, google::protobuf::Message& out,
            const MergeOptions& options = {});
/// Reads the bytes of either file.
Merged read_string(std::string_view bytes, google::protobuf::Message& out, const MergeOptions& options = {});
/// Reads what lies at `part` of a message of type `whole` into `out`, which is of the type of the part. Of a `.cpb`
/// only the chunks are read that have something of it.
///
/// Errors: as Merger as well.
Merged read_part(const std::filesystem::path& prefix, const google::protobuf::Descriptor& whole,
                 const Path& part, google::protobuf::Message& out, const MergeOptions& options = {});
/// Returns what `<prefix>.cpb` says of its chunks; reads its last record only. "cairn/proto/chunked.pb.h" defines it.
[[nodiscard]] std::unique_ptr<chunked::ChunkMetadata> read_metadata(const std::filesystem::path& prefix);

}  // namespace cairn::proto
