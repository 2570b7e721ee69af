// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <new>

#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include "faults/injector.hpp"
#include "proto/splice.hpp"

namespace cairn::faults {
namespace {

using google::protobuf::ListValue;

/// Splices one list of messages into another, while an allocation fails. Returns whether it was done all the same.
bool splices_with(const Fault& fault) {
  ListValue from;
  ListValue to;
  for (int i = 0; i < 4; ++i) {  // As many as there is room for.
    from.add_values()->set_number_value(4 + i);
    to.add_values()->set_number_value(i);
  }
  injector().arm(&fault);
  try {
    proto::splice(from, to);
  } catch (const std::bad_alloc&) {
    injector().disarm();
    return false;
  }
  injector().disarm();
  EXPECT_EQ(to.values_size(), 8);
  EXPECT_EQ(to.values(7).number_value(), 7);
  return true;
}

TEST(Splice, LosesNoMessageWhereAListCannotGrow) {
  Fault fault;
  fault.op = Op::new_memory;
  fault.error = 1;  // Any.
  fault.number = UINT64_MAX;
  ASSERT_TRUE(splices_with(fault));  // What protobuf makes once is there now.
  const std::int64_t before = injector().news;

  for (fault.number = 1; !splices_with(fault); ++fault.number) {
    EXPECT_EQ(injector().news, before) << "allocation " << fault.number;
    ASSERT_LT(fault.number, 100U);
  }

  EXPECT_GT(fault.number, 3U);
  EXPECT_EQ(injector().news, before);
}

}  // namespace
}  // namespace cairn::faults
