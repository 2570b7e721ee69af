// SPDX-License-Identifier: Apache-2.0
#include "verdicts/observer.hpp"

#include <span>

#include <fmt/format.h>

#include "support/holder.hpp"

namespace cairn::verdicts {
namespace {

ContextOptions quiet_options() {
  ContextOptions options;
  options.engine = io::EngineKind::threads;
  options.queue_depth = 2;
  options.worker_threads = 1;
  options.staging_bytes = std::size_t{16} << 20;
  return options;
}

}  // namespace

Observer::Observer() : context_(quiet_options()) {}

Observer::Holder Observer::look_at(const std::filesystem::path& path, std::size_t count, bool thoroughly) {
  Holder holder;
  try {
    holder.number = testing::holder_of(path);
    if (thoroughly && holder.number) {
      const Tree state = load(path, LoadOptions(), context_);
      const auto loaded = state.get<std::uint64_t>("n");  // Another one than a moment ago, perhaps.
      holder.number = loaded;
      holder.problem = check_state(state, loaded, count);
    }
  } catch (const Error& error) {
    if (error.code() == Errc::not_found) {
      holder.number.reset();
    } else {
      holder.problem = error.what();
    }
  }
  return holder;
}

std::string Observer::check_state(const Tree& state, std::uint64_t number, std::size_t count) {
  try {
    const auto values = state.get<std::span<const std::uint64_t>>("a");
    if (values.size() != count) {
      return fmt::format("{} elements, not {}", values.size(), count);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != element(number, i)) {
        return fmt::format("element {} is not that of save {}", i, number);
      }
    }
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace cairn::verdicts
