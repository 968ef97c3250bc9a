// The launcher: repeats calls of kernellab.functional that were recorded, outside Python and outside the dispatcher.
//
// `make_function` makes what a function of kernellab.functional calls first. It returns the function's result, or None
// where the call has to go its ordinary way. In the second call of a key it records that way: recording.py.

#include "node.hpp"

namespace kernellab {
namespace {

PyObject* parameter_class = nullptr;
PyObject* interceptor_namespace = nullptr;  // of build/cuda.py, whose interceptor is called instead of launching
PyObject* interceptor_name = nullptr;
PyObject* registrations = nullptr;  // the kernels that were registered by torch.library, a set
PyObject* still_ours = nullptr;     // says whether all of our operators have our kernels
Py_ssize_t registration_count = -1;
bool enabled = false;
thread_local bool recording = false;

// Whether nothing in Python is active that a repetition would bypass.
bool may_repeat() {
  if (recording || !enabled) return false;
  if (PyDict_GetItem(interceptor_namespace, interceptor_name) != Py_None) return false;
  const Py_ssize_t count = PySet_GET_SIZE(registrations);
  if (count != registration_count) {
    enabled = py::cast<bool>(py::handle(still_ours)());
    registration_count = count;
  }
  return enabled;
}

bool is_tensor(PyObject* object) {
  return Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(THPVariableClass) ||
      Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(parameter_class);
}

struct Call {
  Words words;
  Tensors inputs;
  std::optional<c10::Device> device;
  bool differentiated = false;
};

// Writes the key of a call and its inputs; false if it has none.
bool read_call(const Function& function, PyObject* const* arguments, Call& call) {
  call.words.push_back(function.number);
  if (!encode_modes(call.words)) return false;
  const bool grad_mode = at::GradMode::is_enabled();
  for (size_t place : function.inputs) {
    PyObject* argument = arguments[place];
    if (argument != Py_None && !is_tensor(argument)) return false;
    call.inputs.push_back(argument == Py_None ? at::Tensor() : THPVariable_Unpack(argument));
    const auto& input = call.inputs.back();
    const bool needs_gradient = grad_mode && input.defined() && input.requires_grad();
    call.differentiated |= needs_gradient;
    if (!encode_tensor(call.words, input, needs_gradient, call.device)) return false;
  }
  for (size_t i = 0; i < function.is_tensor.size(); i++) {
    if (!function.is_tensor[i] && !encode_option(call.words, arguments[i])) return false;
  }
  if (!call.device) return false;
  if (function.by_stream) {
    void* stream = current_stream(*call.device);
    if (is_capturing(stream)) return false;  // a graph may be replayed on any stream
    call.words.push_back(reinterpret_cast<int64_t>(stream));
  }
  return true;
}

class Unlocked {  // the interpreter's lock is released
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

Tensors repeat(const Function& function, const std::shared_ptr<const Plan>& plan, const Call& call) {
  const Unlocked unlocked;
  const ProfiledRange range(function.name, call.inputs, call.differentiated);
  auto outputs = run(*plan, call.inputs);
  repeated_forward.fetch_add(1, std::memory_order_relaxed);
  if (call.differentiated) attach(function, plan, call.inputs, outputs);
  return outputs;
}

class Recording {
 public:
  Recording() {
    recording = true;
  }
  ~Recording() {
    recording = false;
  }
};

PyObject* record(
    Function& function, PyObject* const* arguments, size_t count, const Call& call, const Table::Advice& advice) {
  const Recording guard;
  PyObject* done = PyObject_Vectorcall(function.record, arguments, count, nullptr);
  if (!done) {
    table.record_again(call.words);
    raise_from_python();
  }
  const auto pair = py::reinterpret_steal<py::tuple>(done);
  auto plan = read_plan(pair[1], call.inputs, *call.device);
  if (plan && plan->bound_to_stream && !function.by_stream) {
    function.by_stream = true;  // its next calls have keys with the stream
  } else if (!plan && !py::cast<bool>(pair[2])) {
    table.record_again(call.words);
  } else {
    table.settle(call.words, std::move(plan), advice);
  }
  return py::object(pair[0]).release().ptr();
}

PyObject* call_function(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  auto& function = *static_cast<Function*>(PyCapsule_GetPointer(self, nullptr));
  Call call;
  if (static_cast<size_t>(count) != function.is_tensor.size() || !may_repeat() ||
      !read_call(function, arguments, call)) {
    Py_RETURN_NONE;
  }
  const auto advice = table.look_up(call.words);
  if (advice.record) return record(function, arguments, count, call, advice);
  if (!advice.plan) Py_RETURN_NONE;
  const auto outputs = repeat(function, advice.plan, call);
  if (function.results == 1) return THPVariable_Wrap(outputs[0]);
  PyObject* results = PyTuple_New(static_cast<Py_ssize_t>(function.results));
  for (size_t i = 0; i < function.results; i++) {
    PyTuple_SET_ITEM(results, static_cast<Py_ssize_t>(i), THPVariable_Wrap(outputs[i]));
  }
  return results;
  END_HANDLE_TH_ERRORS
}

PyMethodDef call_method = {
    "repeat",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_function)),
    METH_FASTCALL,
    "The result of a call that was recorded, or None."};

py::object make_function(
    const std::string& name,
    std::vector<bool> is_tensor,
    std::vector<size_t> inputs,
    size_t results,
    std::vector<size_t> saved,
    std::vector<std::vector<size_t>> differentiated,
    bool takes_missing_gradients,
    py::object record,
    py::object run_backward) {
  static int64_t made = 0;
  auto* function = new Function();
  function->number = ++made;
  function->name = "kernellab::" + name;
  function->backward_name = function->name + "_backward";
  function->node_name = function->backward_name;
  function->is_tensor = std::move(is_tensor);
  function->inputs = std::move(inputs);
  function->results = results;
  function->saved = std::move(saved);
  function->differentiated = std::move(differentiated);
  function->takes_missing_gradients = takes_missing_gradients;
  function->record = record.release().ptr();
  function->run_backward = run_backward.release().ptr();
  const auto capsule = py::capsule(static_cast<void*>(function));
  return py::reinterpret_steal<py::object>(PyCFunction_New(&call_method, capsule.ptr()));
}

// Calls are repeated from here on. `launching`: the namespace of build/cuda.py.
void enable(
    const std::unordered_map<std::string, uint64_t>& driver_functions,
    py::object parameter,
    py::dict launching,
    py::set registered,
    py::object are_ours) {
  load_driver(driver_functions);
  parameter_class = parameter.release().ptr();
  interceptor_namespace = launching.release().ptr();
  interceptor_name = PyUnicode_InternFromString("interceptor");
  registrations = registered.release().ptr();
  still_ours = are_ours.release().ptr();
  registration_count = -1;
  enabled = true;
}

unsigned get(const std::vector<int64_t>& sizes, size_t i) {
  return i < sizes.size() ? static_cast<unsigned>(sizes[i]) : 1u;
}

}  // namespace

