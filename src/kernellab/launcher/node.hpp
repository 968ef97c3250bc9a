// The functions of kernellab.functional as repetitions know them, and their node in autograd's graph.

#pragma once

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "table.hpp"

#include <atomic>
#include <type_traits>

namespace kernellab {

namespace py = pybind11;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using NodePointer = decltype(torch::autograd::Edge::function);  // its type depends on torch's version

// A function: its arguments, and the contract of its op (ops/gradients.py). It lives as long as the process.
struct Function {
  int64_t number = 0;
  std::string name, backward_name, node_name;
  std::vector<bool> is_tensor;      // of each argument
  std::vector<size_t> inputs;       // for each input of the op, its place among the arguments
  size_t results = 1;               // of the op's outputs, those that are returned
  std::vector<size_t> saved;        // places among inputs and outputs
  std::vector<std::vector<size_t>> differentiated;
  bool takes_missing_gradients = false;
  std::atomic<bool> by_stream{false};  // calls on other streams have other keys
  PyObject* record = nullptr;          // called for a call that is to be recorded
  PyObject* run_backward = nullptr;    // called for a backward pass that is not repeated
};

inline std::atomic<int64_t> repeated_forward{0}, repeated_backward{0};

// The range of an op in a profile, as the dispatcher would record it.
class ProfiledRange {
 public:
  ProfiledRange(const std::string& name, const Tensors& inputs, bool differentiated) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
    if (!callbacks) return;
    range_.emplace(std::move(*callbacks));
    const int64_t sequence = differentiated ? static_cast<int64_t>(at::sequence_number::peek()) : -1;
    if (range_->needsInputs()) {
      values_.assign(inputs.begin(), inputs.end());
    }
    range_->before(std::string_view(name), c10::ArrayRef<const c10::IValue>(values_.data(), values_.size()), sequence);
  }

 private:
  std::vector<c10::IValue> values_;  // outlives the range
  std::optional<at::RecordFunction> range_;
};

std::shared_ptr<const Plan> read_plan(py::handle description, const Tensors& inputs, c10::Device device);

struct BackwardNode : public Node {
  const Function* function = nullptr;
  std::shared_ptr<const Plan> forward;
  std::vector<SavedVariable> saved;

  std::string name() const override {
    return function->node_name;
  }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto& variable : saved) variable.reset_data();
  }

  variable_list apply(variable_list&& gradients) override {
    const auto& groups = function->differentiated;
    variable_list spread(function->inputs.size());
    if (std::none_of(gradients.begin(), gradients.end(), [](const auto& g) { return g.defined(); })) return spread;
    Tensors taken(gradients.begin(), gradients.end());
    if (!function->takes_missing_gradients) {
      for (size_t i = 0; i < taken.size(); i++) {
        if (!taken[i].defined()) taken[i] = input_metadata(i).zeros_like();
      }
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (auto& variable : saved) taken.push_back(variable.unpack(getptr()));
    }
    int64_t wanted = 0;
    for (size_t i = 0; i < groups.size(); i++) {
      for (size_t place : groups[i]) {
        if (task_should_compute_output(place)) wanted |= int64_t{1} << i;
      }
    }
    const auto computed = differentiate(taken, wanted);
    size_t next = 0;
    for (size_t i = 0; i < groups.size(); i++) {
      if (!(wanted >> i & 1)) continue;
      for (size_t place : groups[i]) spread[place] = computed[next];
      next++;
    }
    return spread;
  }

 private:
  Tensors differentiate(const Tensors& taken, int64_t wanted) {
    Words words;
    std::optional<c10::Device> device;
    words.push_back(~function->number);
    words.push_back(wanted);
    words.append(forward->options.begin(), forward->options.end());
    bool repeatable = !at::GradMode::is_enabled() && encode_modes(words);
    for (size_t i = 0; repeatable && i < taken.size(); i++) repeatable = encode_tensor(words, taken[i], false, device);
    if (!repeatable || !device) return differentiate_in_python(taken, wanted, nullptr, c10::Device(c10::kCPU), {});
    const auto advice = table.look_up(words);
    if (!advice.plan) return differentiate_in_python(taken, wanted, advice.record ? &words : nullptr, *device, advice);
    const ProfiledRange range(function->backward_name, taken, false);
    auto computed = run(*advice.plan, taken);
    repeated_backward.fetch_add(1, std::memory_order_relaxed);
    return computed;
  }

  // By the operator of torch.library. With words, it is recorded under this key.
  Tensors differentiate_in_python(
      const Tensors& taken, int64_t wanted, const Words* words, c10::Device device, const Table::Advice& advice) {
    py::gil_scoped_acquire gil;
    try {
      py::list tensors, options, wants;
      for (const auto& tensor : taken) {
        tensors.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
      }
      for (size_t place = 0; place < forward->options.size();) {
        options.append(py::reinterpret_steal<py::object>(decode_option(forward->options, place)));
      }
      for (size_t i = 0; i < function->differentiated.size(); i++) wants.append(py::bool_(wanted >> i & 1));
      py::tuple done = py::handle(function->run_backward)(tensors, options, wants, words != nullptr);
      Tensors computed;
      for (py::handle gradient : py::list(done[0])) computed.push_back(THPVariable_Unpack(gradient.ptr()));
      auto plan = read_plan(done[1], taken, device);
      if (plan && plan->bound_to_stream) plan = nullptr;
      if (words && !plan && !py::cast<bool>(done[2])) {
        table.record_again(*words);
      } else if (words) {
        table.settle(*words, std::move(plan), advice);
      }
      return computed;
    } catch (py::error_already_set& error) {
      if (words) table.record_again(*words);
      error.restore();
      raise_from_python();
    }
  }
};

template <typename T>
auto make_node() {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<Node>>) {
    return std::shared_ptr<T>(new T(), [](auto* node) { deleteNode(node); });  // a deep graph needs no deep stack
  } else {
    return c10::make_intrusive<T>();
  }
}

// Attaches the node to the results of a call.
inline void attach(
    const Function& function, const std::shared_ptr<const Plan>& plan, const Tensors& inputs, const Tensors& outputs) {
  auto node = make_node<BackwardNode>();
  node->function = &function;
  node->forward = plan;
  torch::autograd::edge_list edges;
  edges.reserve(inputs.size());
  for (const auto& input : inputs) {
    edges.push_back(input.defined() ? torch::autograd::impl::gradient_edge(input) : torch::autograd::Edge());
  }
  node->set_next_edges(std::move(edges));
  for (size_t i = 0; i < function.results; i++) torch::autograd::set_history(outputs[i], node);
  node->saved.reserve(function.saved.size());
  for (size_t place : function.saved) {
    const bool is_output = place >= inputs.size();
    const auto& tensor = is_output ? outputs[place - inputs.size()] : inputs[place];
    if (tensor.defined()) {
      node->saved.emplace_back(tensor, is_output && place - inputs.size() < function.results);
    } else {
      node->saved.emplace_back();
    }
  }
}

}  // namespace kernellab
