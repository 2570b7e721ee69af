// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/core/load.hpp"
#include "cairn/core/save.hpp"
#include "cairn/megatron/abstract_state_dict.hpp"
#include "cairn/megatron/save_rules.hpp"

namespace cairn::megatron {

/// The form of a checkpoint: "cairn" 1, "torch_dist" 1.
struct Backend {
  std::string name;
  std::uint32_t version = 1;

  auto operator<=>(const Backend&) const = default;
};

/// How state dicts are saved in a form: it changes how, never what is stored.
class SaveStrategy {
 public:
  virtual ~SaveStrategy() = default;

  [[nodiscard]] virtual Backend backend() const = 0;

  /// Called before each save, on the thread that calls it, with the caller's options.
  virtual void prepare(StateDictSaveRules& rules, cairn::SaveOptions& options) const = 0;
};

/// How state dicts are loaded from some forms. For a form of one's own: a FileLayout in the options, which reads it,
/// and a strategy that names it.
class LoadStrategy {
 public:
  virtual ~LoadStrategy() = default;

  [[nodiscard]] virtual std::vector<Backend> backends() const = 0;

  /// Called before each load, on the thread that calls it, with the caller's options.
  virtual void prepare(AbstractStateDict& wanted, cairn::LoadOptions& options) const = 0;
};

/// Each main replica is written by the rank that holds it.
class PlainSave final : public SaveStrategy {
 public:
  [[nodiscard]] Backend backend() const override;
  void prepare(StateDictSaveRules& rules, cairn::SaveOptions& options) const override;
};

/// Loads what `cairn` 1 and `torch_dist` 1 are, as the options say.
class PlainLoad final : public LoadStrategy {
 public:
  [[nodiscard]] std::vector<Backend> backends() const override;
  void prepare(AbstractStateDict& wanted, cairn::LoadOptions& options) const override;
};

/// Copies are written by the least loaded rank that has them, as Megatron chooses.
class FullyParallelSave final : public SaveStrategy {
 public:
  /// `inner`: null for a PlainSave. `group`: the ranks to choose among, this one included; empty for all.
  explicit FullyParallelSave(std::shared_ptr<const SaveStrategy> inner = nullptr,
                             std::vector<std::uint32_t> group = {});

  [[nodiscard]] Backend backend() const override;
  void prepare(StateDictSaveRules& rules, cairn::SaveOptions& options) const override;

 private:
  std::shared_ptr<const SaveStrategy> inner_;
  std::vector<std::uint32_t> group_;
};

/// All ranks load together: each byte is read by one rank of the group, which passes it on.
class FullyParallelLoad final : public LoadStrategy {
 public:
  /// `inner`: null for a PlainLoad. `group` as above.
  explicit FullyParallelLoad(std::shared_ptr<const LoadStrategy> inner = nullptr,
                             std::vector<std::uint32_t> group = {});

  [[nodiscard]] std::vector<Backend> backends() const override;
  void prepare(AbstractStateDict& wanted, cairn::LoadOptions& options) const override;

 private:
  std::shared_ptr<const LoadStrategy> inner_;
  std::vector<std::uint32_t> group_;
};

/// Strategies by the forms that they are for: a value in options, not a registry of the program's.
///
/// Threads: a value; copies share the strategies.
class Strategies {
 public:
  /// PlainSave and PlainLoad.
  [[nodiscard]] static Strategies built_in();

  /// Takes the place of one that is for the same form.
  Strategies& add(std::shared_ptr<const SaveStrategy> strategy);
  Strategies& add(std::shared_ptr<const LoadStrategy> strategy);

  /// Errors (both): Errc::invalid_argument when there is none, with a list of the forms for which there are.
  [[nodiscard]] std::shared_ptr<const SaveStrategy> save(const Backend& backend) const;
  [[nodiscard]] std::shared_ptr<const LoadStrategy> load(const Backend& backend) const;

 private:
  std::map<Backend, std::shared_ptr<const SaveStrategy>> saves_;
  std::map<Backend, std::shared_ptr<const LoadStrategy>> loads_;
};

}  // namespace cairn::megatron
