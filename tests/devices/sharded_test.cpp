// SPDX-License-Identifier: Apache-2.0
// Arrays of which devices have the parts.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/array/sharded_array.hpp"
#include "cairn/coord/coordinator.hpp"
#include "cairn/handlers/sharding_options.hpp"
#include "cairn/sharding/policy.hpp"
#include "cairn/testing/local_ranks.hpp"

#include "devices/fixture.hpp"

namespace cairn {
namespace {

using testing::DeviceTest;
using testing::FakeDevice;
using testing::kMebi;

constexpr std::uint64_t kRows = 48 * 1024;  // 6 MiB: several reads, and rows that chunks cut.
constexpr std::uint64_t kColumns = 33;

class ShardsOnDevices : public DeviceTest {
 protected:
  /// The elements of a box, on a device.
  [[nodiscard]] Array part_on(FakeDevice& device, const Box& box) const {
    return on_device(device, whole_.part(box).clone());
  }

  /// Two rows of shards, each on a device of its own, and one on the host.
  [[nodiscard]] Tree divided() {
    const Box top({0, 0}, {1000, kColumns});
    const Box middle({1000, 0}, {kRows / 2, kColumns});
    const Box rest({1000 + kRows / 2, 0}, {kRows / 2 - 1000, kColumns});
    return {{"w", ShardedArray(whole_.shape(), whole_.dtype(),
                               {{top, part_on(device_, top)},
                                {middle, part_on(second_device_, middle)},
                                {rest, whole_.part(rest).clone()}})}};
  }

  /// Memory of a device for a box, and a request for it.
  struct Wish {
    Box box;
    Array memory;
  };
  [[nodiscard]] static Wish wish_of(FakeDevice& device, Box box, DType dtype = DType::float32) {
    Array memory = on_device(device, Array::zeros(box.extents(), dtype));
    return {std::move(box), std::move(memory)};
  }
  [[nodiscard]] Request request_of(const std::vector<Wish>& wishes) const {
    AbstractShardedArray boxes(whole_.shape(), wishes[0].memory.dtype());
    for (const Wish& wish : wishes) {
      boxes.place_into(wish.box, wish.memory);
    }
    AbstractTree wanted;
    wanted["w"] = std::move(boxes);
    return {"state", std::move(wanted)};
  }

  const Array whole_ = floats(kRows * kColumns).reshaped({kRows, kColumns});
};

TEST_F(ShardsOnDevices, AreSavedAsOneArray) {
  save(divided());

  EXPECT_EQ(load().get<Array>("w"), whole_);
}

TEST_F(ShardsOnDevices, GoIntoAFileForEachDevice) {
  SaveOptions options;
  options.handler_options.set(ShardingOptions(std::make_shared<ShardByDevice>()));

  const SaveResult result = save(divided(), options);

  EXPECT_EQ(result.work(Work::divide).count, 3u);
  EXPECT_EQ(load().get<Array>("w"), whole_);
}

TEST_F(ShardsOnDevices, AreLoadedInOtherBoxes) {
  save(divided());
  const std::vector<Wish> wishes = {wish_of(device_, Box({7, 0}, {kRows / 2, kColumns})),
                                    wish_of(second_device_, Box({kRows / 2 + 7, 5}, {1000, 1})),
                                    wish_of(device_, Box({kRows - 1, kColumns}, {1, 0}))};

  static_cast<void>(load(request_of(wishes)));

  EXPECT_EQ(on_host(device_, wishes[0].memory), whole_.part(wishes[0].box).clone());
  EXPECT_EQ(on_host(second_device_, wishes[1].memory), whole_.part(wishes[1].box).clone());
}

TEST_F(ShardsOnDevices, AreNotLoadedBeforeWhatTheProgramsStreamWasGiven) {
  save(divided());
  const Wish wish = wish_of(device_, Box({0, 5}, {kRows, 2}));  // Rows that do not follow each other.
  device_.stream().push([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  overwrite(device_, wish.memory);

  static_cast<void>(load(request_of({wish})));
  device_.stream().record().wait();

  EXPECT_EQ(on_host(device_, wish.memory), whole_.part(wish.box).clone());
}

TEST_F(ShardsOnDevices, AreCastOnTheWay) {
  save(divided());
  const Wish wish = wish_of(device_, Box({500, 3}, {2000, 7}), DType::float64);

  static_cast<void>(load(request_of({wish})));

  const Array host = on_host(device_, wish.memory);
  EXPECT_EQ(host.data<const double>()[7 * 1000], whole_.data<const float>()[1500 * kColumns + 3]);
  EXPECT_EQ(host.data<const double>().back(), whole_.data<const float>()[2499 * kColumns + 9]);
}

TEST_F(ShardsOnDevices, AreLoadedTogether) {
  save(divided());
  testing::LocalRanks job(2);
  std::vector<Wish> wishes;
  std::vector<Context> contexts;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    wishes.push_back(wish_of(rank == 0 ? device_ : second_device_, Box({0, rank * 16}, {kRows, 17})));
    ContextOptions of_rank = options();
    of_rank.coordinator = std::make_shared<coord::Coordinator>(job.transport(rank));
    contexts.emplace_back(std::move(of_rank));
  }
  std::vector<std::future<void>> loads;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    loads.push_back(std::async(std::launch::async, [&, rank] {
      LoadOptions together;
      together.together = true;
      static_cast<void>(
          core::start_load(path(), {request_of({wishes[rank]})}, handlers_, together, contexts[rank]).wait());
    }));
  }
  for (std::future<void>& each : loads) {
    each.get();
  }

  EXPECT_EQ(on_host(device_, wishes[0].memory), whole_.part(wishes[0].box).clone());
  EXPECT_EQ(on_host(second_device_, wishes[1].memory), whole_.part(wishes[1].box).clone());
}

}  // namespace
}  // namespace cairn
