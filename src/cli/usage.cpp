// SPDX-License-Identifier: Apache-2.0
#include "cli/usage.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/output.hpp"

namespace cairn::cli {
namespace {

constexpr std::size_t kMostTypos = 2;

/// How many letters must be put in, left out or replaced to make `b` of `a`.
std::size_t typos_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// "; did you mean 'ls'?" of the command that was probably meant; empty when none is near.
std::string suggested_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  const std::string nearest = nearest_word(word, names);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

/// Returns what CLI11 says of an option with too many values or none, in our words; all else as it says it.
std::string in_other_words(const CLI::ParseError& error) {
  const std::string text = error.what();
  if (error.get_name() != "ArgumentMismatch") {
    return text;
  }
  const bool is_repeated = text.find("At Most") != std::string::npos;
  return text.substr(0, text.find(':')) + (is_repeated ? " is given more than once" : " needs a value");
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  std::string nearest;
  std::size_t least = std::min(kMostTypos + 1, word.size());
  for (const std::string& one : known) {
    const std::size_t lengths_apart = std::max(one.size(), word.size()) - std::min(one.size(), word.size());
    const std::size_t typos = lengths_apart < least ? typos_between(word, one) : least;
    if (typos < least) {
      least = typos;
      nearest = one;
    }
  }
  return nearest;
}

std::string program_problem(const CLI::App& agent, std::span<const std::string> program,
                            std::size_t behind_dashes) {
  if (program.size() <= behind_dashes) {
    return {};
  }
  return fmt::format("unknown command 'agent {}'; a program stands behind --{}", program.front(),
                     suggested_command(agent, program.front()));
}

std::string usage_problem(const CLI::App& app, const CLI::ParseError& error) {
  const bool has_command = !app.get_subcommands().empty();
  const std::vector<std::string> words = app.remaining(has_command);
  if (has_command && (words.empty() || dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr)) {
    return in_other_words(error);
  }
  if (words.empty()) {
    return "a command is required";
  }
  if (words.front().starts_with('-')) {
    return fmt::format("unknown option '{}'", words.front());
  }
  if (has_command) {
    return fmt::format("unexpected argument '{}'", words.front());
  }
  return fmt::format("unknown command '{}'{}", words.front(), suggested_command(app, words.front()));
}

void complain_of_usage(const CLI::App& app, const std::string& problem) {
  complain(problem);
  const std::vector<CLI::App*> commands = app.get_subcommands();
  std::fprintf(stderr, "Run 'cairn %s--help' for more.\n",
               commands.empty() ? "" : (commands.front()->get_name() + " ").c_str());
}

}  // namespace cairn::cli
