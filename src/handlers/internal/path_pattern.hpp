// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::detail {

/// Says what joins the keys of a pattern, and of the paths that it is compared with.
enum class KeyJoiners {
  slash,
  /// A pattern with a `**` next to a point, as "module.**", is for flat names: their keys are joined by points, too.
  slash_or_point,
};

/// A pattern of paths: keys joined by '/'. In a key `*` stands for any characters; `**` in place of a key stands for
/// any number of keys, also none. See ArrayRules.
class PathPattern {
 public:
  /// `whose` says in errors what the pattern is of: "a rule for arrays".
  ///
  /// Errors: Errc::invalid_argument when it has an empty key or a `**` that is not all of one.
  PathPattern(std::string text, std::string_view whose, KeyJoiners joiners = KeyJoiners::slash);

  /// In time that is the product of both lengths, whatever the pattern is.
  [[nodiscard]] bool matches(std::string_view path) const;

  /// The path that `becomes` makes of one that this matches: its wildcards stand for what those of the same kind have
  /// matched here, in their order. Nothing where it does not match.
  [[nodiscard]] std::optional<std::string> replaced(std::string_view path, const PathPattern& becomes) const;

  /// Returns whether each wildcard of `becomes` has one here to stand for.
  [[nodiscard]] bool can_become(const PathPattern& becomes) const noexcept;

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  /// A key, [begin, end) of its text, and the character before it; 0: none.
  struct Part {
    std::size_t begin = 0;
    std::size_t end = 0;
    char joiner = 0;
  };

  [[nodiscard]] static std::vector<Part> split(std::string_view text, std::string_view joiners);
  [[nodiscard]] std::string_view key(std::size_t i) const noexcept;
  [[nodiscard]] bool joins(std::size_t i, const Part& of_path) const noexcept;
  [[nodiscard]] std::vector<bool> fits(std::string_view path, const std::vector<Part>& keys) const;

  std::string text_;
  std::string_view joiners_ = "/";
  std::vector<Part> parts_;
  std::size_t stars_ = 0;     // In keys.
  std::size_t any_keys_ = 0;  // Keys that are `**`.
};

/// In how many letters two texts agree from the front, and then from the back, whatever their case is.
[[nodiscard]] std::size_t likeness(std::string_view a, std::string_view b);

}  // namespace cairn::detail
