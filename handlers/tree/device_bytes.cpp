// SPDX-License-Identifier: Apache-2.0
#include "device_bytes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cairn/array/copy.hpp"

namespace cairn::detail {
namespace {

/// Elements on their way between a device and a cast, at a time.
constexpr std::size_t kElements = std::size_t{128} << 10;

std::size_t bytes_of(DType dtype) {
  return bits(dtype) / 8;  // Packed types are not cast on their way to or from a device.
}

/// Calls `visit(first element, number of elements)` for parts of a range of bytes of elements of `dtype`.
template <class Visit>
void visit_parts(DType dtype, std::uint64_t offset_bytes, std::size_t size, Visit visit) {
  const std::uint64_t first = offset_bytes / bytes_of(dtype);
  const std::size_t count = size / bytes_of(dtype);
  for (std::size_t at = 0; at < count; at += kElements) {
    visit(first + at, at, std::min(kElements, count - at));
  }
}

}  // namespace

DeviceCastSource::DeviceCastSource(Array array, DeviceCopier& copier, DType stored, Narrowing narrowing,
                                   std::string what)
    : ArraySource(array, stored, narrowing),
      memory_({&copier, const_cast<std::byte*>(array.view().data())}, array.owner(), std::move(what)) {}

void DeviceCastSource::cast_range(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  const DType dtype = array().dtype();
  std::vector<std::byte> part;
  visit_parts(
      stored(), offset_bytes, out.size(), [&](std::uint64_t first, std::size_t at, std::size_t count) {
        part.resize(count * bytes_of(dtype));
        memory_.read(first * bytes_of(dtype), part);
        cairn::cast_range(ArrayView(part.data(), {count}, dtype), stored(), 0,
                          out.subspan(at * bytes_of(stored()), count * bytes_of(stored())), narrowing());
      });
}

DeviceCastSink::DeviceCastSink(MutableArrayView view, DeviceCopier& copier, std::shared_ptr<const void> owner,
                               DType stored, Narrowing narrowing, std::string what)
    : ArraySink(view, owner, stored, narrowing),
      memory_({&copier, view.data()}, std::move(owner), std::move(what)) {}

void DeviceCastSink::cast_scatter_range(std::span<const std::byte> in, std::uint64_t offset_bytes) {
  const DType dtype = view().dtype();
  std::vector<std::byte> part;
  visit_parts(stored(), offset_bytes, in.size(), [&](std::uint64_t first, std::size_t at, std::size_t count) {
    part.resize(count * bytes_of(dtype));
    cairn::cast_scatter_range(in.subspan(at * bytes_of(stored()), count * bytes_of(stored())), stored(), 0,
                              MutableArrayView(part.data(), {count}, dtype), narrowing());
    memory_.write(first * bytes_of(dtype), part);
  });
}

}  // namespace cairn::detail
