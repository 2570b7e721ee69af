// SPDX-License-Identifier: Apache-2.0
#include "io/retire.hpp"

#include <array>
#include <string_view>

#include "cairn/io/committed_directory.hpp"

#include "io/names.hpp"

namespace cairn::io {

void retire(const Directory& parent, const std::string& name, const RandomSource& random) {
  // A mark of ownership is proof enough; COMMIT is one only when it was written to its end.
  constexpr std::array<std::string_view, 3> kLast = {kCommitName, kUncommittedName, kOwnerName};
  std::string trash = name;
  if (!reserved_kind(name)) {
    trash = trash_name(parse_generation(name).base, make_uuid(random));
    parent.rename(name, parent, trash, RenameMode::replace);  // The new name is nobody's.
    parent.sync();
  }
  parent.remove_tree(trash, kLast);
}

}  // namespace cairn::io
