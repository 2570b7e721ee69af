// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"
#include "cairn/handlers/abstract_tree.hpp"
#include "cairn/handlers/builtin.hpp"
#include "cairn/handlers/tree_handler.hpp"

#include "core/internal/start.hpp"
#include "support/fails.hpp"
#include "support/fake_device.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace cairn::testing {

inline constexpr std::size_t kMebi = std::size_t{1} << 20;

/// Two devices, a context that knows both, and a folder for checkpoints of one tree.
class DeviceTest : public ::testing::Test {
 protected:
  ContextOptions options(std::size_t staging_bytes = 64 * kMebi) {
    ContextOptions options;
    options.engine = io::EngineKind::threads;
    options.worker_threads = 2;
    options.staging_bytes = staging_bytes;
    options.copiers = {device_.copier(), second_device_.copier()};
    return options;
  }

  /// An array on a device with a memory of its own.
  static Array on_device(FakeDevice& device, const Array& values) {
    const auto bytes = static_cast<std::size_t>(values.byte_count());
    auto memory = device.allocate(bytes);
    std::copy_n(values.view().data(), bytes, device.seen(memory.get()));
    MutableArrayView view(memory.get(), values.shape(), values.dtype(), device.device());
    return Array::share(std::move(view), std::move(memory));
  }

  /// The same elements in host memory.
  static Array on_host(const FakeDevice& device, const Array& array) {
    const MutableArrayView seen(device.seen(array.view().data()), array.shape(), array.dtype());
    return Array::copy_of(seen);
  }

  /// `count` floats that nobody guesses.
  static Array floats(std::uint64_t count, unsigned seed = 1) {
    Array array({count}, DType::float32);
    std::minstd_rand random(seed);
    for (float& value : array.data<float>()) {
      value = static_cast<float>(random() % 100'000);
    }
    return array;
  }

  /// What a kernel of the program does, on its stream.
  void overwrite(FakeDevice& device, const Array& array) {
    device.stream().push([&device, array] {
      std::memset(device.seen(array.view().data()), 0x55, static_cast<std::size_t>(array.byte_count()));
    });
  }

  [[nodiscard]] AsyncResponse start(const Tree& tree, const SaveOptions& options = {}) const {
    return core::start_save(path(), Checkpointables{{"state", tree}}, handlers_, options, *context_);
  }

  SaveResult save(const Tree& tree,
                  const SaveOptions& options = {}) const {  // NOLINT(modernize-use-nodiscard)
    return start(tree, options).wait();
  }

  [[nodiscard]] Tree load(const Request& request = "state") const {
    return core::start_load(path(), {request}, handlers_, LoadOptions(), *context_)
        .wait()
        .take<Tree>("state");
  }

  [[nodiscard]] std::filesystem::path path() const { return folder_ / "checkpoint"; }

  FakeDevice device_;
  FakeDevice second_device_{1};
  TempDir folder_;
  RegistrySnapshot handlers_ = builtin_handlers();
  std::optional<Context> context_{options()};
};

}  // namespace cairn::testing
