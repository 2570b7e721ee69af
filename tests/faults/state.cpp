// SPDX-License-Identifier: Apache-2.0
#include "faults/state.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cairn/handlers/json.hpp"

namespace cairn::faults {

State::State(std::int64_t number, std::size_t elements)
    : number_(number),
      tree_({{"w", std::vector<float>(elements, static_cast<float>(number))},
             {"step", number},
             {"note", "größer"}}),
      array_(Array::adopt(std::vector<std::int64_t>{number, 2, 3})),
      config_({{"number", number}}),
      message_(make_message(number)) {
  counter_.value = number;
}

Checkpointables State::items() const {
  Checkpointables items = {{"tree", tree_}, {"array", array_}, {"config", config_}, {"counter", counter_}};
  message_->add_to(items);
  return items;
}

SaveOptions State::numbered(SaveOptions options) const {
  options.custom_metadata = std::to_string(number_);
  return options;
}

SaveResult State::save(const std::filesystem::path& path, const SaveOptions& options,
                       const Context& context) const {
  return save_checkpointables(path, items(), numbered(options), context);
}

AsyncResponse State::save_async(const std::filesystem::path& path, const SaveOptions& options,
                                const Context& context) const {
  return save_checkpointables_async(path, items(), numbered(options), context);
}

LoadResult State::require_at(const std::filesystem::path& path, const Context& context) const {
  testing::Counter counter;
  Requests requests = {"tree", "array", "config", {"counter", into(counter)}};
  if (std::unique_ptr<Message> none = make_message(0)) {
    Checkpointables messages;
    none->add_to(messages);
    for (const Checkpointable& message : messages) {
      requests.emplace_back(message.name());
    }
  }
  Loaded loaded = load_checkpointables(path, requests, {}, context);
  const Tree array = {{"array", loaded.take<Array>("array")}};
  const Tree saved = {{"array", array_}};
  if (loaded.take<Tree>("tree") != tree_ || array != saved ||
      loaded.take<nlohmann::json>("config") != config_ || counter.value != number_ ||
      !message_->is_in(loaded)) {
    throw std::logic_error("other values were loaded");
  }
  return loaded.result();
}

ContextOptions context_options(const Machine& machine) {
  ContextOptions options;
  options.engine = machine.engine;
  options.syscalls = machine.syscalls;
  options.worker_threads = 2;
  options.staging_bytes = std::size_t{32} << 20;
  options.registry = message_handlers();
  if (machine.slowness.count() > 0) {
    options.stop_grace = machine.slowness / 8;
  }
  return options;
}

const Context& witness() {
  static const Context context = [] {
    Machine machine;
    machine.engine = io::EngineKind::threads;
    return Context(context_options(machine));
  }();
  return context;
}

}  // namespace cairn::faults
