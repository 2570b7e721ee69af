// SPDX-License-Identifier: Apache-2.0
// g++ 12 destroys temporaries of aggregate and lambda type inside a co_await expression twice. The tests fix which
// forms are safe, so that the code base may use them; the last two report what this compiler does with the others.
#include <array>
#include <iostream>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "toolchain/task.hpp"

namespace cairn::toolchain {
namespace {

struct Ledger {
  int born = 0;
  int died = 0;
};

/// Writes each construction and destruction down. Being destroyed twice harms nothing but the books.
class Token {
 public:
  explicit Token(Ledger& ledger) : ledger_(&ledger) { ++ledger_->born; }

  Token(const Token& other) : ledger_(other.ledger_) { ++ledger_->born; }

  Token& operator=(const Token&) = delete;

  ~Token() { ++ledger_->died; }

 private:
  Ledger* ledger_;
};

struct Aggregate {
  Token token;
};

struct WithConstructor {
  explicit WithConstructor(Ledger& ledger) : token(ledger) {}

  Token token;
};

struct WithDefaultConstructor {
  WithDefaultConstructor() = default;

  std::array<std::optional<Token>, 1> tokens;

  WithDefaultConstructor& with(Ledger& ledger) {
    tokens[0].emplace(ledger);
    return *this;
  }
};

Task<int> take_reference(const Aggregate&) {
  co_return 1;
}

Task<int> take_value(Aggregate) {
  co_return 1;
}

Task<int> take_constructed(WithConstructor) {
  co_return 1;
}

Task<int> take_fluent(const WithDefaultConstructor&) {
  co_return 1;
}

template <class F>
Task<int> call(F function) {
  co_return function();
}

Aggregate make_aggregate(Ledger& ledger) {
  return Aggregate{Token(ledger)};
}

template <class Body>
void expect_each_token_destroyed_once(Body body) {
  Ledger ledger;
  body(ledger).run();
  EXPECT_GT(ledger.born, 0);
  EXPECT_EQ(ledger.died, ledger.born);
}

template <class Body>
void expect_no_leak_and_report(const char* form, Body body) {
  Ledger ledger;
  body(ledger).run();
  std::cout << form << ": " << ledger.born << " constructed, " << ledger.died
            << " destroyed: " << (ledger.died == ledger.born ? "sound" : "BROKEN by this compiler") << '\n';
  EXPECT_GE(ledger.died, ledger.born) << "a leak would be another defect";
}

Task<int> await_named_value(Ledger& ledger) {
  Aggregate value{Token(ledger)};
  co_return co_await take_value(std::move(value));
}

Task<int> await_named_reference(Ledger& ledger) {
  const Aggregate value{Token(ledger)};
  co_return co_await take_reference(value);
}

Task<int> await_constructed_temporary(Ledger& ledger) {
  co_return co_await take_constructed(WithConstructor(ledger));
}

Task<int> await_fluent_temporary(Ledger& ledger) {
  co_return co_await take_fluent(WithDefaultConstructor().with(ledger));
}

Task<int> await_result_of_call(Ledger& ledger) {
  co_return co_await take_value(make_aggregate(ledger));
}

Task<int> await_in_second_statement(Ledger& ledger) {
  auto task = take_value(Aggregate{Token(ledger)});
  co_return co_await std::move(task);
}

Task<int> await_named_lambda(Ledger& ledger) {
  auto function = [token = Token(ledger)] { return 1; };
  co_return co_await call(std::move(function));
}

Task<int> await_reference_capturing_lambda(Ledger& ledger) {
  const Token token(ledger);
  co_return co_await call([&ledger] { return ledger.born; });
}

Task<Aggregate> return_aggregate(Ledger& ledger) {
  co_return Aggregate{Token(ledger)};
}

Task<int> await_aggregate_result(Ledger& ledger) {
  const Aggregate result = co_await return_aggregate(ledger);
  static_cast<void>(result);
  co_return 1;
}

Task<int> await_structured_binding(Ledger& ledger) {
  const auto [token] = co_await return_aggregate(ledger);
  static_cast<void>(token);
  co_return 1;
}

Task<int> await_braced_temporary(Ledger& ledger) {
  co_return co_await take_reference(Aggregate{Token(ledger)});
}

Task<int> await_beside_braced_temporary(Ledger& ledger) {
  const auto sum = [](int value, const Aggregate&) { return value; };
  const Aggregate value{Token(ledger)};
  co_return sum(co_await take_reference(value), Aggregate{Token(ledger)});
}

Task<int> await_owning_lambda(Ledger& ledger) {
  co_return co_await call([token = Token(ledger)] { return 1; });
}

TEST(CoroutineTemporaries, NamedObjectsAreSafe) {
  expect_each_token_destroyed_once(await_named_value);
  expect_each_token_destroyed_once(await_named_reference);
}

TEST(CoroutineTemporaries, TypesWithADeclaredConstructorAreSafe) {
  expect_each_token_destroyed_once(await_constructed_temporary);
  expect_each_token_destroyed_once(await_fluent_temporary);
}

TEST(CoroutineTemporaries, ResultsOfCallsAreSafe) {
  expect_each_token_destroyed_once(await_result_of_call);
}

TEST(CoroutineTemporaries, TwoStatementsAreSafe) {
  expect_each_token_destroyed_once(await_in_second_statement);
}

TEST(CoroutineTemporaries, NamedLambdasAreSafe) {
  expect_each_token_destroyed_once(await_named_lambda);
}

TEST(CoroutineTemporaries, ReferenceCapturingLambdasAreSafe) {
  expect_each_token_destroyed_once(await_reference_capturing_lambda);
}

TEST(CoroutineTemporaries, ReturnedAggregatesAreSafe) {
  expect_each_token_destroyed_once(await_aggregate_result);
  expect_each_token_destroyed_once(await_structured_binding);
}

TEST(CoroutineTemporaries, ReportsWhatHappensToBracedAggregates) {
  expect_no_leak_and_report("f(Aggregate{...}) awaited", await_braced_temporary);
  expect_no_leak_and_report("f(co_await g(), Aggregate{...})", await_beside_braced_temporary);
}

TEST(CoroutineTemporaries, ReportsWhatHappensToOwningLambdas) {
  expect_no_leak_and_report("f([token] { ... }) awaited", await_owning_lambda);
}

}  // namespace
}  // namespace cairn::toolchain
