// SPDX-License-Identifier: Apache-2.0
#include "cairn/api/save.hpp"

#include <utility>

#include "core/internal/start.hpp"
#include "store/internal/source.hpp"

namespace cairn {

AsyncResponse save_checkpointables_async(const std::filesystem::path& path, const Checkpointables& items,
                                         const SaveOptions& options, const Context& context) {
  return core::start_save(path, items, handlers_of(context, options.registry), options, context);
}

AsyncResponse save_checkpointables_async(const std::filesystem::path& path, const Checkpointables& items,
                                         const Context& context) {
  return save_checkpointables_async(path, items, SaveOptions(), context);
}

SaveResult save_checkpointables(const std::filesystem::path& path, const Checkpointables& items,
                                const SaveOptions& options, const Context& context) {
  SaveOptions blocking = options;
  blocking.return_when_accepted = false;
  return core::start_save(path, items, handlers_of(context, options.registry), blocking, context,
                          core::Waiting::for_the_end)
      .wait();
}

SaveResult save_checkpointables(const std::filesystem::path& path, const Checkpointables& items,
                                const Context& context) {
  return save_checkpointables(path, items, SaveOptions(), context);
}

SaveResult save(const std::filesystem::path& path, const Tree& state, const SaveOptions& options,
                const Context& context) {
  return save_checkpointables(path, {{store::kStateName, state}}, options, context);
}

AsyncResponse save_async(const std::filesystem::path& path, const Tree& state, const SaveOptions& options,
                         const Context& context) {
  return save_checkpointables_async(path, {{store::kStateName, state}}, options, context);
}

AsyncResponse save_async(const std::filesystem::path& path, Tree&& state, const SaveOptions& options,
                         const Context& context) {
  return save_checkpointables_async(path, {{store::kStateName, std::move(state)}}, options, context);
}

}  // namespace cairn
