// SPDX-License-Identifier: Apache-2.0
// Measures saves and loads of arrays on a CUDA device: cairn_device_bench <folder> [GB of the snapshot]. Prints
// one figure a line. Needs as much memory of the device for the snapshot as for the arrays.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "cairn/cairn.hpp"
#include "cairn/cuda/copier.hpp"
#include "cairn/flash/flash_checkpointer.hpp"

#include "bench/measure.hpp"

namespace cairn::bench {
namespace {

constexpr std::size_t kGiga = 1'000'000'000;
constexpr std::size_t kChunkBytes = std::size_t{4} << 20;
constexpr int kRounds = 5;

void require(cudaError_t answer) {
  if (answer != cudaSuccess) {
    throw std::runtime_error(cudaGetErrorString(answer));
  }
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

Spread measure(const std::function<double()>& once) {
  std::vector<double> values;
  for (int round = 0; round < kRounds; ++round) {
    values.push_back(once());
  }
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

void print(const char* what, const Spread& figure, const char* unit) {
  fmt::print("{:<58} {:>9.3f} {} ({:.3f} to {:.3f})\n", what, figure.median, unit, figure.least, figure.most);
}

std::shared_ptr<std::byte> device_memory(std::size_t bytes) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes));
  require(cudaMemset(memory, 0x3c, bytes));
  return {static_cast<std::byte*>(memory), [](std::byte* address) { static_cast<void>(cudaFree(address)); }};
}

/// `bytes` of the device to pinned memory, in chunks: CUDA alone, and through the copier.
void measure_copies(DeviceCopier& copier, std::size_t bytes) {
  const auto memory = device_memory(bytes);
  const std::unique_ptr<std::byte, decltype(&std::free)> host(
      static_cast<std::byte*>(std::aligned_alloc(kChunkBytes, bytes)), std::free);
  const std::shared_ptr<void> pin = copier.pin({host.get(), bytes});
  const double gigabytes = static_cast<double>(bytes) / kGiga;
  print("device to host, one plain pinned copy", measure([&] {
          const Stopwatch watch;
          require(cudaMemcpy(host.get(), memory.get(), bytes, cudaMemcpyDeviceToHost));
          return gigabytes / watch.seconds();
        }),
        "GB/s");
  print("device to host, the copier, 4 MiB at a time", measure([&] {
          const Stopwatch watch;
          std::vector<std::unique_ptr<DeviceTransfer>> transfers;
          for (std::size_t at = 0; at < bytes; at += kChunkBytes) {
            const DeviceCopy copy{memory.get() + at, host.get() + at, std::min(kChunkBytes, bytes - at)};
            transfers.push_back(copier.start({&copy, 1}, CopyDirection::to_host));
          }
          transfers.back()->wait();
          return gigabytes / watch.seconds();
        }),
        "GB/s");
}

Tree arrays_in(const std::shared_ptr<std::byte>& memory, std::size_t count, std::size_t bytes_each) {
  Tree tree;
  for (std::size_t i = 0; i < count; ++i) {
    MutableArrayView view(memory.get() + i * bytes_each, {bytes_each}, DType::uint8, {Device::Kind::cuda, 0});
    tree[fmt::format("layer.{:06}", i)] = Array::share(std::move(view), memory);
  }
  return tree;
}

Context context_with(bool snapshots) {
  cuda::CopierOptions copier;
  copier.snapshot_bytes = snapshots ? SIZE_MAX : 0;
  ContextOptions options;
  options.copiers = {cuda::make_copier(copier)};
  options.reserve_bytes = std::size_t{4} << 30;
  options.staging_bytes = options.reserve_bytes;
  return Context(std::move(options));
}

/// Saves and loads `count` arrays in a context whose copier makes snapshots or does not.
void measure_saves(const std::string& folder, const char* what, std::size_t count, std::size_t bytes_each,
                   bool takes_snapshots) {
  const auto memory = device_memory(count * bytes_each);
  const Tree tree = arrays_in(memory, count, bytes_each);
  const Context context = context_with(takes_snapshots);
  SaveOptions save_options;
  save_options.overwrite = true;
  std::vector<double> durable;
  const Spread blocking = measure([&] {
    const SaveResult result = save(folder + "/device", tree, save_options, context);
    durable.push_back(seconds(result.durable_time));
    return seconds(result.blocking_time) * 1000;
  });
  std::sort(durable.begin(), durable.end());
  print(fmt::format("{}: blocking", what).c_str(), blocking, "ms");
  print(fmt::format("{}: durable", what).c_str(), {durable[kRounds / 2], durable.front(), durable.back()},
        "s");
  AbstractTree wanted(tree);
  for (const auto& [name, leaf] : tree.as_map()) {
    wanted[name].as_array().place_into(leaf.as<Array>());
  }
  print(fmt::format("{}: load into the device", what).c_str(), measure([&] {
          const Stopwatch watch;
          static_cast<void>(load(folder + "/device", wanted, LoadOptions(), context));
          return watch.seconds();
        }),
        "s");
}

/// Saves steps into memory and loads the last one into the device. The memory of the first two images is new; it is
/// pinned once they are made.
void measure_steps(const std::string& folder, const char* what, std::size_t count, std::size_t bytes_each,
                   bool takes_snapshots) {
  const auto memory = device_memory(count * bytes_each);
  const Tree tree = arrays_in(memory, count, bytes_each);
  const Context context = context_with(takes_snapshots);
  FlashOptions flash_options;
  flash_options.memory = folder + "/memory";
  flash_options.disk.save = save_when::every_steps(1'000'000);
  FlashCheckpointer run(folder + "/run", flash_options, context);
  const std::optional<FlashResumed> before = run.resume({});
  std::uint64_t step = before ? before->step : 0;
  std::vector<double> complete;
  const auto save_one = [&] {
    require(cudaDeviceSynchronize());
    const Stopwatch watch;
    const FlashResponse response = run.save(++step, {{"state", tree}});
    const double blocking = watch.seconds();
    response.wait_in_memory();
    complete.push_back(watch.seconds());
    const Stopwatch background;
    run.wait();
    if (complete.size() <= 3) {
      fmt::print("{}: save {} {:.4f} s, in memory {:.3f} s, made ready {:.3f} s\n", what, complete.size(),
                 blocking, complete.back(), background.seconds());
    }
    return blocking * 1000;
  };
  for (int made = 0; made < 3; ++made) {
    save_one();
  }
  complete.clear();
  print(fmt::format("{}: blocking", what).c_str(), measure(save_one), "ms");
  std::sort(complete.begin(), complete.end());
  print(fmt::format("{}: in memory", what).c_str(),
        {complete[kRounds / 2], complete.front(), complete.back()}, "s");
  AbstractTree wanted(tree);
  for (const auto& [name, leaf] : tree.as_map()) {
    wanted[name].as_array().place_into(leaf.as<Array>());
  }
  const std::string image = fmt::format("{}/memory/r00000/{}", folder, step);
  print(fmt::format("{}: load into the device", what).c_str(), measure([&] {
          const Stopwatch watch;
          static_cast<void>(load(image, wanted, LoadOptions(), context));
          return watch.seconds();
        }),
        "s");
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: cairn_device_bench <folder> [GB of the snapshot]\n");
    return 2;
  }
  try {
    const std::size_t gigabytes = argc > 2 ? std::stoul(argv[2]) : 20;
    const std::string folder = argv[1];
    cairn::bench::measure_copies(*cairn::cuda::make_copier(), std::size_t{4} << 30);
    constexpr std::size_t kLarge = 40;
    const std::size_t bytes_each = gigabytes * cairn::bench::kGiga / kLarge;
    cairn::bench::measure_saves(folder, "40 large arrays, snapshot", kLarge, bytes_each, true);
    cairn::bench::measure_saves(folder, "40 large arrays, no snapshot", kLarge, bytes_each, false);
    cairn::bench::measure_saves(folder, "100,000 x 4 KiB, snapshot", 100'000, 4096, true);
    cairn::bench::measure_saves(folder, "100,000 x 4 KiB, no snapshot", 100'000, 4096, false);
    cairn::bench::measure_steps(folder + "/1", "steps in memory, snapshot", kLarge, bytes_each, true);
    cairn::bench::measure_steps(folder + "/2", "steps in memory, no snapshot", kLarge, bytes_each, false);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
