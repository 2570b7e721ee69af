// SPDX-License-Identifier: Apache-2.0
// The table of C++ types that trees take: whatever is saved loads as its type.
#include <array>
#include <chrono>
#include <complex>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory_resource>
#include <new>
#include <optional>
#include <random>
#include <ratio>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <valarray>
#include <vector>

#include <boost/describe/class.hpp>

#include "cairn/handlers/describe.hpp"
#include "cairn/handlers/into.hpp"

#include "handlers/store.hpp"
#include "support/other_arithmetic.hpp"

namespace cairn {
namespace {

using testing::Fails;
using ::testing::HasSubstr;

enum class Colour : std::uint8_t { red, green };

/// As SIMD codes have it.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kAlignment)); }
  void deallocate(T* memory, std::size_t /*count*/) { ::operator delete(memory, kAlignment); }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) = default;
};

template <class T>
using Aligned = std::vector<T, AlignedAllocator<T>>;

/// A range that is described: it has two ways to be a tree.
class Samples : public std::vector<float> {
 public:
  int rate = 0;

 private:
  BOOST_DESCRIBE_CLASS(Samples, (), (rate), (), ())
};

template <class T>
struct Holder {
  T value{};
  BOOST_DESCRIBE_CLASS(Holder, (), (value), (), ())
};

template <class T>
bool is_same(const T& a, const T& b) {
  if constexpr (!std::is_array_v<T> && requires { a == b ? 1 : 0; }) {
    return a == b;
  } else {
    return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b));
  }
}

class Types : public testing::StoreTest {
 protected:
  /// `value` as a checkpointable, as a leaf and as a member, each saved and loaded.
  template <class T>
  void expect_back(T value) {
    SCOPED_TRACE(type_name(typeid(T)));
    Holder<T> member{value};
    T alone{};
    Holder<T> filled;
    Holder<T> copied;

    save_as("item", value);
    EXPECT_TRUE(is_same(load<T>(), value)) << "taken";
    static_cast<void>(load<Tree>({"item", into(alone)}));
    EXPECT_TRUE(is_same(alone, value)) << "loaded into";
    save_as("item", Tree{{"leaf", value}, {"member", to_tree(std::as_const(member))}});
    const Tree loaded = load<Tree>();
    EXPECT_TRUE(is_same(loaded.get<T>("leaf"), value)) << "got";
    from_tree(loaded["member"], copied);
    EXPECT_TRUE(is_same(copied.value, value)) << "read";
    save_as("item", to_tree(Holder<T>(member)));
    static_cast<void>(load<Tree>({"item", into(filled)}));
    EXPECT_TRUE(is_same(filled.value, value)) << "filled";
  }

  /// A member that no function can return.
  template <class T>
  void expect_member_back(const Holder<T>& saved) {
    save_as("item", to_tree(saved));
    Holder<T> filled;
    Holder<T> copied;
    static_cast<void>(load<Tree>({"item", into(filled)}));
    from_tree(load<Tree>(), copied);
    EXPECT_TRUE(is_same(filled.value, saved.value));
    EXPECT_TRUE(is_same(copied.value, saved.value));
  }

  template <class T>
  void save_as(const std::string& name, const T& value) {
    SaveOptions options;
    options.overwrite = true;
    core::start_save(path(), Checkpointables{{name, value}}, handlers_, options, context_).wait();
  }
};

TEST_F(Types, LeavesComeBack) {
  expect_back(nullptr);
  expect_back(true);
  expect_back(std::int8_t{-7});
  expect_back(~std::uint64_t{0});
  expect_back(0.1F);
  expect_back(-0.5);
  expect_back(Colour::green);
  expect_back(std::byte{7});
  expect_back(std::complex<float>(1.5F, -0.1F));
  expect_back(std::complex<double>(0.1, -2));
  expect_back(std::string("text"));
  expect_back(std::pmr::string("text"));
  expect_back(Bytes(3, std::byte{9}));
}

