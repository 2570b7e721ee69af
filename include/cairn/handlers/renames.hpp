// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// A pattern of paths, and what becomes of those that it matches.
struct Rename {
  Rename(std::string from, std::string to) : pattern(std::move(from)), becomes(std::move(to)) {}

  std::string pattern;
  std::string becomes;
};

/// Other names for what is stored: a list of patterns, or a function of the path.
///
/// Patterns are those of ArrayRules. `becomes` is made like one: its first `**` stands for what the first `**` of the
/// pattern has matched, its second for the second, and so do its `*`. A path is renamed once, by the first pattern
/// that it matches; without one it stays. A pattern with a `**` next to a point, as "module.**", is for flat names:
/// their keys are joined by points, too.
/// Threads:  a value; a function is called on whatever thread renames.
/// Example:  options.rename = {{"module.**", "**"}, {"model/**", "network/model/**"}};
///           options.rename = [](std::string_view path) { return "network/" + std::string(path); };
class Renames {
 public:
  /// Gets a path as it is stored, of a leaf, and returns the one that it has from here on: with '~' and '/' in keys
  /// written as append_key writes them.
  using Function = std::function<std::string(std::string_view path)>;

  Renames() = default;
  Renames(std::initializer_list<Rename> patterns) : patterns_(patterns) {}
  Renames(std::vector<Rename> patterns)
      : patterns_(std::move(patterns)) {}  // NOLINT(google-explicit-constructor)

  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Renames> &&
           std::is_invocable_r_v<std::string, F&, std::string_view>) Renames(F function)
      : function_(std::move(function)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool empty() const noexcept { return patterns_.empty() && !function_; }

  class Use;

 private:
  std::vector<Rename> patterns_;
  Function function_;
};

/// The renames in one load: remembers which patterns have matched.
class Renames::Use {
 public:
  /// `separator` divides the keys of paths before they are renamed, unless it is empty, and in patterns stands for '/'.
  ///
  /// Errors: Errc::invalid_argument: a pattern that is none, or lacks a wildcard of what it becomes; a separator with a
  ///         '*'.
  explicit Use(const Renames& renames, std::string separator = {});

  /// Returns what becomes of paths, in their order.
  ///
  /// Errors: Errc::invalid_argument, naming the culprits: two paths that would become one; patterns that lead back to
  ///         a path; what is no path.
  [[nodiscard]] std::vector<std::string> apply(std::span<const std::string> paths);

  /// Returns a sentence for each pattern that has matched nothing, with the path that is most like it.
  [[nodiscard]] std::vector<std::string> unused() const;
  /// Errors: Errc::invalid_argument, with those sentences, where there are any.
  void require_used() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cairn
