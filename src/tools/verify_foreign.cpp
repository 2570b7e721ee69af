// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/verify_foreign.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "array_store/internal/verify_files.hpp"
#include "async/internal/start.hpp"
#include "io/internal/syscalls.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/source.hpp"
#include "tools/source_files.hpp"

namespace cairn::tools {
namespace {

using Counter = std::shared_ptr<std::atomic<std::uint64_t>>;

// outlives: `report` is the caller's, who waits for this.
Awaitable<> verify_into(std::shared_ptr<const SourceFiles> files,
                        std::shared_ptr<const array_store::FileLayout> layout, Counter done_bytes,
                        std::optional<array_store::FilesReport>* report) {
  Awaitable<array_store::FilesReport> verifying =
      array_store::verify_files(std::move(files), std::move(layout), std::move(done_bytes));
  report->emplace(co_await std::move(verifying));
}

// outlives: `report` is the caller's, who waits for this.
Awaitable<> look_into(std::shared_ptr<const SourceFiles> files,
                      std::shared_ptr<const array_store::FileLayout> layout, formats::Index index,
                      array_store::ObjectsReport* report) {
  Awaitable<array_store::ObjectsReport> looking =
      array_store::look_into_objects(std::move(files), std::move(layout), std::move(index));
  *report = co_await std::move(looking);
}

}  // namespace

std::vector<formats::LeftOut> left_out_of_objects(const std::filesystem::path& path,
                                                  const std::string& layout) {
  const auto source = store::open_source(io::posix_syscalls(), path);
  staging::OwnPlane own(io::posix_syscalls(), 1);
  const auto files = std::make_shared<const SourceFiles>(own.plane(), source, "");
  const auto chosen = array_store::find_layout(files->names(), {}, layout);
  array_store::ObjectsReport report;
  async::start(own.strand(), look_into(files, chosen, open_index(own, files, chosen), &report)).get();
  for (const array_store::FileProblem& problem : report.problems) {
    report.left_out.push_back({problem.file, "an object that cannot be read (" + problem.text + ")"});
  }
  return std::move(report.left_out);
}

ForeignVerification verify_foreign(const std::filesystem::path& path, const std::string& layout,
                                   std::size_t threads, const Counter& done_bytes) {
  const auto source = store::open_source(io::posix_syscalls(), path);
  staging::OwnPlane own(io::posix_syscalls(), threads);
  const auto files = std::make_shared<const SourceFiles>(own.plane(), source, "");
  const auto chosen = array_store::find_layout(files->names(), {}, layout);
  if (chosen == nullptr) {
    throw Error(Errc::not_found, fmt::format("{}: no layout recognises it", path.string()));
  }
  std::optional<array_store::FilesReport> found;
  async::start(own.strand(), verify_into(files, chosen, done_bytes, &found)).get();
  ForeignVerification verification;
  verification.layout = chosen->name();
  verification.members = found->members;
  verification.unchecked_bytes = found->unchecked_bytes;
  verification.notes = std::move(found->notes);
  store::VerifyReport& report = verification.report;
  report.path = path;
  report.files = files->names().size();
  report.bytes = found->checked_bytes;
  report.problem_count = found->problem_count;
  for (array_store::FileProblem& problem : found->problems) {
    store::VerifyProblem& shown = report.problems.emplace_back();
    shown.file = std::move(problem.file);
    shown.begin_bytes = problem.begin_bytes;
    shown.end_bytes = problem.end_bytes;
    shown.text = std::move(problem.text);
  }
  return verification;
}

}  // namespace cairn::tools
