// SPDX-License-Identifier: Apache-2.0
#include "training/internal/step_lines.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/assert.hpp"
#include "base/internal/probe.hpp"

namespace cairn::training {
namespace {

constexpr std::size_t kMostForks = 1000;
constexpr std::size_t kMaxLineBytes = 64 << 10;

/// The number that a text begins with, and what follows it, which is taken off; nothing where there is none.
std::optional<std::uint64_t> take_number(std::string_view& text, char end) {
  std::uint64_t number = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto used = static_cast<std::size_t>(stopped - text.data());
  if (error != std::errc() || used == text.size() || *stopped != end) {
    return std::nullopt;
  }
  text.remove_prefix(used + 1);
  return number;
}

}  // namespace

StepLines StepLines::read(const io::Directory& root) {
  StepLines lines;
  const std::string name = fmt::format("{}/{}", kFlashName, kLineName);
  if (!root.status(kFlashName) || !root.status(name)) {
    return lines;
  }
  const std::string file = io::read_small_file(root, name, kMaxLineBytes);
  std::string_view text = file;
  const std::optional<std::uint64_t> newest = take_number(text, '\n');
  bool is_sound = newest.has_value();
  while (is_sound && !text.empty()) {
    const std::optional<std::uint64_t> line = take_number(text, ' ');
    const std::optional<std::uint64_t> from = line ? take_number(text, '\n') : std::nullopt;
    is_sound =
        from && *line <= *newest && *line > 0 &&
        (lines.forks_.empty() || (lines.forks_.back().line < *line && lines.forks_.back().from < *from));
    if (is_sound) {
      lines.forks_.push_back({*line, *from});
    }
  }
  if (!is_sound) {
    throw Error(Errc::malformed_metadata,
                fmt::format("{}: not the number of a line of steps, and where each has left the one before",
                            (root.path() / name).string()));
  }
  lines.newest_ = *newest;
  return lines;
}

StepLines::Standing StepLines::standing(std::uint64_t line, std::uint64_t step) const noexcept {
  if (line > newest_) {
    return Standing::unknown;
  }
  const auto left =
      std::find_if(forks_.begin(), forks_.end(), [line](const Fork& fork) { return fork.line > line; });
  return left == forks_.end() || step < left->from ? Standing::kept : Standing::given_up;
}

void StepLines::begin(std::uint64_t from) {
  ++newest_;
  std::erase_if(forks_, [from](const Fork& fork) { return fork.from >= from; });
  CAIRN_ASSERT(forks_.empty() || (forks_.back().line < newest_ && forks_.back().from < from),
               "later lines have left the others later");
  forks_.push_back({newest_, from});
  if (forks_.size() > kMostForks) {  // Of the earliest lines rather too much is given up.
    forks_.front().line = forks_[1].line;
    forks_.erase(forks_.begin() + 1);
  }
}

void StepLines::write(const io::Directory& root, const store::RandomSource& random) const {
  std::string text = fmt::format("{}\n", newest_);
  for (const Fork& fork : forks_) {
    text += fmt::format("{} {}\n", fork.line, fork.from);
  }
  const io::Directory directory = root.open_directory(kFlashName);
  const std::string made = fmt::format("{}.{}", kLineName, store::to_string(store::make_uuid(random)));
  io::write_small_file(directory, made, text, 0600);
  directory.rename(made, directory, kLineName, io::RenameMode::replace);
  directory.sync();
}

void StepLines::write_back(const io::Directory& root, const store::RandomSource& random) const noexcept {
  try {
    write(root, random);
  } catch (const Error&) {
    CAIRN_PROBE("training.line_not_written_back");
  }
}

std::optional<StepLines> begin_line(const io::Directory& root, std::uint64_t from,
                                    const store::RandomSource& random) {
  if (!root.status(kFlashName)) {
    return std::nullopt;
  }
  const StepLines before = StepLines::read(root);
  StepLines after = before;
  after.begin(from);
  try {
    after.write(root, random);
  } catch (...) {
    before.write_back(root, random);
    throw;
  }
  return before;
}

}  // namespace cairn::training
