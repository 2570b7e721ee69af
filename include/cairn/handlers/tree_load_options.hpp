// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "cairn/array/array.hpp"
#include "cairn/core/load.hpp"
#include "cairn/handlers/renames.hpp"

namespace cairn {

/// How trees and arrays are loaded, for loads.
struct TreeLoadOptions {
  TreeLoadOptions() = default;

  /// Options that rename what is stored, and have nothing else. Of a file as Hugging Face has it, for a model of
  /// structs: `options.handler_options.set(TreeLoadOptions::renamed({{"model.**", "**"}}, "."))`.
  [[nodiscard]] static TreeLoadOptions renamed(Renames renames, std::string keys_separator = {}) {
    TreeLoadOptions options;
    options.rename = std::move(renames);
    options.separator = std::move(keys_separator);
    return options;
  }

  /// Leave what is stored but not asked for. Default: it is an error, listing the paths. Of a folder of other
  /// programs, only the shards are opened that hold what is asked for; where others are missing, the problems of the
  /// result say so.
  bool partial = false;
  /// Permit casts that change values for every array and number; see AbstractArray::allows_narrowing.
  bool allow_narrowing = false;
  /// What becomes of every array that has another shape on disk; see AbstractArray::on_mismatch.
  ShapeMismatch on_mismatch = ShapeMismatch::refuse;
  /// For safetensors files of other programs: the tree has their `__metadata__`, too, under that key, as maps of
  /// strings by the name of the file; so has what metadata tells. Default: it has the tensors only.
  bool file_metadata = false;
  /// Pass over bytes behind the last tensor of a safetensors file. LoadResult::problems say how many there are.
  /// Default: they are an error, as the format has it: the file may be longer than its header knows.
  bool allow_trailing_bytes = false;
  /// The layout by which files of other programs are read: the name of one of TreeHandler's. Default: the one that
  /// recognises them.
  std::string layout;
  /// Leave out what has no place in a tree, of files of other programs: objects of their classes, say. LoadResult::
  /// problems name it. Default: a load that takes all is an error, which names the first of it.
  bool leave_out = false;
  /// Arrays are read-only views of the files, mapped into memory: for tools that look at a few values. An array is
  /// read when its elements are looked at, and not verified. Those that are cast, assembled from slices, placed into
  /// memory or asked for as a box are loaded as usual, and so is all where files cannot be mapped. A process that
  /// truncates a file meanwhile ends the program (SIGBUS).
  bool map = false;
  /// Further names of arrays, each with a name of the same array: of those that the checkpoint does not have, what is
  /// asked for under one is loaded from another that it has. Paths, as Tree describes them. So a model whose head is
  /// its embedding loads what was saved without, and the other way round.
  std::map<std::string, std::string> aliases;
  /// Other names for what is stored in a tree: what is asked for, and every other option, has these. LoadResult::
  /// problems tell of patterns that match nothing, and so does the error where the load fails for what it lacks. Lists
  /// below which names change become maps.
  Renames rename;
  /// Divides the keys that are stored, before they are renamed: "." makes a tree of a flat map of tensors. Maps whose
  /// keys are then 0, 1, 2 and so on are lists, which a std::vector is loaded from.
  std::string separator;
  /// Members of structs may differ from the keys that are stored, in loads into objects and in Loaded::take: those
  /// that are not stored keep their values, and keys without a member are left out. LoadResult::missing and
  /// unexpected have the paths of both. Default: such a difference is an error, and so is a load of which nothing fits
  /// what is stored. In a load into a Tree the keys of its maps may differ.
  bool members_may_differ = false;
};

/// Makes a load ignore what is stored but not requested: `load("run/100", part, partial)`.
struct Partial {
  explicit Partial() = default;

  /// As options of a call, which have nothing else.
  operator LoadOptions() const {  // NOLINT(google-explicit-constructor): as an argument.
    LoadOptions options;
    TreeLoadOptions of_tree;
    of_tree.partial = true;
    options.handler_options.set(of_tree);
    return options;
  }
};

inline constexpr Partial partial{};

/// Makes a load take structs that have got or lost members since: `load_into("run/100", model, members_may_differ)`.
struct MembersMayDiffer {
  explicit MembersMayDiffer() = default;

  /// As options of a call, which have nothing else.
  operator LoadOptions() const {  // NOLINT(google-explicit-constructor): as an argument.
    LoadOptions options;
    TreeLoadOptions of_tree;
    of_tree.members_may_differ = true;
    options.handler_options.set(of_tree);
    return options;
  }
};

inline constexpr MembersMayDiffer members_may_differ{};

}  // namespace cairn
