// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/cairn.hpp"
#include "cairn/handlers/json.hpp"

namespace cairn::testing {

/// An object that saves itself under a handler id that the tool does not know.
struct Strange {
  int value = 7;
};

class StrangeHandler final : public CheckpointableHandler<Strange> {
 public:
  std::string_view id() const noexcept override { return "example.strange/1"; }

  // outlives: read before the first suspension.
  Awaitable<Background<>> save(SaveContext context, const Strange& value) const override {
    co_return context.write_file("value.txt", std::to_string(value.value));
  }

  Awaitable<Background<Strange>> load(LoadContext, std::optional<Strange>) const override {
    co_return nothing();
  }
  Awaitable<Strange> metadata(LoadContext) const override { co_return Strange(); }

 private:
  static Background<Strange> nothing() { co_return Strange(); }
};

/// A checkpoint with a tree `model` (two arrays of 2 MiB and 12 bytes, three values), a JSON `config` and a `strange`.
inline void save_example(const std::filesystem::path& path) {
  std::vector<float> weights(1 << 19, 1.5F);
  std::vector<float> bias{1, 2, 3};
  const Array matrix = Array(weights).reshaped({512, 1024});
  const Tree model = {{"params", {{"w", matrix}, {"b", bias}}}, {"step", 100}, {"note", "hi"}, {"rate", 0.5}};
  const nlohmann::json config = {{"width", 512}};
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  options.registry.add<StrangeHandler>();
  const Context context(std::move(options));
  SaveOptions save_options;
  save_options.custom_metadata = R"({"run": "first"})";
  save_checkpointables(path, {{"model", model}, {"config", config}, {"strange", Strange()}}, save_options,
                       context);
}

}  // namespace cairn::testing
