// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace cairn::cli {

/// Lays help out in lines of at most so many columns.
class HelpFormatter final : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::size_t columns);

  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
  std::string make_expanded(const CLI::App* sub) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;

 private:
  [[nodiscard]] std::string entry(const std::string& name, const std::string& text) const;

  std::size_t columns_;
  std::size_t indent_;  // Of the texts of options.
};

/// The manual page of the tool, in the language of man(7): all that its parser knows.
[[nodiscard]] std::string manual_page(const CLI::App& app, std::string_view version);

/// The script by which "bash", "zsh" or "fish" completes words of the tool: commands, their options, names of files.
[[nodiscard]] std::string completion_script(const CLI::App& app, std::string_view shell);

}  // namespace cairn::cli
