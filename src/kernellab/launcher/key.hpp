// What must be equal for a recorded call to be repeated: the key of a call, and whether a call has one.
//
// A call has no key while anything is active that a repetition would bypass, such as a mode of torch or a transform of
// torch.func, and where an argument is anything but a plain tensor in memory, a number, a string or a list of integers.

#pragma once

#include <ATen/ATen.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "driver.hpp"

#include <cstring>

namespace kernellab {

using Words = c10::SmallVector<int64_t, 64>;

inline uint64_t hash_of(c10::ArrayRef<int64_t> words) {
  uint64_t hash = 0x9E3779B97F4A7C15ull ^ words.size();
  for (int64_t word : words) {
    hash = (hash ^ static_cast<uint64_t>(word)) * 0xD6E8FEB86659FD93ull;
    hash ^= hash >> 32;
  }
  return hash;
}

// Backward passes exclude this key in versions of torch that have it. Plain tensors have no names.
template <typename Key = c10::DispatchKey>
constexpr c10::DispatchKeySet names_of_dims() {
  if constexpr (requires { Key::Named; }) {
    return c10::DispatchKeySet(Key::Named);
  } else {
    return c10::DispatchKeySet();
  }
}

// Writes a word for the modes of this thread, or returns false where one is active that a repetition would bypass.
inline bool encode_modes(Words& words) {
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  const auto autocast = c10::autocast_dispatch_keyset;
  const bool inference = c10::InferenceMode::is_enabled();
  const auto included = inference
      ? c10::default_included_set.remove(c10::DispatchKey::ADInplaceOrView)
      : c10::DispatchKeySet(c10::default_included_set);
  const auto excluded = inference ? c10::autograd_dispatch_keyset.raw_repr() : uint64_t{0};
  if (keys.included_.raw_repr() != included.raw_repr()) return false;
  const auto harmless = autocast | names_of_dims();
  if ((keys.excluded_.raw_repr() & ~harmless.raw_repr()) != excluded) return false;
  if (at::impl::torch_function_mode_enabled()) return false;
  const auto& context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) return false;
  // Under autocast, calls are recorded apart: inputs may be cast.
  words.push_back(int64_t{inference} | static_cast<int64_t>(~keys.excluded_.raw_repr() & autocast.raw_repr()));
  return true;
}

inline bool is_plain(const at::Tensor& x) {
  constexpr auto allowed = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
      c10::DispatchKeySet(c10::DispatchKey::CUDA);
  constexpr auto allowed_on_cpu = allowed | c10::DispatchKeySet(c10::DispatchKey::CPU);
  const auto* impl = x.unsafeGetTensorImpl();
  const uint64_t keys = impl->key_set().raw_repr();
  if (keys & ~(on_cpu ? allowed_on_cpu : allowed).raw_repr()) return false;
  if (impl->has_symbolic_sizes_strides() || !(x.is_cuda() || on_cpu)) return false;
  // Forward-mode differentiation is PyTorch's.
  return !torch::autograd::impl::get_autograd_meta(x) || !x._fw_grad(0).defined();
}

// Writes the words of a tensor, which may be undefined; false for one that is not plain or on another device.
inline bool encode_tensor(Words& words, const at::Tensor& x, bool needs_gradient, std::optional<c10::Device>& device) {
  if (!x.defined()) {
    words.push_back(-1);
    return true;
  }
  if (!is_plain(x)) return false;
  if (!device) device = x.device();
  if (x.device() != *device) return false;
  const auto alignment = static_cast<int64_t>(reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16);
  words.push_back(
      static_cast<int64_t>(x.scalar_type()) | alignment << 8 | static_cast<int64_t>(needs_gradient) << 16 |
      static_cast<int64_t>(x.dim()) << 24 | static_cast<int64_t>(static_cast<uint8_t>(device->index())) << 40 |
      static_cast<int64_t>(device->type()) << 48);
  words.append(x.sizes().begin(), x.sizes().end());
  words.append(x.strides().begin(), x.strides().end());
  return true;
}

inline bool encode_integer(Words& words, PyObject* value) {
  int overflow = 0;
  words.push_back(PyLong_AsLongLongAndOverflow(value, &overflow));
  return overflow == 0;
}

// Writes the words of an argument that is no tensor; false for a kind that options do not have.
inline bool encode_option(Words& words, PyObject* value) {
  if (value == Py_None || value == Py_True || value == Py_False) {
    words.push_back(value == Py_None ? 0 : value == Py_True ? 1 : 2);
    return true;
  }
  if (PyLong_CheckExact(value)) {
    words.push_back(3);
    return encode_integer(words, value);
  }
  if (PyFloat_CheckExact(value)) {
    const double number = PyFloat_AS_DOUBLE(value);
    int64_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    words.push_back(4);
    words.push_back(bits);
    return true;
  }
  if (PyUnicode_CheckExact(value)) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value, &length);
    if (!text) PyErr_Clear();
    if (!text || length > 64) return false;
    words.push_back(5 | static_cast<int64_t>(length) << 8);
    for (Py_ssize_t at = 0; at < length; at += 8) {
      int64_t part = 0;
      std::memcpy(&part, text + at, std::min<Py_ssize_t>(8, length - at));
      words.push_back(part);
    }
    return true;
  }
  if (PyTuple_Check(value) || PyList_Check(value)) {
    const Py_ssize_t length = PySequence_Fast_GET_SIZE(value);
    if (length > 8) return false;
    words.push_back(6 | static_cast<int64_t>(length) << 8);
    for (Py_ssize_t i = 0; i < length; i++) {
      PyObject* item = PySequence_Fast_GET_ITEM(value, i);
      if (!PyLong_CheckExact(item) || !encode_integer(words, item)) return false;
    }
    return true;
  }
  if (THPDtype_Check(value)) {
    words.push_back(7 | static_cast<int64_t>(reinterpret_cast<THPDtype*>(value)->scalar_type) << 8);
    return true;
  }
  return false;
}

// The option that was written at a place, which moves behind it. Lists and dtypes are no options of ops.
inline PyObject* decode_option(c10::ArrayRef<int64_t> words, size_t& place) {
  const int64_t kind = words[place++];
  if (kind < 3) {
    PyObject* value = kind == 0 ? Py_None : kind == 1 ? Py_True : Py_False;
    Py_INCREF(value);
    return value;
  }
  if (kind == 3) return PyLong_FromLongLong(words[place++]);
  if (kind == 4) {
    double number;
    std::memcpy(&number, &words[place++], sizeof(number));
    return PyFloat_FromDouble(number);
  }
  TORCH_INTERNAL_ASSERT((kind & 255) == 5);
  const auto length = static_cast<size_t>(kind >> 8);
  PyObject* text = PyUnicode_FromStringAndSize(reinterpret_cast<const char*>(&words[place]), length);
  place += (length + 7) / 8;
  return text;
}

}  // namespace kernellab
