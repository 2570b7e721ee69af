// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "cairn/array/dlpack.hpp"

#include "core/internal/start.hpp"
#include "devices/fixture.hpp"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::DeviceTest;
using testing::eventually;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kMebi;
using ::testing::Not;

class DeviceSave : public DeviceTest {
 protected:
  const Array values_ = floats(kMebi);  // 4 MiB.
};

class DeviceSaveOfEveryKind : public DeviceSave, public ::testing::WithParamInterface<Snapshot> {};

INSTANTIATE_TEST_SUITE_P(Snapshots, DeviceSaveOfEveryKind,
                         ::testing::Values(Snapshot::copy, Snapshot::borrow, Snapshot::share));

TEST_P(DeviceSaveOfEveryKind, KeepsArraysOfTheDeviceAndTheHost) {
  SaveOptions options;
  options.snapshot = GetParam();
  const Array host = floats(12345, 2);

  save({{"device", on_device(device_, values_)}, {"host", host.clone()}}, options);

  const Tree loaded = load();
  EXPECT_EQ(loaded.get<Array>("device"), values_);
  EXPECT_EQ(loaded.get<Array>("host"), host);
}

TEST_P(DeviceSaveOfEveryKind, KeepsWhatTheProgramsStreamWasGivenBefore) {
  SaveOptions options;
  options.snapshot = GetParam();
  const Array array = on_device(device_, values_);
  device_.stream().push([] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
  overwrite(device_, array);

  save({{"w", array}}, options);

  EXPECT_EQ(load().get<Array>("w"), on_host(device_, array));
}

TEST_P(DeviceSaveOfEveryKind, KeepsWhatTheProgramsStreamWasGivenBeforeAlsoWhereItCasts) {
  SaveOptions options;
  options.snapshot = GetParam();
  options.handler_options.set(ArrayOptions(DType::float64));
  const Array array = on_device(device_, values_);
  device_.stream().push([] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
  overwrite(device_, array);

  save({{"w", array}}, options);
  device_.stream().record().wait();

  const Array loaded = load().get<Array>("w");
  const Array then = on_host(device_, array);
  EXPECT_EQ(loaded.data<const double>()[777], then.data<const float>()[777]);
}

TEST_F(DeviceSave, EndsTheBlockingPhaseBeforeTheSnapshotIsTaken) {
  const Array array = on_device(device_, values_);
  auto stalled = device_.stall_copies();

  const AsyncResponse response = start({{"w", array}});
  const bool was_staged = response.is_staged();
  overwrite(device_, array);
  stalled.reset();
  response.wait();

  EXPECT_TRUE(was_staged);
  EXPECT_EQ(load().get<Array>("w"), values_);
}

TEST_F(DeviceSave, EndsTheBlockingPhaseBeforeTheSnapshotIsTakenAlsoBesideHostArrays) {
  const Array array = on_device(device_, values_);
  Array host = floats(1000, 2);
  const Array expected_host = host.clone();
  auto stalled = device_.stall_copies();

  const AsyncResponse response = start({{"a", host}, {"w", array}, {"z", on_device(device_, floats(10))}});
  const bool was_staged = response.is_staged();
  overwrite(device_, array);
  std::ranges::fill(host.data<float>(), 0.0F);
  stalled.reset();
  response.wait();

  EXPECT_TRUE(was_staged);
  const Tree loaded = load();
  EXPECT_EQ(loaded.get<Array>("a"), expected_host);
  EXPECT_EQ(loaded.get<Array>("w"), values_);
  EXPECT_EQ(loaded.get<Array>("z"), floats(10));
}

TEST_F(DeviceSave, KeepsArraysThatItsCallerLetsGo) {
  auto stalled = device_.stall_copies();

  const AsyncResponse response = start({{"w", on_device(device_, values_)}});
  const Array in_the_way = on_device(device_, floats(kMebi, 7));
  stalled.reset();
  response.wait();

  EXPECT_EQ(load().get<Array>("w"), values_);
}

TEST_F(DeviceSave, HoldsOtherStreamsThatAskForIt) {
  const Array array = on_device(device_, values_);
  auto stalled = device_.stall_copies();

  const AsyncResponse response = start({{"w", array}});
  context_->options().copiers[0]->hold(&device_.other_stream());
  device_.other_stream().push([&] {
    std::memset(device_.seen(array.view().data()), 0x55, static_cast<std::size_t>(array.byte_count()));
  });
  stalled.reset();
  response.wait();

  EXPECT_EQ(load().get<Array>("w"), values_);
}

TEST_F(DeviceSave, CopiesBeforeTheBlockingPhaseEndsWithoutRoomForASnapshot) {
  const Array array = on_device(device_, values_);
  device_.set_room(0);

  const AsyncResponse response = start({{"w", array}});
  std::memset(device_.seen(array.view().data()), 0x55, static_cast<std::size_t>(array.byte_count()));
  const SaveResult result = response.wait();

  EXPECT_EQ(load().get<Array>("w"), values_);
  EXPECT_THAT(result.fallbacks, Contains(HasSubstr("cuda:0 has no room for a snapshot")));
}

TEST_F(DeviceSave, FreesItsSnapshots) {
  const Array array = on_device(device_, values_);
  const std::size_t used = device_.used_bytes();

  save({{"w", array}});

  EXPECT_EQ(device_.used_bytes(), used);
  EXPECT_GT(device_.copied_bytes(CopyDirection::within_device), 0u);
}

TEST_F(DeviceSave, StreamsWhatIsLargerThanTheBudget) {
  context_.emplace(options(8 * kMebi));
  device_.set_room(0);
  const Array large = floats(10 * kMebi);  // 40 MiB.

  const SaveResult result = save({{"a", on_device(device_, large)}, {"b", on_device(device_, values_)}});

  EXPECT_LE(result.pool.peak_bytes, 8 * kMebi);
  const Tree loaded = load();
  EXPECT_EQ(loaded.get<Array>("a"), large);
  EXPECT_EQ(loaded.get<Array>("b"), values_);
}

TEST_F(DeviceSave, StreamsASnapshotThatIsLargerThanTheBudget) {
  context_.emplace(options(8 * kMebi));
  const Array large = floats(10 * kMebi);
  const Array array = on_device(device_, large);
  auto stalled = device_.stall_copies();

  const AsyncResponse response = start({{"w", array}});
  overwrite(device_, array);
  stalled.reset();
  const SaveResult result = response.wait();

  EXPECT_LE(result.pool.peak_bytes, 8 * kMebi);
  EXPECT_EQ(load().get<Array>("w"), large);
}

TEST_F(DeviceSave, CopiesManySmallArraysAtOnce) {
  constexpr int kArrays = 3000;
  device_.set_room(0);
  Tree tree;
  for (int i = 0; i < kArrays; ++i) {
    tree["a" + std::to_string(i)] = on_device(device_, floats(16, static_cast<unsigned>(i) + 1));
  }

  save(tree);

  EXPECT_LE(device_.transfers(CopyDirection::to_host), 2u);
  const Tree loaded = load();
  for (int i = 0; i < kArrays; i += 100) {
    EXPECT_EQ(loaded.get<Array>("a" + std::to_string(i)), floats(16, static_cast<unsigned>(i) + 1));
  }
}

TEST_F(DeviceSave, TakesOneSnapshotOfManySmallArrays) {
  Tree tree;
  for (int i = 0; i < 3000; ++i) {
    tree["a" + std::to_string(i)] = on_device(device_, floats(16));
  }

  save(tree);

  EXPECT_EQ(device_.transfers(CopyDirection::within_device), 1u);
  EXPECT_LE(device_.transfers(CopyDirection::to_host), 2u);
}

TEST_F(DeviceSave, KeepsArraysOfTwoDevices) {
  const Array other = floats(kMebi / 2, 3);

  save({{"a", on_device(device_, values_)}, {"b", on_device(second_device_, other)}});

  const Tree loaded = load();
  EXPECT_EQ(loaded.get<Array>("a"), values_);
  EXPECT_EQ(loaded.get<Array>("b"), other);
}

TEST_F(DeviceSave, KeepsArraysWithoutElements) {
  const Array empty = Array::borrow(MutableArrayView(nullptr, {0, 3}, DType::float32, device_.device()));

  save({{"w", empty}});

  EXPECT_EQ(load().get<Array>("w").shape(), (Shape{0, 3}));
}

TEST_F(DeviceSave, CastsOnTheWay) {
  SaveOptions options;
  options.handler_options.set(ArrayOptions(DType::float64));

  save({{"w", on_device(device_, values_)}}, options);

  const Array loaded = load().get<Array>("w");
  EXPECT_EQ(loaded.dtype(), DType::float64);
  EXPECT_EQ(loaded.data<const double>()[777], values_.data<const float>()[777]);
  EXPECT_EQ(loaded.data<const double>().back(), values_.data<const float>().back());
}

TEST_F(DeviceSave, TakesTensorsOfOtherLibraries) {
  const Array array = on_device(device_, values_);

  save({{"w", from_dlpack(to_dlpack(array))}});

  EXPECT_EQ(load().get<Array>("w"), values_);
}

TEST_F(DeviceSave, CopiesIntoPinnedMemory) {
  save({{"w", on_device(device_, values_)}});

  EXPECT_EQ(device_.unpinned_copies(), 0u);
  EXPECT_EQ(device_.pinned_bytes(), context_->pool_bytes());
}

TEST_F(DeviceSave, LetsPinnedMemoryGoWithTheContext) {
  save({{"w", on_device(device_, values_)}});

  context_.reset();

  EXPECT_EQ(device_.pinned_bytes(), 0u);
}

TEST_F(DeviceSave, GoesOnWithoutPinnedMemoryAndSaysSo) {
  device_.refuse_pins();

  const SaveResult result = save({{"w", on_device(device_, values_)}});

  EXPECT_THAT(result.fallbacks, Contains(HasSubstr("could not pin")));
  EXPECT_EQ(load().get<Array>("w"), values_);
}

TEST_F(DeviceSave, FailsWithTheErrorOfACopyAndLeavesTheOldCheckpoint) {
  save({{"w", values_.clone()}});
  const Array large = on_device(device_, floats(10 * kMebi, 5));
  const std::size_t used = device_.used_bytes();
  device_.set_room(0);
  device_.fail_transfer(CopyDirection::to_host, 4);
  SaveOptions options;
  options.overwrite = true;

  EXPECT_THAT(
      [&] {
        save({{"w", large}}, options);
      },
      Fails(Errc::device_failure, AllOf(HasSubstr("'w': cuda:0, stream 0x"), HasSubstr("'state'"))));

  EXPECT_EQ(load().get<Array>("w"), values_);
  EXPECT_EQ(context_->staged_bytes(), 0u);
  EXPECT_EQ(device_.used_bytes(), used);
  EXPECT_THAT(testing::list_tree(folder_.path()), Not(Contains(HasSubstr(".tmp-"))));
}

TEST_F(DeviceSave, FailsWithTheErrorOfASnapshot) {
  const Array array = on_device(device_, values_);
  const std::size_t used = device_.used_bytes();
  device_.fail_transfer(CopyDirection::within_device, 0);

  EXPECT_THAT(
      [&] {
        save({{"w", array}});
      },
      Fails(Errc::device_failure, HasSubstr("the snapshot of 'w': cuda:0, stream 0x")));

  EXPECT_EQ(context_->staged_bytes(), 0u);
  EXPECT_EQ(device_.used_bytes(), used);
  EXPECT_THAT(testing::list_tree(folder_.path()), IsEmpty());
}

TEST_F(DeviceSave, FailsWithTheErrorOfACopyFromASnapshot) {
  const Array array = on_device(device_, values_);
  const std::size_t used = device_.used_bytes();
  device_.fail_transfer(CopyDirection::to_host, 0);

  EXPECT_THAT(
      [&] {
        save({{"w", array}});
      },
      Fails(Errc::device_failure, HasSubstr("the snapshot of 'w': cuda:0, stream 0x")));

  EXPECT_EQ(device_.used_bytes(), used);
  EXPECT_THAT(testing::list_tree(folder_.path()), IsEmpty());
}

TEST_F(DeviceSave, NamesTheDeviceThatFailedAmongSeveral) {
  second_device_.fail_transfer(CopyDirection::within_device, 0);

  EXPECT_THAT(
      [&] {
        save({{"a", on_device(device_, values_)}, {"b", on_device(second_device_, floats(100))}});
      },
      Fails(Errc::device_failure, HasSubstr("'b': cuda:1, stream 0x")));
}

TEST_F(DeviceSave, StopsBetweenCopiesWhenItIsCancelled) {
  context_.emplace(options(8 * kMebi));
  const Array large = on_device(device_, floats(10 * kMebi));
  const Tree tree = {{"w", large}};
  const std::size_t used = device_.used_bytes();
  device_.set_room(0);
  device_.set_latency(std::chrono::milliseconds(100));
  SaveOptions options(return_when_accepted);

  const AsyncResponse response = start(tree, options);
  ASSERT_TRUE(eventually([&] { return device_.transfers(CopyDirection::to_host) > 0; }));
  response.cancel();

  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));
  EXPECT_EQ(context_->staged_bytes(), 0u);
  EXPECT_EQ(device_.used_bytes(), used);
  EXPECT_LT(device_.copied_bytes(CopyDirection::to_host), large.byte_count());
  EXPECT_THAT(testing::list_tree(folder_.path()), IsEmpty());
}

