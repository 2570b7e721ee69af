// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "core/internal/start.hpp"
#include "devices/fixture.hpp"

namespace cairn {
namespace {

using testing::DeviceTest;
using testing::Fails;
using testing::FakeDevice;
using ::testing::HasSubstr;
using testing::kMebi;

class DeviceLoad : public DeviceTest {
 protected:
  DeviceLoad() { save({{"w", values_.clone()}}); }

  /// Asks for "w" in the memory of an array.
  static Request into(const Array& array) {
    AbstractTree wanted;
    AbstractArray abstract(array.shape(), array.dtype());
    abstract.place_into(array);
    wanted["w"] = std::move(abstract);
    return {"state", std::move(wanted)};
  }

  const Array values_ = floats(3 * kMebi + 5);  // 12 MiB and a bit: several reads.
  const Array room_ = on_device(device_, Array::zeros({3 * kMebi + 5}, DType::float32));
};

TEST_F(DeviceLoad, FillsMemoryOfADevice) {
  const Tree loaded = load(into(room_));

  EXPECT_EQ(loaded.get<Array>("w").view().device(), device_.device());
  EXPECT_EQ(on_host(device_, room_), values_);
}

TEST_F(DeviceLoad, FillsMemoryOfADeviceFromItsOwnSave) {
  SaveOptions options;
  options.overwrite = true;
  const Array other = floats(3 * kMebi + 5, 8);
  save({{"w", on_device(device_, other)}}, options);

  static_cast<void>(load(into(room_)));

  EXPECT_EQ(on_host(device_, room_), other);
}

TEST_F(DeviceLoad, FillsManySmallArraysAtOnce) {
  Tree tree;
  AbstractTree wanted;
  std::vector<Array> rooms;
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "a" + std::to_string(i);
    tree[name] = floats(16, static_cast<unsigned>(i) + 1);
    rooms.push_back(on_device(device_, Array::zeros({16}, DType::float32)));
    AbstractArray abstract({16}, DType::float32);
    abstract.place_into(rooms.back());
    wanted[name] = std::move(abstract);
  }
  SaveOptions options;
  options.overwrite = true;
  save(tree, options);

  static_cast<void>(load({"state", std::move(wanted)}));

  EXPECT_LE(device_.transfers(CopyDirection::to_device), 2u);
  EXPECT_EQ(on_host(device_, rooms[1999]), floats(16, 2000));
}

TEST_F(DeviceLoad, CastsOnTheWay) {
  const Array doubles = on_device(device_, Array::zeros({3 * kMebi + 5}, DType::float64));

  static_cast<void>(load(into(doubles)));

  const Array host = on_host(device_, doubles);
  EXPECT_EQ(host.data<const double>()[999'999], values_.data<const float>()[999'999]);
  EXPECT_EQ(host.data<const double>().back(), values_.data<const float>().back());
}

TEST_F(DeviceLoad, CopiesFromPinnedMemory) {
  static_cast<void>(load(into(room_)));

  EXPECT_EQ(device_.unpinned_copies(), 0u);
}

TEST_F(DeviceLoad, WaitsForWhatTheProgramsStreamWasGivenBefore) {
  device_.stream().push([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  overwrite(device_, room_);  // Must not come after what is loaded.

  static_cast<void>(load(into(room_)));

  EXPECT_EQ(on_host(device_, room_), values_);
}

TEST_F(DeviceLoad, WaitsForTheProgramsStreamAlsoWhereItCasts) {
  const Array doubles = on_device(device_, Array::zeros({3 * kMebi + 5}, DType::float64));
  device_.stream().push([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  overwrite(device_, doubles);

  static_cast<void>(load(into(doubles)));
  device_.stream().record().wait();

  const Array host = on_host(device_, doubles);
  EXPECT_EQ(host.data<const double>()[999'999], values_.data<const float>()[999'999]);
}

TEST_F(DeviceLoad, WaitsForTheProgramsStreamAlsoUnderTwoNames) {
  SaveOptions options;
  options.overwrite = true;
  save({{"w", values_}, {"z", values_}}, options);
  const Array other = on_device(device_, Array::zeros({3 * kMebi + 5}, DType::float32));
  AbstractTree wanted;
  for (const auto& [name, room] : {std::pair("w", &room_), std::pair("z", &other)}) {
    AbstractArray abstract(room->shape(), room->dtype());
    abstract.place_into(*room);
    wanted[name] = std::move(abstract);
  }
  device_.stream().push([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  overwrite(device_, room_);

  static_cast<void>(load({"state", std::move(wanted)}));
  device_.stream().record().wait();

  EXPECT_EQ(on_host(device_, room_), values_);
  EXPECT_EQ(on_host(device_, other), values_);
}

TEST_F(DeviceLoad, FailsWithTheErrorOfACopy) {
  device_.fail_transfer(CopyDirection::to_device, 1);

  EXPECT_THAT([&] { static_cast<void>(load(into(room_))); },
              Fails(Errc::device_failure, HasSubstr("'w': cuda:0, stream 0x")));
  EXPECT_EQ(context_->staged_bytes(), 0u);
}

TEST_F(DeviceLoad, StopsBetweenCopiesWhenItIsCancelled) {
  context_.emplace(options(8 * kMebi));
  device_.set_latency(std::chrono::milliseconds(100));

  const LoadResponse response = core::start_load(path(), {into(room_)}, handlers_, LoadOptions(), *context_);
  response.cancel();

  EXPECT_THAT([&] { static_cast<void>(response.wait()); }, Fails(Errc::cancelled));
  EXPECT_EQ(context_->staged_bytes(), 0u);
}

TEST_F(DeviceLoad, RefusesADeviceThatTheContextDoesNotKnow) {
  FakeDevice third(2);
  const Array room = on_device(third, Array::zeros({3 * kMebi + 5}, DType::float32));

  EXPECT_THAT([&] { static_cast<void>(load(into(room))); },
              Fails(Errc::invalid_argument,
                    HasSubstr("'w': the array is on cuda:2, for which the context has no copier")));
}

TEST_F(DeviceLoad, RefusesMemoryThatIsNotContiguous) {
  const MutableArrayView spread(room_.mutable_view().data(), {kMebi}, DType::float32, {8}, device_.device());
  SaveOptions options;
  options.overwrite = true;
  save({{"w", floats(kMebi)}}, options);

  EXPECT_THAT([&] { static_cast<void>(load(into(Array::borrow(spread)))); },
              Fails(Errc::invalid_argument, HasSubstr("'w': the array is on cuda:0 and not contiguous")));
}

}  // namespace
}  // namespace cairn
