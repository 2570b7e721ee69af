// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cairn/base/error.hpp"
#include "cairn/base/json_string.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/builtin.hpp"
#include "cairn/handlers/json.hpp"

#include "cli/commands.hpp"
#include "cli/describe.hpp"
#include "cli/proto.hpp"
#include "cli/text.hpp"

namespace cairn::cli {
namespace {

/// Calls `visitor` for the leaves of a tree that are no arrays, as far as the checkpoint tells their values.
void visit_values(const ItemMetadata& item,
                  const std::function<void(std::string_view path, const AbstractTree& leaf)>& visitor) {
  const auto* tree = item.abstract.as<AbstractTree>();
  if (tree == nullptr) {
    return;
  }
  visit_leaves(*tree, [&visitor](std::string_view path, const AbstractTree& leaf) {
    const TreeKind kind = leaf.kind();
    if (kind != TreeKind::array && kind != TreeKind::map && kind != TreeKind::list) {
      visitor(path, leaf);
    }
  });
}

void write_value(JsonWriter& json, const Tree& value) {
  switch (value.kind()) {
    case TreeKind::boolean:
    case TreeKind::integer:
      json.key("value").raw(value_text(value));
      break;
    case TreeKind::floating:
      // JSON has no word for infinities and NaN.
      json.key("value").raw(std::isfinite(value.as<double>()) ? value_text(value)
                                                              : json_string(value_text(value)));
      break;
    case TreeKind::string:
      json.key("value").value(value.as<std::string_view>());
      break;
    case TreeKind::bytes:
      json.key("bytes").value(value.as<Bytes>().size());
      break;
    default:
      break;
  }
}

void write_item(JsonWriter& json, const ItemMetadata& item) {
  json.begin_object().key("handler").value(item.handler_id).key("bytes").value(item.bytes);
  if (!item.problem.empty()) {
    json.key("problem").value(item.problem);
  }
  if (const auto type = message_type(item)) {
    json.key("message_type").value(*type);
  }
  if (const auto* document = item.abstract.as<AbstractJson>(); document != nullptr && document->kind) {
    json.key("json_kind").value(name(*document->kind));
  }
  write_arrays(json, arrays(item));
  json.key("values").begin_list();
  visit_values(item, [&json](std::string_view path, const AbstractTree& leaf) {
    json.begin_object(JsonLayout::line).key("name").value(path).key("kind").value(name(leaf.kind()));
    write_value(json, leaf.stored_value());
    json.end();
  });
  json.end().end();
}

void print_arrays(Output& out, std::string_view title, const ItemMetadata& item) {
  const ArrayEntries entries = arrays(item);
  if (entries.empty()) {
    return;
  }
  std::uint64_t bytes = 0;
  for (const ArrayEntry& array : entries) {
    bytes += array.bytes;
  }
  const std::array<Column, 4> columns{{{"ARRAY"}, {"DTYPE"}, {"SHAPE"}, {"SIZE", true}}};
  print_table(out, "  ", columns, [&](const RowVisitor& row) {
    for (const ArrayEntry& array : entries) {
      row({array_title(title, array), std::string(name(array.dtype)), to_string(array.shape),
           size_text(array.bytes)});
    }
    row({"total", count_text(entries.size(), "array"), "", size_text(bytes)});
  });
}

void print_values(Output& out, const ItemMetadata& item) {
  std::vector<Row> values;  // Collected, because each visit builds the tree.
  visit_values(item, [&values](std::string_view path, const AbstractTree& leaf) {
    values.push_back(
        {printable(path), std::string(name(leaf.kind())), printable(value_text(leaf.stored_value()))});
  });
  if (values.empty()) {
    return;
  }
  const std::array<Column, 3> columns{{{"VALUE"}, {"KIND"}, {""}}};
  print_table(out, "  ", columns,
              [&values](const RowVisitor& row) { std::for_each(values.begin(), values.end(), row); });
}

void print_item(Output& out, std::string_view title, const ItemMetadata& item) {
  out.print("\n{}  {}  {}\n", printable(title), printable(item.handler_id), size_text(item.bytes));
  if (!item.problem.empty()) {
    out.print("  {}\n", printable(item.problem));
  }
  if (const auto type = message_type(item)) {
    out.print("  protobuf message {}\n", printable(*type));
  }
  if (const auto* document = item.abstract.as<AbstractJson>(); document != nullptr && document->kind) {
    out.print("  JSON {}\n", name(*document->kind));
  }
  print_arrays(out, title, item);
  print_values(out, item);
}

}  // namespace

int inspect(const Arguments& arguments, Output& out) {
  const CheckpointMetadata metadata = describe(arguments.path, arguments.name);
  if (!arguments.is_json) {
    print_origin(out, metadata);
    for (const auto& [title, item] : metadata) {
      print_item(out, title, item);
    }
    if (metadata.items.size() > 1) {
      out.print("\ntotal  {}  {}\n", count_text(metadata.items.size(), "checkpointable"),
                size_text(total_bytes(metadata)));
    }
    return judge(metadata, out);
  }
  JsonWriter json = json_to(out);
  json.begin_object();
  write_origin(json, metadata);
  json.key("checkpointables").begin_object();
  for (const auto& [title, item] : metadata) {
    json.key(title);
    write_item(json, item);
  }
  json.end().end();
  return judge(metadata, out);
}

}  // namespace cairn::cli
