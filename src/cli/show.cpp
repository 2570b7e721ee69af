// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cairn/base/error.hpp"

#include "base/internal/json_string.hpp"
#include "base/internal/printable.hpp"
#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/document.hpp"
#include "cli/grid.hpp"
#include "cli/name_filter.hpp"
#include "cli/report.hpp"
#include "cli/selection.hpp"
#include "cli/text.hpp"
#include "cli/usage_error.hpp"
#include "cli/window.hpp"
#include "cli/write_elements.hpp"
#include "tools/internal/checkpoint_view.hpp"

namespace cairn::cli {
namespace {

using tools::CheckpointView;

constexpr std::size_t kMostTextBytes = 4096;  // Of a string or of bytes that are shown to people.

/// Holds what has a name in a checkpoint: an array, a value, or a whole checkpointable.
struct Named {
  std::string title;  ///< "checkpointable/path".
  std::string item;
  std::optional<ArrayPlace> array;
  std::optional<DescribedValue> value;
};

constexpr std::size_t kMostNames = 5;  // Of a subtree that was named instead of something in it.

/// Returns what lies below `name`: a title, or a path in some checkpointable.
std::vector<std::string> titles_below(const CheckpointView& checkpoint, std::string_view name) {
  const std::string subtree = fmt::format("{}/", name);
  std::vector<std::string> below;
  for (const auto& [item, metadata] : checkpoint.metadata().items) {
    for (std::string& title : titles_of(item, checkpoint.description(item), checkpoint.is_foreign())) {
      const bool is_in = title.starts_with(subtree) || title.starts_with(title_of(item, subtree));
      if (is_in) {
        below.push_back(std::move(title));
      }
    }
  }
  return below;
}

[[noreturn]] void refuse_subtree(std::string_view name, std::vector<std::string> below) {
  const std::size_t left = below.size() - std::min(below.size(), kMostNames);
  below.resize(below.size() - left);
  throw Error(
      Errc::invalid_argument,
      fmt::format("'{}' is a subtree, not an array or a value; below it: '{}'{}", name,
                  fmt::join(below, "', '"), left == 0 ? "" : fmt::format(" and {} more", count_text(left))));
}

/// All that `name` names: what has exactly that title, else what has that path in some checkpointable. `looks_inside`:
/// also in objects, which are read.
std::vector<Named> find_named(const CheckpointView& checkpoint, std::string_view name, bool looks_inside) {
  std::vector<Named> exact;
  std::vector<Named> by_path;
  const auto add = [&](Named named, std::string_view path) {
    if (named.title == name) {
      exact.push_back(std::move(named));
    } else if (!path.empty() && path == name) {
      by_path.push_back(std::move(named));
    }
  };
  for (const auto& [item, metadata] : checkpoint.metadata().items) {
    const Description description = looks_inside ? checkpoint.description(item) : metadata.description();
    for (const ArrayEntry& array : description.arrays) {
      ArrayPlace place{checkpoint.path(),       item,        description.layout,
                       std::string(array.name), array.dtype, array.shape};
      const std::string path = shown_path(array.name, checkpoint.is_foreign());
      add({title_of(item, path), item, std::move(place), std::nullopt}, path);
    }
    for (const DescribedValue& value : description.values) {
      const std::string path = shown_path(value.name, checkpoint.is_foreign());
      add({title_of(item, path), item, std::nullopt, value}, path);
    }
    if (item == name && exact.empty()) {
      exact.push_back({item, item, std::nullopt, std::nullopt});
    }
  }
  return exact.empty() ? by_path : exact;
}

std::vector<Named> find_named(const CheckpointView& checkpoint, std::string_view name) {
  const auto is_object = [](const Named& named) { return named.value && named.value->kind == "object"; };
  std::vector<Named> found = find_named(checkpoint, name, false);
  return found.empty() || std::any_of(found.begin(), found.end(), is_object)
             ? find_named(checkpoint, name, true)
             : found;
}

[[noreturn]] void refuse_missing(const CheckpointView& checkpoint, std::string_view name) {
  if (std::vector<std::string> below = titles_below(checkpoint, name); !below.empty()) {
    refuse_subtree(name, std::move(below));
  }
  for (const auto& [item, metadata] : checkpoint.metadata().items) {
    if (const std::string problem = problem_text(metadata); !problem.empty()) {
      throw Error(metadata.problem_code, problem);  // It may have been there.
    }
  }
  for (const auto& [item, metadata] : checkpoint.metadata().items) {
    for (const DescribedValue& one : metadata.description().left_out) {
      if (one.name == name || title_of(item, one.name) == name) {
        throw Error(Errc::not_found, fmt::format("{}: '{}' was left out: {}", checkpoint.path().string(),
                                                 title_of(item, one.name), one.kind));
      }
    }
  }
  const bool is_open = name.find('[') != std::string_view::npos && !name.ends_with(']');
  throw Error(Errc::not_found,
              fmt::format("{}: nothing is called '{}'{}{}; `cairn show {}` lists the names",
                          checkpoint.path().string(), name, is_open ? ", and its '[' is not closed" : "",
                          suggestion(name, checkpoint.metadata()), checkpoint.path().string()));
}

/// The only thing of that name. Brackets belong to the name when there is one with them.
std::pair<Named, std::optional<std::string_view>> resolve(const CheckpointView& checkpoint,
                                                          std::string_view text) {
  std::optional<std::string_view> subscript;
  std::vector<Named> found = find_named(checkpoint, text);
  if (found.empty()) {
    std::tie(text, subscript) = split_subscript(text);
    found = find_named(checkpoint, text);
  }
  if (found.empty()) {
    refuse_missing(checkpoint, text);
  }
  if (found.size() > 1) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' is ambiguous: '{}' or '{}'", text, found[0].title, found[1].title));
  }
  return {std::move(found.front()), subscript};
}

void write_shape(JsonWriter& json, std::string_view key, const Shape& shape) {
  json.key(key).begin_list();
  for (const std::uint64_t extent : shape) {
    json.value(extent);
  }
  json.end();
}

/// Nested lists, as the dimensions are; the elements of the last one on a line.
class JsonGrid {
 public:
  JsonGrid(JsonWriter& json, const Shape& shape) : json_(json), shape_(shape) {}

