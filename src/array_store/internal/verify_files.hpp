// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/formats/foreign_catalogue.hpp"

#include "array_store/internal/reader.hpp"
#include "formats/internal/index.hpp"

namespace cairn::array_store {

/// What is wrong with a part of a file.
struct FileProblem {
  std::string file;
  std::uint64_t begin_bytes = 0;
  std::uint64_t end_bytes = 0;
  std::string text;  ///< For people: the path, the part, and what is wrong.
};

/// What was found in files of other programs.
struct FilesReport {
  std::uint64_t members = 0;        ///< That were compared,
  std::uint64_t checked_bytes = 0;  ///< and of how many bytes.
  std::uint64_t unchecked_bytes =
      0;                            ///< Of parts that have no sum; of all files where there are no archives.
  std::uint64_t problem_count = 0;  ///< All of them: many may be left out of
  std::vector<FileProblem> problems;
  std::vector<std::string> notes;  ///< What a load leaves out or tells of the files.
};

/// What was found in the objects of other programs, whose kind is not known before they are read.
struct ObjectsReport {
  std::vector<formats::LeftOut> left_out;  ///< What has no place in a tree.
  std::vector<FileProblem> problems;       ///< Of objects that cannot be read.
};

/// Reads all objects of an index, one after the other, and keeps none.
///
/// Errors: OS errors are in the report, as all else is.
[[nodiscard]] Awaitable<ObjectsReport> look_into_objects(std::shared_ptr<const StoredFiles> files,
                                                         std::shared_ptr<const FileLayout> layout,
                                                         formats::Index index);

/// Compares the members of all archives with their sums, in bounded memory, and looks at whatever says where elements
/// lie: all slices tile their arrays, lie in the files, and are what the description says of them. What has codecs is
/// decoded, and objects are read as a load reads them. `done_bytes` counts what was compared.
///
/// Errors: those of FileLayout::describe; those of plan_read where slices do not tile their arrays, overlap, or are not
///         in the files: then nothing else can be told. OS errors. All else is in the report.
[[nodiscard]] Awaitable<FilesReport> verify_files(std::shared_ptr<const StoredFiles> files,
                                                  std::shared_ptr<const FileLayout> layout,
                                                  std::shared_ptr<std::atomic<std::uint64_t>> done_bytes);

}  // namespace cairn::array_store