TEST_F(DeviceSave, FreesASnapshotWhenItIsCancelled) {
  const Array array = on_device(device_, values_);
  const std::size_t used = device_.used_bytes();
  auto stalled = device_.stall_copies();

  const AsyncResponse response = start({{"w", array}});
  response.cancel();
  stalled.reset();

  EXPECT_THAT([&] { response.wait(); }, Fails(Errc::cancelled));
  EXPECT_TRUE(eventually([&] { return device_.used_bytes() == used; }));
}

TEST_F(DeviceSave, RefusesArraysOfADeviceThatTheContextDoesNotKnow) {
  ContextOptions options = this->options();
  options.copiers.pop_back();
  context_.emplace(std::move(options));

  EXPECT_THAT(
      [&] {
        save({{"w", on_device(second_device_, values_)}});
      },
      Fails(Errc::invalid_argument,
            HasSubstr("'w': the array is on cuda:1, for which the context has no copier")));
}

TEST_F(DeviceSave, RefusesArraysThatAreNotContiguousOnTheirDevice) {
  const Array array = on_device(device_, floats(6));
  const MutableArrayView square(array.mutable_view().data(), {2, 3}, DType::float32, device_.device());

  EXPECT_THAT(
      [&] {
        save({{"w", Array::borrow(square.transposed())}});
      },
      Fails(Errc::invalid_argument, HasSubstr("'w': the array is on cuda:0 and not contiguous")));
}

