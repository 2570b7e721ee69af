// SPDX-License-Identifier: Apache-2.0
#include "tools/internal/verify_foreign.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"
#include "cairn/base/error.hpp"

#include "array_store/internal/verify_files.hpp"
#include "async/internal/start.hpp"
#include "io/internal/engine.hpp"
#include "io/internal/stored_file.hpp"
#include "io/internal/syscalls.hpp"
#include "staging/internal/own_plane.hpp"
#include "store/internal/source.hpp"
#include "tools/sha256.hpp"
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

constexpr std::string_view kHashesFile = "integrity.json";
constexpr std::uint64_t kMostHashesBytes = std::uint64_t{16} << 20;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

/// Compares files of Megatron-Core's with its list of their hashes.
class ListedHashes {
 public:
  ListedHashes(const store::Source& source, io::Engine& engine, ForeignVerification& found,
               Counter done_bytes)
      : source_(source), engine_(engine), found_(found), done_bytes_(std::move(done_bytes)) {}

  /// Returns the files that are as the list says.
  std::set<std::string> check() {
    const std::string list(kHashesFile);
    if (source_.file_bytes(list).value_or(0) > kMostHashesBytes) {
      add(list, fmt::format("it has more than {} bytes, and is not read", kMostHashesBytes));
      return {};
    }
    const nlohmann::json hashes = nlohmann::json::parse(source_.read_verified(engine_, list), nullptr, false);
    const bool is_list = hashes.is_object() && hashes.contains("files") && hashes["files"].is_object() &&
                         hashes.value("algorithm", nlohmann::json("sha256")) == "sha256";
    if (!is_list) {
      add(list, "it is not a list of SHA-256 hashes by file, so that nothing is compared with it");
      return {};
    }
    std::set<std::string> same;
    for (const auto& [name, hash] : hashes["files"].items()) {
      if (!source_.file_bytes(name)) {
        add(name, fmt::format("it is missing, and {} lists it", kHashesFile));
      } else if (!hash.is_string() || hash_of(name) != hash.get<std::string>()) {
        add(name, fmt::format("not what was written: its SHA-256 is another than in {}", kHashesFile));
      } else {
        same.insert(name);
      }
    }
    return same;
  }

 private:
  void add(const std::string& file, std::string_view what) {
    ++found_.report.problem_count;
    store::VerifyProblem& problem = found_.report.problems.emplace_back();
    problem.file = file;
    problem.end_bytes = source_.file_bytes(file).value_or(0);
    problem.text = fmt::format("{}: {}", (source_.root() / file).string(), what);
  }

  [[nodiscard]] std::string hash_of(const std::string& name) const {
    const std::uint64_t size = *source_.file_bytes(name);
    const std::unique_ptr<io::StoredFile> file = source_.open_file(engine_, name, false);
    std::vector<std::byte> bytes(kReadBytes);
    Sha256 hash;
    for (std::uint64_t at = 0; at < size; at += kReadBytes) {
      const auto part =
          std::span(bytes).first(static_cast<std::size_t>(std::min<std::uint64_t>(kReadBytes, size - at)));
      file->read_now(at, part);
      hash.add(part);
      *done_bytes_ += part.size();
    }
    return std::move(hash).hex();
  }

  const store::Source& source_;
  io::Engine& engine_;
  ForeignVerification& found_;
  const Counter done_bytes_;
};

/// Files of a distributed checkpoint of torch that say what the others hold.
bool describes_others(std::string_view file) {
  return file == ".metadata" || (file.starts_with("__") && file.ends_with(".metadata")) ||
         file == "metadata.json";
}

/// Adds what the list of hashes tells, and which files nothing has a sum of.
void verify_descriptions(const store::Source& source, io::Engine& engine, ForeignVerification& found,
                         const Counter& done_bytes) {
  const std::vector<std::string> names = source.files("");
  std::set<std::string> same;
  if (std::find(names.begin(), names.end(), kHashesFile) != names.end()) {
    same = ListedHashes(source, engine, found, done_bytes).check();
  }
  for (const std::string& name : names) {
    const std::uint64_t bytes = source.file_bytes(name).value_or(0);
    if (same.contains(name)) {
      found.report.bytes +=
          describes_others(name) ? bytes : 0;  // The others count by the members of archives.
    } else if (describes_others(name)) {
      found.unchecked_files.push_back(name);
      found.unchecked_bytes += bytes;
    }
  }
}

}  // namespace

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
  if (chosen->name() == "torch.distributed") {
    verify_descriptions(*source, own.plane().engine, verification, done_bytes);
  }
  return verification;
}

}  // namespace cairn::tools
