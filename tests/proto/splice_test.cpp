// SPDX-License-Identifier: Apache-2.0
#include "proto/splice.hpp"

#include <functional>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shapes.pb.h"
#include "support/fails.hpp"

namespace cairn::proto {
namespace {

using cairn::test::shapes::All;
using ::testing::AllOf;
using testing::Fails;
using ::testing::HasSubstr;

constexpr int kMost = std::numeric_limits<int>::max();

TEST(Splice, RefusesMoreElementsThanProtobufCanCount) {
  const google::protobuf::FieldDescriptor& field = *All::descriptor()->FindFieldByName("r_all");
  const std::function<std::string()> name = [] { return "chunk 7 at r_all"; };

  EXPECT_EQ(joined_size(kMost - 1, 1, field, name), kMost);
  EXPECT_THAT([&] { static_cast<void>(joined_size(kMost, 1, field, name)); },
              Fails(Errc::malformed_metadata,
                    AllOf(HasSubstr("chunk 7 at r_all"), HasSubstr("cairn.test.shapes.All.r_all"),
                          HasSubstr("2147483648 elements"))));
  EXPECT_THAT([&] { static_cast<void>(joined_size(kMost, kMost, field, name)); },
              Fails(Errc::malformed_metadata, HasSubstr("4294967294 elements")));
}

TEST(Splice, ReplacesValuesOfKeysThatAreThere) {
  All from;
  All to;
  (*from.mutable_m_uint32())[1] = "new";
  (*to.mutable_m_uint32())[1] = "old";
  (*to.mutable_m_uint32())[2] = "kept";

  splice(from, to, [] { return "a page"; });

  EXPECT_EQ(to.m_uint32_size(), 2);
  EXPECT_EQ(to.m_uint32().at(1), "new");
  EXPECT_EQ(to.m_uint32().at(2), "kept");
}

}  // namespace
}  // namespace cairn::proto
