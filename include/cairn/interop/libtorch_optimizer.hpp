// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an optimizer of libtorch has learnt, as arrays of Cairn, and back. Empty where libtorch is not installed.

#if __has_include(<torch/torch.h>)

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#include <torch/torch.h>

#include "cairn/array/array.hpp"
#include "cairn/base/error.hpp"
#include "cairn/interop/libtorch.hpp"

namespace cairn::interop {

namespace detail {

// Calls `visit(name, value)` for each member of the state that an optimizer keeps of one parameter: tensors, and the
// number of its steps.

template <class Visit>
void visit_members(torch::optim::SGDParamState& state, const Visit& visit) {
  visit("momentum_buffer", state.momentum_buffer());
}

template <class State, class Visit>
void visit_adam(State& state, const Visit& visit) {
  visit("step", state.step());
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <class Visit>
void visit_members(torch::optim::AdamParamState& state, const Visit& visit) {
  visit_adam(state, visit);
}

template <class Visit>
void visit_members(torch::optim::AdamWParamState& state, const Visit& visit) {
  visit_adam(state, visit);
}

template <class Visit>
void visit_members(torch::optim::RMSpropParamState& state, const Visit& visit) {
  visit("step", state.step());
  visit("square_avg", state.square_avg());
  visit("momentum_buffer", state.momentum_buffer());
  visit("grad_avg", state.grad_avg());
}

template <class Visit>
void visit_members(torch::optim::AdagradParamState& state, const Visit& visit) {
  visit("step", state.step());
  visit("sum", state.sum());
}

/// Calls `act` with a value of the type in which this optimizer keeps what it has learnt of a parameter.
template <class Act>
void with_state_type(const torch::optim::Optimizer& optimizer, const Act& act) {
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer) != nullptr) {
    act(torch::optim::SGDParamState());
  } else if (dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr) {
    act(torch::optim::AdamParamState());
  } else if (dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr) {
    act(torch::optim::AdamWParamState());
  } else if (dynamic_cast<const torch::optim::RMSprop*>(&optimizer) != nullptr) {
    act(torch::optim::RMSpropParamState());
  } else if (dynamic_cast<const torch::optim::Adagrad*>(&optimizer) != nullptr) {
    act(torch::optim::AdagradParamState());
  } else {
    throw Error(Errc::type_mismatch, std::string("the state of an optimizer of type ") +
                                         typeid(optimizer).name() +
                                         " is not known; SGD, Adam, AdamW, RMSprop and Adagrad are");
  }
}

template <class Number>
[[nodiscard]] Array scalar_array(Number number) {
  Array array({}, cairn::dtype_of<Number>());
  array.data<Number>()[0] = number;
  return array;
}

/// Calls `act(name, parameter)` for each parameter of all groups: "state.<number>".
template <class Act>
void for_each_parameter(torch::optim::Optimizer& optimizer, const Act& act) {
  std::size_t number = 0;
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      act("state." + std::to_string(number++), parameter);
    }
  }
}

[[nodiscard]] inline std::string rate_name(std::size_t group) {
  return "groups." + std::to_string(group) + ".lr";
}

}  // namespace detail

/// Returns what an optimizer (SGD, Adam, AdamW, RMSprop or Adagrad) has learnt of its parameters, by their
/// numbers, such as "state.0.exp_avg", and the learning rates of its groups, "groups.0.lr". Tensors share the
/// optimizer's memory; numbers are copies. What it has not begun to learn is left out.
///
/// Errors: Errc::type_mismatch for another optimizer; as mutable_view_of.
[[nodiscard]] inline NamedArrays arrays_of(torch::optim::Optimizer& optimizer) {
  NamedArrays arrays;
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const double rate = optimizer.param_groups()[group].options().get_lr();
    arrays.emplace(detail::rate_name(group), detail::scalar_array(rate));
  }
  detail::with_state_type(optimizer, [&](const auto& kind) {
    using State = std::decay_t<decltype(kind)>;
    detail::for_each_parameter(optimizer, [&](const std::string& name, const at::Tensor& parameter) {
      const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) {
        return;
      }
      detail::visit_members(static_cast<State&>(*found->second), [&](const char* member, auto& value) {
        const std::string key = name + "." + member;
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, at::Tensor>) {
          if (value.defined()) {
            arrays.emplace(key, array_of(value.detach()));
          }
        } else {
          arrays.emplace(key, detail::scalar_array<std::int64_t>(value));
        }
      });
    });
  });
  return arrays;
}

/// Makes an optimizer go on from what another one of the same kind, with as many parameters in the same order, had
/// learnt. The arrays are copied, to the devices of the parameters.
///
/// Errors:  Errc::type_mismatch for another optimizer; Errc::structure_mismatch, naming it, for an array that belongs
///          to none of its parameters: then nothing is changed. Errc::shape_mismatch and Errc::dtype_mismatch.
/// Example: cairn::interop::go_on_from(optimizer, loaded["optimizer"].as<cairn::interop::NamedArrays>());
inline void go_on_from(torch::optim::Optimizer& optimizer, const NamedArrays& arrays) {
  NamedArrays left = arrays;
  ska::flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>> states;
  std::vector<double> rates;
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    rates.push_back(optimizer.param_groups()[group].options().get_lr());
    if (const auto rate = left.extract(detail::rate_name(group))) {
      rates.back() = rate.mapped().template data<const double>()[0];
    }
  }
  detail::with_state_type(optimizer, [&](const auto& kind) {
    using State = std::decay_t<decltype(kind)>;
    detail::for_each_parameter(optimizer, [&](const std::string& name, const at::Tensor& parameter) {
      auto state = std::make_unique<State>();
      bool is_known = false;
      detail::visit_members(*state, [&](const char* member, auto& value) {
        const auto array = left.extract(name + "." + member);
        if (!array) {
          return;
        }
        is_known = true;
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, at::Tensor>) {
          value = copy_as_tensor(array.mapped().view()).to(parameter.device());
        } else {
          value = array.mapped().template data<const std::int64_t>()[0];
        }
      });
      if (is_known) {
        states[parameter.unsafeGetTensorImpl()] = std::move(state);
      }
    });
  });
  if (!left.empty()) {
    throw Error(Errc::structure_mismatch,
                "'" + left.begin()->first + "' belongs to no parameter of this optimizer");
  }
  optimizer.state() = std::move(states);
  for (std::size_t group = 0; group < rates.size(); ++group) {
    optimizer.param_groups()[group].options().set_lr(rates[group]);
  }
}

}  // namespace cairn::interop

#endif
