// Python binding of the device.
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
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

void mark_host_bytes(const at::Tensor& t) {
  if (auto* block = spyre::block_of(t)) block->host_bytes = true;
}

py::object dtype_of_memory(const at::Tensor& t) {
  const auto* block = spyre::block_of(t);
  if (block == nullptr || block->dtype == at::ScalarType::Undefined) return py::none();
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(block->dtype)));
}

void recount(const at::Tensor& t, int64_t device_bytes) {
  if (auto* block = spyre::block_of(t)) spyre::recount(*block, device_bytes);
}

void set_formats(const std::vector<std::pair<py::object, int64_t>>& element_bytes, bool single_partial_stick) {
  spyre::formats() = {{}, single_partial_stick};
  for (const auto& [dtype, bytes] : element_bytes) spyre::formats().element_bytes[dtype_of(dtype)] = bytes;
}

void set_policy(int rounding, int to_host_rounding, int infinity,
                const std::vector<std::pair<py::object, std::string>>& refused, bool refusal_aborts,
                bool small_bfloat_infinity) {
  spyre::policy().rounding = static_cast<dl16::Rounding>(rounding);
  spyre::policy().to_host_rounding = static_cast<dl16::Rounding>(to_host_rounding);
  spyre::policy().infinity = static_cast<dl16::Infinity>(infinity);
  spyre::policy().refused.clear();
  spyre::policy().refusal_aborts = refusal_aborts;
  spyre::policy().small_bfloat_infinity = small_bfloat_infinity;
  for (const auto& [dtype, message] : refused) spyre::policy().refused[dtype_of(dtype)] = message;
}

void set_runtime(int devices, int device, const std::string& second_device, bool streams, bool events,
                 int64_t host_compute_streams) {
  spyre::runtime() = {static_cast<c10::DeviceIndex>(devices), static_cast<c10::DeviceIndex>(device), second_device,
                      streams, events, host_compute_streams};
}

void set_copy_rules(int on_device, bool empty_crashes, bool first_offset, bool writes_base, int64_t rank_limit) {
  spyre::copy_rules() = {static_cast<spyre::OnDevice>(on_device), empty_crashes, first_offset, writes_base, rank_limit};
}

void set_costs(double memory_bytes_per_ns, double flop_per_ns, double host_bytes_per_ns, double eager_ns,
               double launch_ns, double poll_ns) {
  spyre::set_costs({memory_bytes_per_ns, flop_per_ns, host_bytes_per_ns, eager_ns, launch_ns, poll_ns});
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("cpu_alias", &spyre::cpu_alias);
  m.def("layout_tag", &layout_tag);
  m.def("set_layout_tag", &set_layout_tag);
  m.def("mark_host_bytes", &mark_host_bytes);
  m.def("dtype_of_memory", &dtype_of_memory);
  m.def("recount", &recount);
  m.def("set_formats", &set_formats, py::arg("element_bytes"), py::kw_only(), py::arg("single_partial_stick"));
  m.def("to_compute", &spyre::to_compute);
  m.def("from_compute", [](const at::Tensor& t, const py::object& d) { return spyre::from_compute(t, dtype_of(d)); });
  m.def("from_codes", [](const at::Tensor& t, const py::object& d) { return spyre::from_codes(t, dtype_of(d)); });
  m.def("write_compute", &spyre::write_compute);
  m.def("memory_stats", &spyre::memory_stats);
  m.def("reset_peak_memory", &spyre::reset_peak_memory);
  m.def("reset_accumulated_memory", &spyre::reset_accumulated_memory);
  m.def("set_limits", &spyre::set_limits);
  m.def("exchange_intermediate", &spyre::exchange_intermediate);
  m.def("set_policy", &set_policy, py::arg("rounding"), py::arg("to_host_rounding"), py::arg("infinity"), py::arg("refused"),
        py::arg("refusal_aborts") = false, py::arg("small_bfloat_infinity") = false);
  m.def("set_op_rounding", [](int rounding) { dl16::set_op_rounding(static_cast<dl16::Rounding>(rounding)); });
  m.def("set_callbacks", &spyre::set_callbacks);
  m.def("set_prefix_copy", &spyre::set_prefix_copy);
  m.def("check_device_index", [](int i) { spyre::check_device_index(static_cast<c10::DeviceIndex>(i)); });
  m.def("check_stream_id", &spyre::check_stream_id);
  m.def("current_device", [] { return static_cast<int>(spyre::current_device()); });
  m.def("set_runtime", &set_runtime, py::kw_only(), py::arg("devices"), py::arg("device"), py::arg("second_device"),
        py::arg("streams"), py::arg("events"), py::arg("host_compute_streams"));
  m.def("set_copy_rules", &set_copy_rules, py::kw_only(), py::arg("on_device"), py::arg("empty_crashes"),
        py::arg("first_offset"), py::arg("writes_base"), py::arg("rank_limit"));
  m.def("set_costs", &set_costs, py::kw_only(), py::arg("memory_bytes_per_ns"), py::arg("flop_per_ns"),
        py::arg("host_bytes_per_ns"), py::arg("eager_ns"), py::arg("launch_ns"), py::arg("poll_ns"));
  m.def("host_time", &spyre::host_time);
  m.def("queue_eager", &spyre::queue_eager);
  m.def("queue_bundle", &spyre::queue_bundle);
  m.def("refuse_allocations", &spyre::refuse_allocations);
  m.def("empty_cache", &spyre::empty_cache);
  m.def("default_generator", &spyre::default_generator);
  m.def("host_generator", &spyre::host_generator);
}