  void begin() { open(0); }

  void add(const Elements& elements, std::size_t i) {
    elements.write(json_, i);
    ++count_;
    std::uint64_t row = 1;
    std::size_t ended = 0;
    for (std::size_t d = shape_.size(); d > 0; --d) {
      row *= shape_[d - 1];
      if (count_ % row != 0) {
        break;
      }
      json_.end();
      ++ended;
    }
    if (ended != shape_.size()) {
      open(shape_.size() - ended);
    }
  }

 private:
  void open(std::size_t from) {
    for (std::size_t d = from; d < shape_.size(); ++d) {
      json_.begin_list();
    }
  }

  JsonWriter& json_;
  const Shape& shape_;
  std::uint64_t count_ = 0;
};

void write_array(JsonWriter json, const Named& named, const Selection& selection, std::uint64_t limit) {
  const ArrayPlace& array = *named.array;
  const Shape shown = selected_shape(selection);
  const auto count = element_count(shown);
  if (!count || *count > limit) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("'{}': {} are more than the limit of {}; select a part of the array, or raise --limit",
                    named.title, count_text(count.value_or(0), "element"), count_text(limit)));
  }
  const Window window = plan_window(named.title, array, selection, limit);
  json.begin_object().key("name").value(named.title).key("dtype").value(dtype_text(array.dtype));
  write_shape(json, "shape", array.shape);
  json.key("selected").value(to_string(selection));
  write_shape(json, "selected_shape", shown);
  json.key("values");
  if (*count == 0) {
    json.begin_list().end().end();
    return;
  }
  JsonGrid grid(json, shown);
  grid.begin();
  read_window(array, window, [&grid](const Elements& elements, std::size_t i) { grid.add(elements, i); });
  json.end();
}

void print_array(Output& out, const Named& named, const std::optional<std::string_view>& subscript,
                 const Selection& selection, std::uint64_t limit) {
  const ArrayPlace& array = *named.array;
  const Window window = plan_window(named.title, array, selection, limit);
  std::vector<std::string> cells;
  read_window(array, window,
              [&cells](const Elements& elements, std::size_t i) { cells.push_back(elements.text(i)); });
  out.print("{}  {}  {}", printable(named.title), dtype_text(array.dtype), to_string(array.shape));
  if (subscript) {
    out.print("  {}  {}", to_string(selection), to_string(selected_shape(selection)));
  }
  out.write("\n");
  print_grid(out, window, cells);
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(each));
  }
  return text;
}

void print_value(Output& out, const Named& named) {
  const DescribedValue& value = *named.value;
  out.print("{}  {}\n", printable(named.title), printable(value.kind));
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    // A character that is cut in two becomes one that stands for what is not text.
    out.print("{}\n", json_string(std::string_view(*text).substr(0, kMostTextBytes)));
    if (text->size() > kMostTextBytes) {
      out.print("... ({})\n", count_text(text->size(), "byte"));
    }
  } else if (const auto* bytes = std::get_if<std::vector<std::byte>>(&value.value)) {
    out.print("{}\n", hex_of(std::span(*bytes).first(std::min(bytes->size(), kMostTextBytes / 2))));
    if (bytes->size() > kMostTextBytes / 2) {
      out.print("... ({})\n", count_text(bytes->size(), "byte"));
    }
  } else if (!std::holds_alternative<std::monostate>(value.value)) {
    out.print("{}\n", printable(value_text(value)));
  }
}

