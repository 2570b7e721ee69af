// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "cairn/contract/value_traits.hpp"

namespace cairn {
namespace {

using Owned = std::unique_ptr<int>;

struct Plain {
  double x = 0;
  int numbers[4] = {};
};

/// Its implicit copy constructor is declared, and does not compile.
class Liar {
 public:
  [[nodiscard]] std::size_t size() const { return owned_.size(); }

 private:
  std::vector<Owned> owned_;
};

struct WithLiar {
  Liar liar;
};

/// Could be copied, and does not say so.
struct Silent {
  std::string text;
};

struct Says {
  std::string text;
};

}  // namespace

template <>
struct IsCopyable<Says> : std::true_type {};

namespace {

template <class... T>
constexpr bool all() {
  return (IsCopyable<T>::value && ...);
}

template <class... T>
constexpr bool any() {
  return (IsCopyable<T>::value || ...);
}

TEST(IsCopyable, IsTrueOfTrivialTypes) {
  EXPECT_TRUE((all<int, double, Plain, const char*, std::pair<int, float>, std::optional<int>>()));
}

TEST(IsCopyable, IsTrueOfContainersOfSuch) {
  EXPECT_TRUE((all<std::string, std::vector<std::string>, std::map<std::string, std::vector<Plain>>,
                   std::unordered_map<std::string, int>, std::tuple<std::string, int>,
                   std::variant<int, std::string>, std::optional<std::vector<int>>,
                   std::array<std::string, 2>, std::shared_ptr<Owned>, const std::string>()));
}

TEST(IsCopyable, IsFalseWhereTheStandardLibraryIsWrong) {
  static_assert(std::is_copy_constructible_v<std::vector<Owned>> && std::is_copy_constructible_v<Liar> &&
                std::is_copy_constructible_v<WithLiar>);

  EXPECT_FALSE((any<std::vector<Owned>, std::map<int, Owned>, std::vector<std::vector<Owned>>,
                    std::optional<std::vector<Owned>>, std::tuple<int, std::vector<Owned>>,
                    std::variant<int, std::vector<Owned>>, std::array<std::vector<Owned>, 2>, Liar,
                    std::vector<Liar>, WithLiar>()));
}

TEST(IsCopyable, IsFalseOfWhatCannotBeCopied) {
  struct Fixed {
    Fixed() = default;
    Fixed(const Fixed&) = delete;
  };

  EXPECT_FALSE((any<Owned, Fixed, std::optional<Owned>, std::pair<int, Owned>>()));
}

TEST(IsCopyable, ClassesSayItThemselves) {
  EXPECT_FALSE((any<Silent, std::vector<Silent>>()));
  EXPECT_TRUE((all<Says, std::vector<Says>>()));
}

}  // namespace
}  // namespace cairn
