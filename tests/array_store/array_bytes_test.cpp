// SPDX-License-Identifier: Apache-2.0
#include "array_store/array_bytes.hpp"

#include <complex>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>

#include "array/internal/cast.hpp"
#include "support/fails.hpp"
#include "support/fake_device.hpp"

namespace cairn::array_store {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

/// The elements of an array as `stored`, read in parts of `step` bytes.
std::vector<std::byte> read_by(const Array& array, DType stored, std::size_t step) {
  const ArraySource source(array, stored, Narrowing::allowed);
  std::vector<std::byte> out(array.element_count() * bits(stored) / 8);
  for (std::size_t at = 0; at < out.size(); at += step) {
    source.read(at, std::span(out).subspan(at, std::min(step, out.size() - at)));
  }
  return out;
}

Array some_floats() {
  static const std::vector<float> kValues = {1, 0.5F, 2, -1, 3, 0, 4, -2};
  return {kValues};
}

TEST(ArraySource, ReadsTheSameInWhateverParts) {
  for (const DType stored : {DType::float32, DType::float64, DType::bfloat16, DType::float6_e2m3,
                             DType::float4, DType::complex128}) {
    const auto whole = read_by(some_floats(), stored, 1000);
    for (const std::size_t step : {1, 2, 3, 5, 7, 11}) {
      EXPECT_EQ(read_by(some_floats(), stored, step), whole) << name(stored) << " by " << step;
    }
  }
}

TEST(ArraySource, CastsAsCastDoes) {
  std::vector<std::byte> expected(8 * sizeof(double));
  cast(some_floats().view().bytes(), DType::float32, expected, DType::float64);

  EXPECT_EQ(read_by(some_floats(), DType::float64, 1000), expected);
}

TEST(ArraySink, PutsElementsTogetherOfWhateverParts) {
  for (const DType stored : {DType::float32, DType::float64, DType::float6_e2m3, DType::float4}) {
    const auto bytes = read_by(some_floats(), stored, 1000);
    for (const std::size_t step : {1, 2, 3, 5, 7}) {
      std::vector<float> got(8);
      ArraySink sink(MutableArrayView(got), nullptr, stored, Narrowing::allowed);

      for (std::size_t at = 0; at < bytes.size(); at += step) {
        sink.write(at, std::span(bytes).subspan(at, std::min(step, bytes.size() - at)));
      }

      EXPECT_EQ(Array(got), some_floats()) << name(stored) << " by " << step;
    }
  }
}

TEST(ArraySink, PutsComplexNumbersTogetherOfWhateverParts) {
  const std::vector<std::complex<double>> stored = {{1, -2}, {0.5, 3}, {4, 0}};
  const auto bytes = std::as_bytes(std::span(stored));
  for (const std::size_t step : {1, 3, 7, 13, 17}) {
    std::vector<std::complex<float>> got(3);
    ArraySink sink(MutableArrayView(got), nullptr, DType::complex128, Narrowing::allowed);

    for (std::size_t at = 0; at < bytes.size(); at += step) {
      sink.write(at, bytes.subspan(at, std::min(step, bytes.size() - at)));
    }

    EXPECT_EQ(got, (std::vector<std::complex<float>>{{1, -2}, {0.5F, 3}, {4, 0}})) << step;
  }
}

TEST(ArraySink, TakesTheLastPartFirst) {
  const auto bytes = read_by(some_floats(), DType::float64, 1000);
  std::vector<float> got(8);
  ArraySink sink(MutableArrayView(got), nullptr, DType::float64, Narrowing::allowed);

  sink.write(13, std::span(bytes).subspan(13));
  sink.write(0, std::span(bytes).first(13));

  EXPECT_EQ(Array(got), some_floats());
}

TEST(CheckCast, RefusesWhatLosesValuesByThePath) {
  EXPECT_THAT([] { check_cast("a/x", DType::float32, DType::float16, Narrowing::refused); },
              Fails(Errc::unsafe_cast, HasSubstr("'a/x': ")));
  EXPECT_THAT([] { check_cast("", DType::complex64, DType::float32, Narrowing::allowed); },
              Fails(Errc::unsafe_cast, HasSubstr("the root: ")));
  EXPECT_NO_THROW(check_cast("a", DType::float32, DType::float16, Narrowing::allowed));
  EXPECT_NO_THROW(check_cast("a", DType::float16, DType::float32, Narrowing::refused));
}

class CopierFor : public ::testing::Test {
 protected:
  DeviceCopier* copier_for(const ArrayView& view, DType stored) {
    return array_store::copier_for("x", view, stored, [this](Device) { return copier_; });
  }

