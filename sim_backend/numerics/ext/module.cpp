// Python binding of the DL16 conversions. Policies arrive as the integers of dl16::Rounding and dl16::Infinity.
#include <ATen/ops/empty_like.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/utils/pybind.h>

#include "pairs.h"
#include "rows.h"
#include "tensors.h"

namespace {

using dl16::Infinity;
using dl16::Rounding;

at::Tensor round_copy(const at::Tensor& x) {
  auto out = at::empty_like(x);
  dl16::round_into(x, out);
  return out;
}

at::Tensor round_in_place(const at::Tensor& x) {
  dl16::round_into(x, x);
  return x;
}

at::Tensor from_host(const at::Tensor& x, int rounding, int infinity) {
  return dl16::from_host_tensor(x, static_cast<Rounding>(rounding), static_cast<Infinity>(infinity));
}

at::Tensor to_host(const at::Tensor& codes, const py::object& dtype, int rounding, int infinity) {
  const auto type = reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
  return dl16::to_host_tensor(codes, type, static_cast<Rounding>(rounding), static_cast<Infinity>(infinity));
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("set_op_rounding", [](int rounding) { dl16::set_op_rounding(static_cast<Rounding>(rounding)); });
  m.def("op_rounding", [] { return static_cast<int>(dl16::op_rounding()); });
  m.def("encode", &dl16::encode_tensor);
  m.def("decode", &dl16::decode_tensor);
  m.def("encode_into", &dl16::encode_into);
  m.def("decode_into", &dl16::decode_rows_into);
  m.def("round_dl16", &round_copy);
  m.def("round_dl16_", &round_in_place);
  m.def("from_host", &from_host);
  m.def("to_host", &to_host);
  m.def("map_codes", &dl16::map_tensor);
  m.def("sum_rows", &dl16::sum_rows);
  m.def("softmax_rows", &dl16::softmax_rows);
  m.def("norm_rows", &dl16::norm_rows);
  m.def("add", [](const at::Tensor& a, const at::Tensor& b) { return dl16::pair_tensor(dl16::Pair::add, a, b); });
  m.def("sub", [](const at::Tensor& a, const at::Tensor& b) { return dl16::pair_tensor(dl16::Pair::sub, a, b); });
  m.def("mul", [](const at::Tensor& a, const at::Tensor& b) { return dl16::pair_tensor(dl16::Pair::mul, a, b); });
}
