// SPDX-License-Identifier: Apache-2.0
#include "cli/document.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/json_reader.hpp"
#include "base/internal/printable.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{64}
                                     << 20;  // What people read is smaller; it is held in memory.

bool is_json(std::string_view name) {
  return name.ends_with(".json");
}

/// Gives the texts with the names of their files to `take`.
void read_texts(const tools::CheckpointView& checkpoint, const std::string& item,
                const Description& description,
                const std::function<void(const std::string& name, std::string text)>& take) {
  const auto files = checkpoint.files(item);
  for (const std::string& name : description.texts) {
    const auto file = files ? files->find(name) : decltype(files->end()){};
    if (!files || file == files->end()) {
      continue;
    }
    if (file->second.size_bytes > kMostBytes) {
      take(name, fmt::format(R"("{} of text: too large to be shown")", size_text(file->second.size_bytes)));
    } else {
      take(name, checkpoint.read(file->second, kMostBytes));
    }
  }
}

/// Reads JSON into `json`, as it stands there.
void copy_json(std::string_view text, std::string_view name, JsonWriter& json) {
  JsonReader reader(text, name);
  reader.read_value(json);
  reader.finish();
}

/// JSON, one member a line.
std::string laid_out(std::string_view text, std::string_view name) {
  std::string result;
  JsonWriter json(result, {JsonLayout::block, 2, JsonEscapes::unprintable});
  copy_json(text, name, json);
  return result;
}

void print_lines(Output& out, std::string_view text, std::string_view indent, std::size_t most_lines) {
  std::size_t count = 0;
  while (!text.empty() && count < most_lines) {
    const auto end = std::min(text.find('\n'), text.size());
    out.print("{}{}\n", indent, printable(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++count;
  }
  if (!text.empty()) {
    const auto left = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n')) +
                      (text.ends_with('\n') ? 0 : 1);
    out.print("{}... ({} more)\n", indent, count_text(left, "line"));
  }
}

}  // namespace

void print_documents(Output& out, const tools::CheckpointView& checkpoint, const std::string& item,
                     const Description& description, std::string_view indent, std::size_t most_lines) {
  read_texts(checkpoint, item, description, [&](const std::string& name, const std::string& text) {
    print_lines(out, is_json(name) ? laid_out(text, name) : text, indent, most_lines);
  });
}

void write_documents(JsonWriter& json, const tools::CheckpointView& checkpoint, const std::string& item,
                     const Description& description) {
  if (description.texts.empty()) {
    return;
  }
  json.key("documents").begin_object();
  read_texts(checkpoint, item, description, [&](const std::string& name, const std::string& text) {
    json.key(name);
    if (is_json(name)) {
      copy_json(text, name, json);
    } else {
      json.value(text);
    }
  });
  json.end();
}

}  // namespace cairn::cli