// A plan as recording.py describes it; None is none.
std::shared_ptr<const Plan> read_plan(py::handle description, const Tensors& inputs, c10::Device device) {
  using Sizes = std::vector<int64_t>;
  if (description.is_none()) return nullptr;
  auto plan = std::make_shared<Plan>();
  plan->device = device;
  for (py::handle each : description.attr("allocations")) {
    auto [sizes, strides, dtype] = py::cast<std::tuple<Sizes, Sizes, py::object>>(each);
    Allocation allocation{std::move(sizes), std::move(strides), reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type};
    int64_t dense = 1;
    allocation.contiguous = true;
    for (size_t i = allocation.sizes.size(); i-- > 0;) {
      allocation.contiguous &= allocation.strides[i] == dense;
      dense *= std::max<int64_t>(allocation.sizes[i], 1);
    }
    plan->allocations.push_back(std::move(allocation));
  }
  for (py::handle each : description.attr("outputs")) {
    const auto [is_input, index] = py::cast<std::tuple<bool, size_t>>(each);
    if (!is_input) plan->allocations.at(index).output = static_cast<int>(plan->outputs.size());
    plan->outputs.push_back({is_input, index});
  }
  for (auto& allocation : plan->allocations) {
    if (allocation.output >= 0) continue;
    const auto bytes =
        at::detail::computeStorageNbytes(allocation.sizes, allocation.strides, c10::elementSize(allocation.dtype));
    allocation.scratch_at = plan->scratch_bytes;
    plan->scratch_bytes += (bytes + 511) / 512 * 512;  // as torch's allocator aligns what it gives
  }
  for (py::handle each : description.attr("launches")) {
    Launch launch{};
    const auto grid = py::cast<Sizes>(each.attr("grid"));
    const auto block = py::cast<Sizes>(each.attr("block"));
    const auto cluster = py::cast<Sizes>(each.attr("cluster"));
    launch.kernel = reinterpret_cast<void*>(py::cast<uint64_t>(each.attr("kernel")));
    launch.has_cluster = !cluster.empty();
    launch.cluster.id = kClusterSize;
    for (size_t i = 0; i < 3; i++) {
      launch.cluster.value.cluster[i] = get(cluster, i);
      launch.config.grid[i] = get(grid, i) * get(cluster, i);  // the grid counts clusters
      launch.config.block[i] = get(block, i);
    }
    launch.config.shared_bytes = py::cast<unsigned>(each.attr("shared_bytes"));
    for (py::handle argument : each.attr("arguments")) {
      const auto [kind, value, offset] = py::cast<std::tuple<std::string, uint64_t, int64_t>>(argument);
      if (kind != "value") launch.pointers.push_back({launch.values.size(), kind == "input", value, offset});
      launch.values.push_back(kind == "value" ? value : 0);
    }
    plan->launches.push_back(std::move(launch));
  }
  for (const auto& launch : plan->launches) {
    for (const auto& pointer : launch.pointers) {
      TORCH_CHECK(
          pointer.index < (pointer.is_input ? inputs.size() : plan->allocations.size()), "kernellab: a wrong plan");
    }
  }
  plan->bound_to_stream = py::cast<bool>(description.attr("bound_to_stream"));
  for (py::handle option : description.attr("options")) {
    TORCH_CHECK(encode_option(plan->options, option.ptr()), "kernellab: an option of an unknown kind");
  }
  return plan;
}

}  // namespace kernellab

PYBIND11_MODULE(kernellab_launcher, module) {
  using namespace kernellab;
  module.def("make_function", &make_function);
  module.def("enable", &enable);
  module.def("disable", [] { enabled = false; });
  module.def("forget", [] { table.forget(); });
  module.def("set_capacity", [](size_t entries) { table.set_capacity(entries); });
  module.def("known_calls", [] { return table.size(); });
  module.def("repeated_passes", [] { return std::make_pair(repeated_forward.load(), repeated_backward.load()); });
}
