// SPDX-License-Identifier: Apache-2.0
#include "training/json_members.hpp"

#include "base/internal/json_reader.hpp"
#include "base/internal/json_writer.hpp"

namespace cairn::training {

JsonMembers members_of(std::string_view text, std::string_view name, Errc code) {
  JsonRules rules;
  rules.code = code;
  rules.has_unique_keys = true;
  JsonReader json(text, name, rules);
  JsonMembers members;
  if (json.skip_null()) {
    json.finish();
    return members;
  }
  if (json.peek() != '{') {
    json.fail("not an object");
  }
  json.begin_object();
  while (const auto key = json.next_key()) {
    std::string& value = members[std::string(*key)];
    JsonWriter writer(value);
    json.read_value(writer);
  }
  json.finish();
  return members;
}

std::string object_of(const JsonMembers& members) {
  std::string text;
  JsonWriter writer(text);
  writer.begin_object();
  for (const auto& [key, value] : members) {
    writer.key(key).raw(value);
  }
  writer.end();
  return text;
}

}  // namespace cairn::training
