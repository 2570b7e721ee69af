// SPDX-License-Identifier: Apache-2.0
#include "joint/internal/claims.hpp"

#include <optional>
#include <string>

#include <gmock/gmock.h>

namespace cairn::joint {
namespace {

/// How the claims of two ranks differ; empty when they do not.
std::string difference(const std::string& one, const std::string& other) {
  const std::string merged = merge_claims({one, other});
  return std::string(difference_in(merged).value_or(""));
}

TEST(Claims, AgreeWhereAllSayTheSame) {
  const Claims claims = {{"the path", "a"}, {"overwrite", "true"}};

  EXPECT_EQ(difference(encode_claims(0, "save", claims), encode_claims(3, "save", claims)), "");
}

TEST(Claims, NameWhatDiffersAndWho) {
  EXPECT_EQ(difference(encode_claims(0, "save", {{"the path", "a"}}),
                       encode_claims(3, "save", {{"the path", "b"}})),
            "the path: rank 0 has 'a', rank 3 has 'b'");
}

TEST(Claims, SayFirstThatOneSavesAndAnotherLoads) {
  EXPECT_EQ(difference(encode_claims(0, "save", {{"the path", "a"}}),
                       encode_claims(2, "load", {{"the path", "b"}})),
            "what is done: rank 0 has 'save', rank 2 has 'load'");
}

TEST(Claims, DoNotCompareOneThingWithAnother) {
  EXPECT_EQ(difference(encode_claims(0, "save", {{"overwrite", "true"}}),
                       encode_claims(1, "save", {{"verify", "true"}})),
            "rank 0 says 'overwrite', rank 1 says 'verify'");
}

TEST(Claims, DifferInTheirNumber) {
  EXPECT_EQ(difference(encode_claims(0, "save", {}), encode_claims(1, "save", {{"verify", "true"}})),
            "ranks 0 and 1 passed different numbers of arguments");
}

TEST(Claims, KeepADifferenceThatWasFoundOnTheWay) {
  const std::string below =
      merge_claims({encode_claims(1, "save", {{"a", "x"}}), encode_claims(2, "save", {{"a", "y"}})});

  EXPECT_EQ(difference(encode_claims(0, "save", {{"a", "x"}}), below), "a: rank 1 has 'x', rank 2 has 'y'");
}

}  // namespace
}  // namespace cairn::joint
