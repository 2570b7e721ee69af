// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/array_store/file_layout.hpp"
#include "cairn/async/awaitable.hpp"

#include "formats/internal/hugging_face.hpp"

namespace cairn::array_store {

/// Returns the path of a file, for messages.
[[nodiscard]] std::string full_path(const StoredFiles& files, std::string_view file);

/// Leaves out of the list of a part of a model what is not wanted, or not there, and tells what is missing.
void leave_out(formats::HuggingFaceIndex& index, const StoredFiles& files, const OpenOptions& options);

/// Describes files of safetensors, whatever they are called; with `index`, what it names of them.
[[nodiscard]] Awaitable<formats::ForeignCatalogue> describe_safetensors(
    std::shared_ptr<const StoredFiles> files, std::vector<std::string> names,
    std::optional<formats::HuggingFaceIndex> index, OpenOptions options);

/// Folders of safetensors files, with or without a list of which holds what.
[[nodiscard]] std::shared_ptr<const FileLayout> safetensors_layout();

/// Archives of torch.save: one, or those that a `pytorch_model.bin.index.json` lists.
[[nodiscard]] std::shared_ptr<const FileLayout> torch_archive_layout();

/// Distributed checkpoints of torch, and of Megatron-Core (torch_dist).
[[nodiscard]] std::shared_ptr<const FileLayout> torch_distributed_layout();

}  // namespace cairn::array_store
