// SPDX-License-Identifier: Apache-2.0
#include "cli/help.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::size_t kLeastColumns = 40;
constexpr std::size_t kMostIndent = 30;

/// The commands below `app`, as they are listed: those in a group without a name are hidden.
std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands(
      [](const CLI::App* each) { return !each->get_name().empty() && !each->get_group().empty(); });
}

/// The options and positionals of a command, those in groups of options behind the others.
std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  std::vector<const CLI::Option*> options =
      command.get_options([](const CLI::Option* each) { return !each->get_group().empty(); });
  for (const CLI::App* group :
       command.get_subcommands([](const CLI::App* each) { return each->get_name().empty(); })) {
    const std::vector<const CLI::Option*> more = options_of(*group);
    options.insert(options.end(), more.begin(), more.end());
  }
  return options;
}

/// "-h", "--help".
std::vector<std::string> words_of(const CLI::Option& option) {
  std::vector<std::string> words;
  for (const std::string& name : option.get_snames()) {
    words.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    words.push_back("--" + name);
  }
  return words;
}

bool takes_value(const CLI::Option& option) {
  return option.get_type_size() != 0;
}

/// The words that an option takes, where its type names them: "apart|decimal".
std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const bool names_them = type.find('|') != std::string::npos && type.find(':') == std::string::npos;
  return names_them ? CLI::detail::split(type, '|') : std::vector<std::string>();
}

/// A word of a shell.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return word + "'";
}

/// Text as man(7) has it: nothing in it is an instruction.
std::string escaped(std::string_view text) {
  std::string page;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) {
      page += "\\&";
    }
    page += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
    begins_line = c == '\n';
  }
  return page;
}

void write_command(std::string& page, const CLI::App& command, const std::string& name) {
  std::string positionals;
  for (const CLI::Option* option : options_of(command)) {
    if (option->get_positional()) {
      const std::string word = option->get_name(true, false);
      positionals += option->get_required() ? " " + word : fmt::format(" [{}]", word);
    }
  }
  page += fmt::format(".SS {} [OPTIONS]{}\n{}\n", escaped(name), escaped(positionals),
                      escaped(command.get_description()));
  for (const CLI::Option* option : options_of(command)) {
    const bool is_positional = option->get_positional();
    std::string type = takes_value(*option) && !is_positional ? option->get_type_name() : "";
    page += fmt::format(".TP\n\\fB{}\\fR{}{}\n{}\n",
                        escaped(is_positional ? option->get_name(true, false)
                                              : fmt::format("{}", fmt::join(words_of(*option), ", "))),
                        type.empty() ? "" : " ", escaped(type), escaped(option->get_description()));
  }
  for (const CLI::App* each : commands_of(command)) {
    write_command(page, *each, fmt::format("{} {}", name, each->get_name()));
  }
}

std::string bash_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  std::string values;
  for (const CLI::App* command : commands_of(app)) {
    names += command->get_name() + ' ';
    std::string words;
    for (const CLI::Option* option : options_of(*command)) {
      words += fmt::format("{} ", fmt::join(words_of(*option), " "));
      if (const auto known = values_of(*option); !known.empty()) {
        values += fmt::format("    {}:{}) words={} ;;\n", command->get_name(), words_of(*option).back(),
                              shell_word(fmt::format("{}", fmt::join(known, " "))));
      }
    }
    std::string below;
    for (const CLI::App* each : commands_of(*command)) {
      below += each->get_name() + ' ';
    }
    cases += fmt::format("    {}) options={} below={} ;;\n", command->get_name(), shell_word(words),
                         shell_word(below));
  }
  return fmt::format(R"(# bash completion for cairn
_cairn() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} options= below= words=
  COMPREPLY=()
  if (( COMP_CWORD == 1 )); then
    COMPREPLY=($(compgen -W {} -- "$current"))
    return
  fi
  case $command:${{COMP_WORDS[COMP_CWORD-1]}} in
{}  esac
  case $command in
{}  esac
  if [[ -z $words ]]; then
    if [[ $current == -* ]]; then words=$options; else words=$below; fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o bashdefault -o default -F _cairn cairn
)",
                     shell_word(names + "--help --version"), values, cases);
}

