// SPDX-License-Identifier: Apache-2.0
#include "cairn/megatron/strategies.hpp"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cairn/base/error.hpp"

namespace cairn::megatron {
namespace {

constexpr std::string_view kOwnBackend = "cairn";
constexpr std::string_view kTorchBackend = "torch_dist";

template <class Strategy>
const std::shared_ptr<const Strategy>& strategy_for(
    const std::map<Backend, std::shared_ptr<const Strategy>>& strategies, const Backend& backend,
    std::string_view does) {
  if (const auto found = strategies.find(backend); found != strategies.end()) {
    return found->second;
  }
  std::string names;
  for (const auto& [one, strategy] : strategies) {
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", one.name, one.version);
  }
  throw Error(Errc::invalid_argument,
              fmt::format("no strategy {} backend '{}' {}; there are: {}", does, backend.name,
                          backend.version, names.empty() ? "none" : names));
}

void check_given(const void* strategy) {
  if (!strategy) {
    throw Error(Errc::invalid_argument, "a null strategy cannot be added");
  }
}

}  // namespace

OptionWords StateDictSaveRules::same_on_all_ranks() const {
  OptionWords words;
  if (requires_same_common) {
    words.emplace_back("StateDictSaveRules::requires_same_common", "true");
  }
  if (before_comparison) {
    words.emplace_back("StateDictSaveRules::before_comparison", "given");
  }
  if (replicas != ReplicaChoice::balanced_and_split) {
    words.emplace_back("StateDictSaveRules::replicas", replicas == ReplicaChoice::main ? "main" : "balanced");
  }
  if (!group.empty()) {
    words.emplace_back("StateDictSaveRules::group", "given");
  }
  if (for_torch) {
    words.emplace_back("StateDictSaveRules::for_torch", "true");
  }
  return words;
}

Backend PlainSave::backend() const {
  return {std::string(kOwnBackend), 1};
}

void PlainSave::prepare(StateDictSaveRules& rules, cairn::SaveOptions& /*options*/) const {
  rules.replicas = ReplicaChoice::main;
}

std::vector<Backend> PlainLoad::backends() const {
  return {{std::string(kOwnBackend), 1}, {std::string(kTorchBackend), 1}};
}

void PlainLoad::prepare(AbstractStateDict& /*wanted*/, cairn::LoadOptions& /*options*/) const {}

FullyParallelSave::FullyParallelSave(std::shared_ptr<const SaveStrategy> inner,
                                     std::vector<std::uint32_t> group)
    : inner_(inner ? std::move(inner) : std::make_shared<PlainSave>()), group_(std::move(group)) {}

Backend FullyParallelSave::backend() const {
  return inner_->backend();
}

void FullyParallelSave::prepare(StateDictSaveRules& rules, cairn::SaveOptions& options) const {
  inner_->prepare(rules, options);
  rules.replicas = ReplicaChoice::balanced;
  rules.group = group_;
}

FullyParallelLoad::FullyParallelLoad(std::shared_ptr<const LoadStrategy> inner,
                                     std::vector<std::uint32_t> group)
    : inner_(inner ? std::move(inner) : std::make_shared<PlainLoad>()), group_(std::move(group)) {}

std::vector<Backend> FullyParallelLoad::backends() const {
  return inner_->backends();
}

void FullyParallelLoad::prepare(AbstractStateDict& wanted, cairn::LoadOptions& options) const {
  inner_->prepare(wanted, options);
  options.together = true;
  options.group = group_;
}

Strategies Strategies::built_in() {
  Strategies strategies;
  strategies.add(std::make_shared<PlainSave>());
  strategies.add(std::make_shared<PlainLoad>());
  return strategies;
}

Strategies& Strategies::add(std::shared_ptr<const SaveStrategy> strategy) {
  check_given(strategy.get());
  const Backend backend = strategy->backend();
  saves_.insert_or_assign(backend, std::move(strategy));
  return *this;
}

Strategies& Strategies::add(std::shared_ptr<const LoadStrategy> strategy) {
  check_given(strategy.get());
  for (const Backend& backend : strategy->backends()) {
    loads_.insert_or_assign(backend, strategy);
  }
  return *this;
}

std::shared_ptr<const SaveStrategy> Strategies::save(const Backend& backend) const {
  return strategy_for(saves_, backend, "saves");
}

std::shared_ptr<const LoadStrategy> Strategies::load(const Backend& backend) const {
  return strategy_for(loads_, backend, "loads");
}

}  // namespace cairn::megatron
