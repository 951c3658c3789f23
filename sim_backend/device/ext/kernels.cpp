// The kernels that make it a device: allocation, copies, views. Everything else reaches the fallback, in Python.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "spyre.h"

namespace spyre {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::ScalarType accepted(std::optional<at::ScalarType> dtype, std::optional<at::Device> device,
                        std::optional<bool> pin_memory) {
  if (device.has_value()) check_device_index(device->index());
  TORCH_CHECK(!pin_memory.value_or(false), "Pin memory can only be on CPU");
  const auto resolved = dtype.value_or(c10::get_default_dtype_as_scalartype());
  check_dtype(resolved);
  return resolved;
}

void check_layout(std::optional<at::Layout> layout) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "Non strided layout not supported");
}

void check_rank(c10::IntArrayRef size) {
  const auto rank = static_cast<int64_t>(size.size()), limit = copy_rules().rank_limit;
  TORCH_CHECK(limit == 0 || rank <= limit, "Unsupported tensor rank: ", rank);
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin, std::optional<at::MemoryFormat> format) {
  check_layout(layout);
  check_rank(size);
  const auto resolved = accepted(dtype, device, pin);
  const Expected expected(resolved, device_bytes(size, resolved));
  return at::detail::empty_generic(size, allocator(), kKeys, resolved, format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin) {
  check_layout(layout);
  check_rank(size);
  const auto resolved = accepted(dtype, device, pin);
  const Expected expected(resolved, device_bytes(size, resolved));
  return at::detail::empty_strided_generic(size, stride, allocator(), kKeys, resolved);
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  if (target.sizes() != source.sizes()) target.resize_(source.sizes());
  return copy_from(source, target, false);
}

at::Scalar local_scalar(const at::Tensor& t) {
  transfer(static_cast<double>(t.itemsize()), true);
  return at::_local_scalar_dense(to_compute(t));
}

at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<int64_t> offset) {
  if (self.numel() == 0) meet_empty_tensor();
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  const Expected expected(self.scalar_type(), device_bytes(size, self.scalar_type()));
  return at::native::resize_(self, size, format);
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size,
                        c10::IntArrayRef stride) {
  at::native::set_storage_meta__symint(self, std::move(source), offset, c10::fromIntArrayRefSlow(size),
                                       c10::fromIntArrayRefSlow(stride));
  settle_formats(self);
  return self;
}

}  // namespace
}  // namespace spyre

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(spyre::empty));
  m.impl("empty_strided", TORCH_FN(spyre::empty_strided));
  m.impl("_copy_from", TORCH_FN(spyre::copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(spyre::copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(spyre::local_scalar));
  m.impl("as_strided", TORCH_FN(spyre::as_strided));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("resize_", TORCH_FN(spyre::resize));
  m.impl("set_.source_Storage", TORCH_FN(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(spyre::set_storage));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
}