  static constexpr Device kDevice{Device::Kind::cuda, 1};
  std::byte memory_[64]{};
  DeviceCopier* copier_ = reinterpret_cast<DeviceCopier*>(memory_);  // Nobody calls it.
};

TEST_F(CopierFor, AsksForArraysOnDevicesOnly) {
  EXPECT_EQ(copier_for(ArrayView(memory_, {4}, DType::uint8), DType::uint8), nullptr);
  EXPECT_EQ(copier_for(ArrayView(memory_, {4}, DType::uint8, kDevice), DType::uint8), copier_);
  EXPECT_EQ(copier_for(ArrayView(memory_, {4}, DType::uint8, kDevice), DType::int32), copier_);
}

TEST_F(CopierFor, RefusesWhatNobodyCanCopy) {
  EXPECT_THAT(
      [&] {
        copier_for(ArrayView(memory_, {4, 4}, DType::uint8, kDevice).transposed(), DType::uint8);
      },
      Fails(Errc::invalid_argument, HasSubstr("not contiguous")));
  EXPECT_THAT([&] { copier_for(ArrayView(memory_, {4}, DType::float4, kDevice), DType::float32); },
              Fails(Errc::invalid_argument, HasSubstr("cannot be cast between")));
  copier_ = nullptr;
  EXPECT_THAT([&] { copier_for(ArrayView(memory_, {4}, DType::uint8, kDevice), DType::uint8); },
              Fails(Errc::invalid_argument, HasSubstr("'x': the array is on")));
}

/// More elements than are cast at a time.
constexpr std::size_t kCount = 300'000;

class DeviceCasts : public ::testing::Test {
 protected:
  DeviceCasts() : values_(kCount), memory_(device_.allocate(kCount * sizeof(float))) {
    for (std::size_t i = 0; i < kCount; ++i) {
      values_[i] = static_cast<float>(i);
    }
  }

  MutableArrayView view() { return {memory_.get(), {kCount}, DType::float32, device_.device()}; }

  template <class Place>
  std::unique_ptr<Place> place() {
    return std::make_unique<ArrayOnDevice<Place>>(DeviceRegion{copier_.get(), memory_.get()}, memory_, "'x'");
  }

  std::vector<double> as_doubles() const { return {values_.begin(), values_.end()}; }

  testing::FakeDevice device_;
  std::shared_ptr<DeviceCopier> copier_ = device_.copier();
  std::vector<float> values_;
  std::shared_ptr<std::byte> memory_;
};

TEST_F(DeviceCasts, BringElementsFromTheDevice) {
  std::memcpy(device_.seen(memory_.get()), values_.data(), kCount * sizeof(float));
  const ArraySource source(Array::share(view(), memory_), DType::float64, Narrowing::refused,
                           place<DeviceSource>());
  std::vector<double> got(kCount);

  const auto bytes = std::as_writable_bytes(std::span(got));
  source.read(0, bytes.first(1'000'001));  // Within an element.
  source.read(1'000'001, bytes.subspan(1'000'001));

  EXPECT_EQ(got, as_doubles());
}

TEST_F(DeviceCasts, TakeElementsToTheDevice) {
  ArraySink sink(view(), memory_, DType::float64, Narrowing::allowed, place<DeviceSink>());
  const std::vector<double> given = as_doubles();

  const auto bytes = std::as_bytes(std::span(given));
  sink.write(1'000'001, bytes.subspan(1'000'001));
  sink.write(0, bytes.first(1'000'001));

  EXPECT_EQ(std::memcmp(device_.seen(memory_.get()), values_.data(), kCount * sizeof(float)), 0);
}

TEST_F(DeviceCasts, KeepTheMemoryOfTheArray) {
  auto source = place<DeviceSource>();
  const std::weak_ptr<std::byte> memory = std::exchange(memory_, nullptr);

  EXPECT_FALSE(memory.expired());
  EXPECT_EQ(source->describe(), "'x'");
  source.reset();
  EXPECT_TRUE(memory.expired());
}

}  // namespace
}  // namespace cairn::array_store