TEST_F(Types, MemoryOfElementsComesBack) {
  expect_back(std::vector<float>{1, 2, 3});
  expect_back(Aligned<double>{1, 2, 3});
  expect_back(Aligned<std::byte>(2, std::byte{9}));
  expect_back(std::pmr::vector<std::int32_t>{1, 2});
  expect_back(std::array<double, 2>{1, 2});
  expect_back(std::array<bool, 2>{true, false});
  expect_back(std::valarray<float>{1, 2, 3});
  expect_back(std::vector<std::complex<double>>{{1, 2}, {3, -4}});
}

TEST_F(Types, ContainersComeBack) {
  expect_back(std::vector<Aligned<float>>{{1, 2}, {}});
  expect_back(std::vector<bool>{true, false});
  expect_back(std::pmr::vector<bool>{true, false});
  expect_back(std::optional<Aligned<float>>{{1, 2}});
  expect_back(std::map<std::string, std::pmr::vector<float>>{{"a", {1, 2}}});
  expect_back(std::unordered_map<int, std::optional<double>>{{1, 2.5}, {2, {}}});
  expect_back(std::tuple<int, std::pmr::string, Aligned<float>>{1, "two", {3}});
  expect_back(std::array<std::string, 2>{"a", "b"});
  expect_back(std::map<std::string, std::complex<float>>{{"a", {1, 2}}, {"b", {}}});
  expect_back(std::optional(std::complex<double>(1, 2)));
}

TEST_F(Types, SequencesComeBack) {
  expect_back(std::deque<float>{1, 2, 3});
  expect_back(std::deque<bool>{true, false});
  expect_back(std::list<std::string>{"a", "b"});
  expect_back(std::forward_list<std::vector<int>>{{1}, {2, 3}});
}

TEST_F(Types, SetsComeBack) {
  expect_back(std::set<std::string>{"b", "a"});
  expect_back(std::multiset<int>{2, 1, 2});
  expect_back(std::set<std::vector<float>>{{1, 2}, {3}});
  expect_back(std::unordered_set<std::int64_t>{3, -1, 2});
  expect_back(std::unordered_multiset<std::string>{"b", "a", "b"});
}

TEST_F(Types, TimesComeBack) {
  using namespace std::chrono_literals;
  expect_back(std::chrono::nanoseconds(-5ns));
  expect_back(std::chrono::duration<float, std::ratio<1, 3>>(0.1F));
  expect_back(std::chrono::system_clock::time_point(5s));
  expect_back(std::map<std::string, std::chrono::minutes>{{"a", 5min}});
}

/// One that has made numbers, so that its state is not the first.
template <class Engine>
Engine used() {
  Engine engine;
  engine.discard(1001);
  return engine;
}

TEST_F(Types, RandomEnginesComeBack) {
  expect_back(used<std::minstd_rand0>());
  expect_back(used<std::minstd_rand>());
  expect_back(used<std::mt19937>());
  expect_back(used<std::mt19937_64>());
  expect_back(used<std::ranlux24_base>());
  expect_back(used<std::ranlux48_base>());
  expect_back(used<std::ranlux24>());
  expect_back(used<std::ranlux48>());
  expect_back(used<std::knuth_b>());
  expect_back(used<std::independent_bits_engine<std::mt19937, 16, std::uint32_t>>());
  expect_back(std::vector<std::mt19937>(2, used<std::mt19937>()));
}

TEST(RandomEngines, AreNotReadFromAnotherText) {
  const auto expect_refused = [](auto engine, const std::string& text) {
    SCOPED_TRACE(text.substr(0, 40));
    EXPECT_THAT([&] { static_cast<void>(Tree(text).as<decltype(engine)>("rng")); },
                Fails(Errc::type_mismatch, HasSubstr("'rng' is not the state of a random engine")));
  };
  const auto with_last = [](const auto& engine, const std::string& number) {
    const auto state = Tree(engine).template as<std::string>();
    return state.substr(0, state.rfind(' ') + 1) + number;
  };

  expect_refused(std::mt19937(), "");
  expect_refused(std::mt19937(), "some text");
  expect_refused(std::mt19937(), Tree(std::mt19937_64()).as<std::string>());
  expect_refused(std::mt19937(), Tree(std::mt19937()).as<std::string>() + " 1");
  expect_refused(std::minstd_rand(), "0");
  expect_refused(std::mt19937(), with_last(std::mt19937(), "625"));
  expect_refused(std::ranlux24_base(), with_last(std::ranlux24_base(), "24"));
  expect_refused(std::ranlux24(), with_last(std::ranlux24(), "224"));
  expect_refused(std::knuth_b(), with_last(std::knuth_b(), "2147483647"));
  EXPECT_THAT([] { static_cast<void>(Tree(7).as<std::mt19937>("rng")); },
              Fails(Errc::type_mismatch, HasSubstr("'rng'")));
}

