// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <functional>
#include <new>
#include <string>

#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include "faults/injector.hpp"
#include "proto/internal/add_element.hpp"
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
  const std::function<std::string()> name = [] { return "a page"; };
  injector().arm(&fault);
  try {
    proto::splice(from, to, name);
  } catch (const std::bad_alloc&) {
    injector().disarm();
    return false;
  }
  injector().disarm();
  EXPECT_EQ(to.values_size(), 8);
  EXPECT_EQ(to.values(7).number_value(), 7);
  return true;
}

/// Adds an element to a list that has no room for it, while an allocation fails. Returns whether it was added.
bool adds_with(const Fault& fault) {
  ListValue list;
  while (list.values_size() == 0 || list.values().Capacity() > list.values_size()) {
    list.add_values()->set_number_value(1);
  }
  const int size = list.values_size();
  injector().arm(&fault);
  try {
    proto::add_element(*list.mutable_values());
  } catch (const std::bad_alloc&) {
    injector().disarm();
    EXPECT_EQ(list.values_size(), size);
    return false;
  }
  injector().disarm();
  EXPECT_EQ(list.values_size(), size + 1);
  return true;
}

using Act = bool (*)(const Fault& fault);

/// Lets each allocation of `act` fail, until none does: nothing may be lost.
void expect_loses_nothing(Act act, std::uint64_t at_least) {
  Fault fault;
  fault.op = Op::new_memory;
  fault.error = 1;  // Any.
  fault.number = UINT64_MAX;
  ASSERT_TRUE(act(fault));  // What protobuf makes once is there now.
  const std::int64_t before = injector().news;

  for (fault.number = 1; !act(fault); ++fault.number) {
    EXPECT_EQ(injector().news, before) << "allocation " << fault.number;
    ASSERT_LT(fault.number, 100U);
  }

  EXPECT_GT(fault.number, at_least);
  EXPECT_EQ(injector().news, before);
}

TEST(Splice, LosesNoMessageWhereAListCannotGrow) {
  expect_loses_nothing(splices_with, 3);
}

TEST(AddElement, LosesNoMessageWhereAListCannotGrow) {
  expect_loses_nothing(adds_with, 2);
}

}  // namespace
}  // namespace cairn::faults
