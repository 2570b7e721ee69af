// SPDX-License-Identifier: Apache-2.0
#include "cli/selection.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

namespace cairn::cli {
namespace {

constexpr std::string_view kEllipsis = "...";

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

/// Reads the parts of one subscript, and names it in what it refuses.
class SelectionParser {
 public:
  SelectionParser(std::string_view array, std::string_view subscript, const Shape& shape)
      : array_(array), subscript_(subscript), shape_(shape) {}

  [[nodiscard]] Selection parse() const {
    std::vector<std::string_view> parts;
    if (!trimmed(subscript_).empty()) {
      parts = split(subscript_, ',');
    }
    expand_ellipsis(parts);
    if (parts.size() > shape_.size()) {
      refuse(fmt::format("{} indices for {} dimensions", parts.size(), shape_.size()));
    }
    Selection selection;
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      selection.push_back(d < parts.size() ? range(parts[d], d) : SelectedRange{0, shape_[d], false});
    }
    return selection;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Errc::invalid_argument, fmt::format("'{}[{}]': {}", array_, subscript_, why));
  }

  /// Puts as many ":" in its place as there are dimensions left.
  void expand_ellipsis(std::vector<std::string_view>& parts) const {
    const auto first = std::find(parts.begin(), parts.end(), kEllipsis);
    if (first == parts.end()) {
      return;
    }
    if (std::find(first + 1, parts.end(), kEllipsis) != parts.end()) {
      refuse("'...' is allowed only once");
    }
    const auto named = parts.size() - 1;
    const auto missing = shape_.size() > named ? shape_.size() - named : 0;
    parts.insert(parts.erase(first), missing, ":");
  }

  [[nodiscard]] std::int64_t number(std::string_view text) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) {
      refuse(fmt::format("'{}' does not fit in 64 bits", text));
    }
    if (error != std::errc() || end != text.data() + text.size()) {
      refuse(fmt::format("'{}' is neither an index nor a range such as 0:5", text));
    }
    return value;
  }

  /// The end of a range, counted from the back when it is negative, and cut off.
  [[nodiscard]] std::uint64_t clamped(std::string_view text, std::uint64_t extent) const {
    const std::int64_t value = number(text);
    if (value >= 0) {
      return std::min(static_cast<std::uint64_t>(value), extent);
    }
    const std::uint64_t back = 0 - static_cast<std::uint64_t>(value);
    return back > extent ? 0 : extent - back;
  }

  [[nodiscard]] SelectedRange range(std::string_view text, std::size_t dimension) const {
    const std::uint64_t extent = shape_[dimension];
    const std::vector<std::string_view> ends = split(text, ':');
    if (ends.size() > 3) {
      refuse(fmt::format("'{}' is neither an index nor a range such as 0:5", text));
    }
    if (ends.size() == 3 && !ends[2].empty() && ends[2] != "1") {
      refuse(fmt::format("'{}' has a step; only ranges without steps can be shown", text));
    }
    if (ends.size() >= 2) {
      const std::uint64_t begin = ends[0].empty() ? 0 : clamped(ends[0], extent);
      const std::uint64_t end = ends[1].empty() ? extent : clamped(ends[1], extent);
      return {begin, std::max(begin, end), false};
    }
    const std::int64_t value = number(text);
    const std::uint64_t magnitude =
        value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    if (value < 0 ? magnitude > extent : magnitude >= extent) {
      refuse(fmt::format("index {} is outside dimension {}, whose extent is {}", value, dimension, extent));
    }
    const std::uint64_t begin = value < 0 ? extent - magnitude : magnitude;
    return {begin, begin + 1, true};
  }

  std::string_view array_;
  std::string_view subscript_;
  const Shape& shape_;
};

}  // namespace

std::pair<std::string_view, std::optional<std::string_view>> split_subscript(std::string_view text) {
  const auto bracket = text.rfind('[');
  if (bracket == std::string_view::npos || !text.ends_with(']')) {
    return {text, std::nullopt};
  }
  return {text.substr(0, bracket), text.substr(bracket + 1, text.size() - bracket - 2)};
}

Selection parse_selection(std::string_view array, std::string_view subscript, const Shape& shape) {
  return SelectionParser(array, subscript, shape).parse();
}

std::string to_string(const Selection& selection) {
  std::vector<std::string> parts;
  for (const SelectedRange& range : selection) {
    parts.push_back(range.is_index ? fmt::to_string(range.begin)
                                   : fmt::format("{}:{}", range.begin, range.end));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

Shape selected_shape(const Selection& selection) {
  std::vector<std::uint64_t> extents;
  for (const SelectedRange& range : selection) {
    if (!range.is_index) {
      extents.push_back(range.end - range.begin);
    }
  }
  return Shape(std::span<const std::uint64_t>(extents));
}

}  // namespace cairn::cli