TEST_F(Types, ArraysOfCComeBack) {
  expect_member_back(Holder<float[3]>{{1, 2, 3}});
  expect_member_back(Holder<std::string[2]>{{"a", "b"}});
  Holder<char[8]> name{"weights"};
  expect_member_back(name);
  name.value[7] = '!';  // Without the NUL behind it.
  expect_member_back(name);
  save_as("item", to_tree(Holder<double[2][2]>{{{1, 2}, {3, 4}}}));
  Holder<double[2][2]> matrix;
  static_cast<void>(load<Tree>({"item", into(matrix)}));
  EXPECT_EQ(matrix.value[1][0], 3);
}

TEST_F(Types, AComplexNumberIsAnArrayOfRankZeroAndCast) {
  using Single = std::complex<float>;
  using Double = std::complex<double>;
  const Tree tree = {{"single", Single(0.5F, -1)}, {"double", Double(0.1, 2)}, {"real", 3}, {"text", "3"}};

  EXPECT_EQ(tree.at("single").as<Array>().dtype(), DType::complex64);
  EXPECT_EQ(tree.at("single").as<Array>().shape(), Shape{});
  EXPECT_EQ(tree.get<Double>("single"), Double(0.5, -1));
  EXPECT_EQ(tree.get<Double>("real"), Double(3));
  EXPECT_THAT([&] { static_cast<void>(tree.get<Single>("double")); },
              Fails(Errc::unsafe_cast, HasSubstr("'double'")));
  EXPECT_EQ(tree.get<Single>("double", Narrowing::allowed), Single(0.1F, 2));
  EXPECT_THAT([&] { static_cast<void>(tree.get<Single>("text")); },
              Fails(Errc::type_mismatch, HasSubstr("'text' is of kind string, not a complex number")));
}

TEST_F(Types, ADescribedRangeIsWhatItsDescriptionSays) {
  Samples samples;
  samples.push_back(1);
  samples.rate = 7;
  Samples again;

  from_tree(to_tree(samples), again);

  EXPECT_EQ(again.rate, 7);
}

TEST_F(Types, ViewsThatAreNotConstAreDestinations) {
  std::vector<float> weights = {1, 2};
  std::vector<float> matrix = {1, 2, 3, 4};
  const auto views_of = [](std::vector<float>& one, std::vector<float>& other) {
    return std::pair(std::span<float, 2>(one), MutableArrayView(other.data(), {2, 2}, DType::float32));
  };
  save_as("item", Tree(views_of(weights, matrix)));
  std::vector<float> filled(2);
  std::vector<float> filled_matrix(4);
  std::vector<float> copied(2);
  std::vector<float> copied_matrix(4);
  auto filled_views = views_of(filled, filled_matrix);
  auto copied_views = views_of(copied, copied_matrix);

  static_cast<void>(load<Tree>({"item", into(filled_views)}));
  from_tree(load<Tree>(), copied_views);

  EXPECT_EQ(filled, weights);
  EXPECT_EQ(filled_matrix, matrix);
  EXPECT_EQ(copied, weights);
  EXPECT_EQ(copied_matrix, matrix);
}

TEST_F(Types, ViewsAreSavedAsWhatTheyShow) {
  const std::vector<float> weights = {1, 2};
  const std::vector<std::string_view> names = {"a", "b"};
  save_as("item",
          Tree{{"w", std::span<const float>(weights)}, {"view", ArrayView(weights)}, {"names", names}});

  const Tree loaded = load<Tree>();

  EXPECT_EQ(loaded.get<Aligned<float>>("w"), Aligned<float>({1, 2}));
  EXPECT_EQ(loaded.get<std::vector<float>>("view"), weights);
  EXPECT_EQ(loaded.get<std::deque<std::string>>("names"), (std::deque<std::string>{"a", "b"}));
}