TEST_F(DeviceSave, RefusesToCastElementsThatShareBytes) {
  const auto memory = device_.allocate(8);
  const Array array = Array::borrow(MutableArrayView(memory.get(), {16}, DType::float4, device_.device()));
  SaveOptions options;
  options.handler_options.set(ArrayOptions(DType::float32));

  EXPECT_THAT(
      [&] {
        save({{"w", array}}, options);
      },
      Fails(Errc::invalid_argument, HasSubstr("cannot be cast")));
}

TEST_F(DeviceSave, KeepsApartSavesThatGoOnAtOnce) {
  const Array first = on_device(device_, values_);
  const Array second = on_device(device_, floats(kMebi, 9));

  const AsyncResponse one = core::start_save(folder_ / "one", Checkpointables{{"state", Tree{{"w", first}}}},
                                             handlers_, SaveOptions(), *context_);
  const AsyncResponse two = core::start_save(folder_ / "two", Checkpointables{{"state", Tree{{"w", second}}}},
                                             handlers_, SaveOptions(), *context_);
  one.wait();
  two.wait();

  const auto loaded = [&](const char* name) {
    return core::start_load(folder_ / name, {"state"}, handlers_, LoadOptions(), *context_)
        .wait()
        .take<Tree>("state");
  };
  EXPECT_EQ(loaded("one").get<Array>("w"), values_);
  EXPECT_EQ(loaded("two").get<Array>("w"), floats(kMebi, 9));
}

TEST(DeviceCopiers, AreRefusedWhenTwoAreForOneDevice) {
  testing::FakeDevice device;
  ContextOptions options;
  options.copiers = {device.copier(), device.copier()};

  EXPECT_THAT([&] { Context context(std::move(options)); },
              Fails(Errc::already_exists, HasSubstr("cuda:0 has two copiers")));
}

TEST(DeviceCopiers, AreRefusedWhenOneIsNull) {
  ContextOptions options;
  options.copiers = {nullptr};

  EXPECT_THAT([&] { Context context(std::move(options)); },
              Fails(Errc::invalid_argument, HasSubstr("copiers")));
}

}  // namespace
}  // namespace cairn
