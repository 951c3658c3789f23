// Python binding of the device.
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include "callbacks.h"
#include "spyre.h"

namespace {

at::ScalarType dtype_of(const py::object& dtype) {
  TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "expected a torch.dtype");
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

int64_t layout_tag(const at::Tensor& t) {
  const auto* block = spyre::block_of(t);
  return block == nullptr ? 0 : block->layout_tag.load();
}

void set_layout_tag(const at::Tensor& t, int64_t tag) {
  auto* block = spyre::block_of(t);
  TORCH_CHECK(block != nullptr || tag == 0 || t.numel() == 0, "layout tags belong to spyre tensors, got ", t.device());
  if (block != nullptr) block->layout_tag = tag;
}

void set_policy(int rounding, int to_host_rounding, int infinity,
                const std::vector<std::pair<py::object, std::string>>& refused) {
  spyre::policy().rounding = static_cast<dl16::Rounding>(rounding);
  spyre::policy().to_host_rounding = static_cast<dl16::Rounding>(to_host_rounding);
  spyre::policy().infinity = static_cast<dl16::Infinity>(infinity);
  spyre::policy().refused.clear();
  for (const auto& [dtype, message] : refused) spyre::policy().refused[dtype_of(dtype)] = message;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("cpu_alias", &spyre::cpu_alias);
  m.def("layout_tag", &layout_tag);
  m.def("set_layout_tag", &set_layout_tag);
  m.def("to_compute", &spyre::to_compute);
  m.def("from_compute", [](const at::Tensor& t, const py::object& d) { return spyre::from_compute(t, dtype_of(d)); });
  m.def("from_codes", [](const at::Tensor& t, const py::object& d) { return spyre::from_codes(t, dtype_of(d)); });
  m.def("write_compute", &spyre::write_compute);
  m.def("memory_stats", &spyre::memory_stats);
  m.def("reset_peak_memory", &spyre::reset_peak_memory);
  m.def("set_limits", &spyre::set_limits);
  m.def("exchange_intermediate", &spyre::exchange_intermediate);
  m.def("set_policy", &set_policy);
  m.def("set_op_rounding", [](int rounding) { dl16::set_op_rounding(static_cast<dl16::Rounding>(rounding)); });
  m.def("set_callbacks", &spyre::set_callbacks);
  m.def("current_device", [] { return static_cast<int>(spyre::current_device()); });
  m.def("set_device", [](int i) { spyre::set_current_device(static_cast<c10::DeviceIndex>(i)); });
  m.def("device_count", [] { return static_cast<int>(spyre::kDeviceCount); });
  m.def("default_generator", &spyre::default_generator);
  m.def("host_generator", &spyre::host_generator);
}