TEST_F(Types, UnorderedSetsAreSorted) {
  const std::unordered_set<double> numbers = {2.5, -1, 30};
  const Tree tree = numbers;

  EXPECT_EQ(tree, Tree::list({-1.0, 2.5, 30.0}));
  const std::unordered_set<std::string> words = {"b", "c", "a"};
  EXPECT_EQ(Tree(words), Tree::list({"a", "b", "c"}));
}

TEST_F(Types, ASetRefusesAListThatHasAnElementTwice) {
  const Tree tree = {{"ids", Tree::list({1, 2, 1})}};

  EXPECT_THAT([&] { static_cast<void>(tree.get<std::set<int>>("ids")); },
              Fails(Errc::structure_mismatch, HasSubstr("'ids/2'")));
}

TEST_F(Types, AMemberThatIsTooShortRefusesAText) {
  Holder<char[4]> name;

  EXPECT_THAT(
      [&] {
        from_tree(Tree{{"value", "weights"}}, name);
      },
      Fails(Errc::shape_mismatch, HasSubstr("'value': stored 7 characters, wanted at most 4")));
}

/// `stored` loaded as `Duration`.
template <class Duration, class Stored>
Duration convert(Stored stored, Narrowing narrowing = Narrowing::refused) {
  const Tree tree = {{"t", stored}};
  return tree.get<Duration>("t", narrowing);
}

TEST(Durations, LoadIntoAnotherPeriodExactly) {
  using namespace std::chrono_literals;
  EXPECT_EQ(convert<std::chrono::milliseconds>(3s), 3000ms);
  EXPECT_EQ(convert<std::chrono::seconds>(3000ms), 3s);
  EXPECT_EQ(convert<std::chrono::duration<double>>(500ms).count(), 0.5);
  EXPECT_EQ((convert<std::chrono::duration<double, std::milli>>(std::chrono::duration<double>(0.25)).count()),
            250.0);
}

TEST(Durations, RefuseAPeriodThatWouldRound) {
  using namespace std::chrono_literals;
  EXPECT_THAT([] { static_cast<void>(convert<std::chrono::seconds>(3500ms)); },
              Fails(Errc::unsafe_cast, HasSubstr("'t': 3500 ticks of 1/1000 s")));
  EXPECT_THAT([] { static_cast<void>(convert<std::chrono::duration<double>>(1ms)); },
              Fails(Errc::unsafe_cast));
  EXPECT_THAT([] { static_cast<void>(convert<std::chrono::nanoseconds>(std::chrono::hours::max())); },
              Fails(Errc::unsafe_cast));
  EXPECT_EQ(convert<std::chrono::seconds>(3500ms, Narrowing::allowed), 3s);
  EXPECT_EQ(convert<std::chrono::duration<double>>(1ms, Narrowing::allowed).count(), 0.001);
  EXPECT_EQ(convert<std::chrono::nanoseconds>(std::chrono::hours::max(), Narrowing::allowed),
            std::chrono::nanoseconds::max());
}

TEST(Durations, DoNotDependOnTheProgramsArithmetic) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const std::chrono::duration<double> stored(0.1);
  const double expected = convert<Milliseconds>(stored, Narrowing::allowed).count();
  const Milliseconds smallest(5e-324);
  for (const int rounding : testing::OtherArithmetic::kRoundings) {
    const testing::OtherArithmetic arithmetic(rounding);
    EXPECT_EQ(convert<Milliseconds>(stored, Narrowing::allowed).count(), expected);
    EXPECT_THAT([&] { static_cast<void>(convert<std::chrono::duration<double>>(smallest)); },
                Fails(Errc::unsafe_cast));
  }
}

TEST(Durations, RefuseWhatIsNoDuration) {
  const Tree tree = {{"t", Tree::list({5, 0, 1})}};

  EXPECT_THAT([&] { static_cast<void>(tree.get<std::chrono::seconds>("t")); },
              Fails(Errc::type_mismatch, HasSubstr("'t' is not a duration")));
}

}  // namespace
}  // namespace cairn
