// SPDX-License-Identifier: Apache-2.0
#include "training/part_notes.hpp"

#include <fmt/format.h>

#include "cairn/base/error.hpp"

#include "base/internal/json_reader.hpp"
#include "base/internal/json_writer.hpp"
#include "store/internal/parts_directory.hpp"

namespace cairn::training {

using store::kPartMember;

void enter(JsonMembers& annotations, const PartNotes& notes) {
  std::string text;
  JsonWriter writer(text);
  writer.begin_object().key("run").value(notes.run);
  if (notes.part) {
    writer.key("part").value(*notes.part);
  } else {
    writer.key("first").value(notes.first);
  }
  writer.end();
  if (!annotations.emplace(kPartMember, std::move(text)).second) {
    throw Error(Errc::invalid_argument,
                fmt::format("annotations: '{}' is written by the PartialSave itself", kPartMember));
  }
}

std::optional<PartNotes> take_notes(JsonMembers& annotations, std::string_view path) {
  const auto found = annotations.find(kPartMember);
  if (found == annotations.end()) {
    return std::nullopt;
  }
  const std::string text = std::move(found->second);
  annotations.erase(found);
  PartNotes notes;
  JsonReader json(text, path);
  if (json.peek() != '{') {
    json.fail(fmt::format("'{}' is not an object", kPartMember));
  }
  json.begin_object();
  while (const auto key = json.next_key()) {
    if (*key == "run") {
      notes.run = json.read_string();
    } else if (*key == "part") {
      notes.part = json.read_unsigned();
    } else if (*key == "first") {
      notes.first = json.read_string();
    } else {
      json.skip_value();
    }
  }
  json.finish();
  return notes;
}

}  // namespace cairn::training