std::string zsh_script(const CLI::App& app) {
  const auto described = [](std::string_view word, std::string_view text) {
    return shell_word(fmt::format("{}:{}", word, text)) + ' ';
  };
  std::string names;
  std::string cases;
  for (const CLI::App* command : commands_of(app)) {
    names += described(command->get_name(), command->get_description());
    std::string options;
    for (const CLI::Option* option : options_of(*command)) {
      for (const std::string& word : words_of(*option)) {
        options += described(word, option->get_description());
      }
    }
    std::string below;
    for (const CLI::App* each : commands_of(*command)) {
      below += described(each->get_name(), each->get_description());
    }
    cases += fmt::format("    {}) options=({}) below=({}) ;;\n", command->get_name(), options, below);
  }
  return fmt::format(R"(#compdef cairn
_cairn() {{
  local -a commands options below
  commands=({})
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case $words[2] in
{}  esac
  if [[ $words[CURRENT] == -* ]]; then
    _describe -o option options
    return
  fi
  (( ${{#below}} )) && _describe command below
  _files
}}
_cairn "$@"
)",
                     names, cases);
}

std::string fish_script(const CLI::App& app) {
  std::string script = "# fish completion for cairn\n";
  const auto add_command = [&script](const std::string& condition, const CLI::App& command) {
    script += fmt::format("complete -c cairn -n {} -a {} -d {}\n", shell_word(condition), command.get_name(),
                          shell_word(command.get_description()));
  };
  for (const CLI::App* command : commands_of(app)) {
    add_command("__fish_use_subcommand", *command);
    const std::string condition = "__fish_seen_subcommand_from " + command->get_name();
    for (const CLI::Option* option : options_of(*command)) {
      for (const std::string& name : option->get_lnames()) {
        const std::vector<std::string> values = values_of(*option);
        script += fmt::format(
            "complete -c cairn -n {} -l {}{} -d {}\n", shell_word(condition), name,
            !values.empty() ? fmt::format(" -x -a {}", shell_word(fmt::format("{}", fmt::join(values, " "))))
            : takes_value(*option) ? " -r"
                                   : "",
            shell_word(option->get_description()));
      }
    }
    for (const CLI::App* each : commands_of(*command)) {
      add_command(condition, *each);
    }
  }
  return script;
}

}  // namespace

HelpFormatter::HelpFormatter(std::size_t columns)
    : columns_(std::max(columns, kLeastColumns)), indent_(std::min(kMostIndent, columns_ / 3)) {}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrapped(app->get_description(), columns_) + "\n";
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  return app->get_footer().empty() ? "" : wrapped(app->get_footer(), columns_) + "\n";
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  return entry(sub->get_display_name(true), sub->get_description());
}

std::string HelpFormatter::make_expanded(const CLI::App* sub) const {
  constexpr std::size_t kIndent = 2;  // That CLI11 puts before its lines.
  return HelpFormatter(columns_ - kIndent).CLI::Formatter::make_expanded(sub);
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return entry(make_option_name(option, is_positional) + make_option_opts(option), make_option_desc(option));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  return option->get_positional() ? "" : CLI::Formatter::make_option_opts(option);
}

std::string HelpFormatter::entry(const std::string& name, const std::string& text) const {
  std::string line = "  " + name;
  const std::size_t width = display_width(line);
  if (width + 2 > indent_) {
    line += '\n';
  }
  line.append(width + 2 > indent_ ? indent_ : indent_ - width, ' ');
  return line + wrapped(text, columns_, indent_) + '\n';
}

std::string manual_page(const CLI::App& app, std::string_view version) {
  std::string page = fmt::format(
      ".TH CAIRN 1 \"\" \"{}\" \"User Commands\"\n.SH NAME\ncairn \\- checkpoints of "
      "numerical programs\n.SH SYNOPSIS\n.B cairn\n\\fICOMMAND\\fR [OPTIONS] ...\n"
      ".SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      escaped(version), escaped(app.get_description()));
  for (const CLI::App* command : commands_of(app)) {
    write_command(page, *command, "cairn " + command->get_name());
  }
  return page + fmt::format(".SH EXIT STATUS\n{}\n", escaped(app.get_footer()));
}

std::string completion_script(const CLI::App& app, std::string_view shell) {
  return shell == "bash" ? bash_script(app) : shell == "zsh" ? zsh_script(app) : fish_script(app);
}

}  // namespace cairn::cli
