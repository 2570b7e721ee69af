// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/contract/handler.hpp"
#include "cairn/formats/foreign_catalogue.hpp"
#include "cairn/handlers/tree.hpp"

#include "formats/internal/index.hpp"
#include "staging/internal/own_plane.hpp"
#include "tools/internal/checkpoint_view.hpp"
#include "tools/source_files.hpp"

namespace cairn::tools {

// Objects are small trees of which an index says only where they lie: of other programs, and those of state dicts.

/// The path of what lies at `inner` in the object at `outer`.
[[nodiscard]] std::string path_in(std::string_view outer, std::string_view inner);

/// Files of another program, and how they are read. The plane outlives it.
struct ForeignFiles {
  const staging::OwnPlane& own;
  std::shared_ptr<const SourceFiles> files;
  std::shared_ptr<const array_store::FileLayout> layout;
  const formats::Index& index;
};

/// Called with an object, and with what of it has no place in a tree: where its root has none, the tree is null.
using TakeObject = std::function<void(const formats::IndexEntry& entry, const Tree& tree,
                                      std::span<const formats::LeftOut> left_out)>;

/// Reads objects of another program, in their order. Holds some of them in memory, of 64 MiB together, or one.
///
/// Errors: those of array_store::plan_read and read_object.
void read_objects(const ForeignFiles& from, std::span<const formats::IndexEntry> objects,
                  const TakeObject& take);

/// Adds the leaves of a tree to a description, in place of the object at that path, where it has that. `take` gets its
/// arrays; null: they are values, too.
void describe_object(Description& description, std::string_view path, const Tree& tree,
                     const TakeArray& take = nullptr);

}  // namespace cairn::tools