void write_value(JsonWriter json, const Named& named) {
  const DescribedValue& value = *named.value;
  json.begin_object().key("name").value(named.title).key("kind").value(value.kind);
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    json.key("value").value(*text);
  } else if (const auto* bytes = std::get_if<std::vector<std::byte>>(&value.value)) {
    json.key("bytes").value(bytes->size()).key("hex").value(hex_of(*bytes));
  } else if (const auto* number = std::get_if<double>(&value.value);
             number != nullptr && !std::isfinite(*number)) {
    json.key("value").value(value_text(value));  // JSON has no word for infinities and NaN.
  } else if (!std::holds_alternative<std::monostate>(value.value)) {
    json.key("value").raw(value_text(value));
  }
  json.end();
}

/// A checkpointable that is neither an array nor a value: its documents, when it has some.
void show_item(const CheckpointView& checkpoint, const Named& named, const Arguments& arguments,
               Output& out) {
  const Description description = checkpoint.metadata().items.at(named.item).description();
  if (description.texts.empty() || checkpoint.is_foreign()) {
    if (const std::string problem = problem_text(checkpoint.metadata().items.at(named.item));
        !problem.empty()) {
      throw Error(checkpoint.metadata().items.at(named.item).problem_code, problem);
    }
    if (std::vector<std::string> below = titles_below(checkpoint, named.title); !below.empty()) {
      refuse_subtree(named.title, std::move(below));
    }
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' has no arrays, values or texts to show", named.title));
  }
  if (!arguments.is_json) {
    out.print("{}  {}\n", printable(named.title), printable(description.kind));
    print_documents(out, checkpoint, named.item, description, "", static_cast<std::size_t>(arguments.limit));
    return;
  }
  JsonWriter json = json_to(out);
  json.begin_object().key("name").value(named.title).key("kind").value(description.kind);
  write_documents(json, checkpoint, named.item, description);
  json.end();
}

void show_array(const Named& named, const std::optional<std::string_view>& subscript,
                const Arguments& arguments, Output& out) {
  const Selection selection = parse_selection(named.title, subscript.value_or(""), named.array->shape);
  if (arguments.form != ElementForm::shown) {
    write_elements(out, named.title, *named.array, selection, arguments.form);
  } else if (arguments.is_json) {
    write_array(json_to(out), named, selection, arguments.limit);
  } else {
    print_array(out, named, subscript, selection, arguments.limit);
  }
}

/// Lists the names that can be shown.
Report names_in(const CheckpointView& checkpoint) {
  Report report;
  ReportTable table{{{"NAME", false, "name"}}, {"names"}};
  report.member("path", text_cell(checkpoint.path().string()));
  for (const auto& [item, metadata] : checkpoint.metadata().items) {
    for (const std::string& title : titles_of(item, checkpoint.description(item), checkpoint.is_foreign())) {
      table.rows.push_back({"names", {text_cell(title)}});
    }
    if (!metadata.description().texts.empty()) {
      table.rows.push_back({"names", {text_cell(item)}});
    }
  }
  if (table.rows.empty()) {
    report.line("there are no arrays, values or texts to show");
  }
  report.table(std::move(table));
  return report;
}

}  // namespace

int show(const Arguments& arguments, Output& out) {
  const bool is_binary = arguments.form == ElementForm::npy || arguments.form == ElementForm::raw;
  if (is_binary && ::isatty(STDOUT_FILENO) == 1) {
    throw UsageError("--npy and --raw write bytes, which are not for a terminal: redirect them to a file");
  }
  const CheckpointView checkpoint(describe(arguments.path, arguments.layout));
  if (arguments.name.empty()) {
    names_in(checkpoint).answer(out, arguments.is_json);
    return judge(checkpoint.metadata(), out);
  }
  const auto [named, subscript] = resolve(checkpoint, arguments.name);
  if (named.array) {
    show_array(named, subscript, arguments, out);
    return 0;
  }
  if (subscript) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' is not an array: it has no elements [{}]", named.title, *subscript));
  }
  if (arguments.form != ElementForm::shown) {
    throw Error(Errc::invalid_argument,
                fmt::format("'{}' is not an array: --npy, --csv and --raw write arrays", named.title));
  }
  if (!named.value) {
    show_item(checkpoint, named, arguments, out);
  } else if (arguments.is_json) {
    write_value(json_to(out), named);
  } else {
    print_value(out, named);
  }
  return 0;
}

}  // namespace cairn::cli
