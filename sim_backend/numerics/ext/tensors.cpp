#include "tensors.h"

#include <ATen/ops/empty_strided.h>

namespace dl16 {
namespace {

at::Tensor dense(const at::Tensor& x) { return x.is_non_overlapping_and_dense() ? x : x.contiguous(); }

at::Tensor like(const at::Tensor& x, at::ScalarType dtype) {
  return at::empty_strided(x.sizes(), x.strides(), x.options().dtype(dtype));
}

void expect(const at::Tensor& x, at::ScalarType dtype, const char* what) {
  TORCH_CHECK_TYPE(x.scalar_type() == dtype, what, " must have dtype ", dtype, ", got ", x.scalar_type());
  TORCH_CHECK_TYPE(x.is_cpu(), what, " must be on the CPU, got ", x.device());
}

// True when both tensors visit memory in the same order without gaps, so that spans do.
bool same_walk(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.is_non_overlapping_and_dense();
}

}  // namespace

at::Tensor encode_tensor(const at::Tensor& x) {
  expect(x, at::kFloat, "x");
  const auto in = dense(x);
  auto out = like(in, at::kShort);
  encode_span(in.const_data_ptr<float>(), out.data_ptr<int16_t>(), in.numel());
  return out;
}

at::Tensor decode_tensor(const at::Tensor& codes) {
  expect(codes, at::kShort, "codes");
  const auto in = dense(codes);
  auto out = like(in, at::kFloat);
  decode_span(in.const_data_ptr<int16_t>(), out.data_ptr<float>(), in.numel());
  return out;
}

at::Tensor from_host_tensor(const at::Tensor& x, Rounding rounding, Infinity infinity) {
  const bool half = x.scalar_type() == at::kHalf;
  expect(x, half ? at::kHalf : at::kBFloat16, "x");
  const auto in = dense(x);
  auto out = like(in, at::kShort);
  const auto* source = static_cast<const uint16_t*>(in.const_data_ptr());
  (half ? from_half_span : from_bfloat_span)(source, out.data_ptr<int16_t>(), in.numel(), rounding, infinity);
  return out;
}

at::Tensor to_host_tensor(const at::Tensor& codes, at::ScalarType dtype, Rounding rounding, Infinity infinity) {
  expect(codes, at::kShort, "codes");
  TORCH_CHECK_TYPE(dtype == at::kHalf || dtype == at::kBFloat16, "DL16 codes become fp16 or bf16, not ", dtype);
  const auto in = dense(codes);
  auto out = like(in, dtype);
  auto* target = static_cast<uint16_t*>(out.mutable_data_ptr());
  const auto* source = in.const_data_ptr<int16_t>();
  if (dtype == at::kHalf) to_half_span(source, target, in.numel(), rounding, infinity);
  else to_bfloat_span(source, target, in.numel(), infinity);
  return out;
}

void encode_into(const at::Tensor& x, const at::Tensor& codes) {
  expect(x, at::kFloat, "x");
  expect(codes, at::kShort, "codes");
  if (!same_walk(x, codes)) {
    codes.copy_(encode_tensor(x));
    return;
  }
  encode_span(x.const_data_ptr<float>(), codes.data_ptr<int16_t>(), x.numel());
}

void decode_into(const at::Tensor& codes, const at::Tensor& x) {
  expect(x, at::kFloat, "x");
  expect(codes, at::kShort, "codes");
  if (!same_walk(x, codes)) {
    x.copy_(decode_tensor(codes));
    return;
  }
  decode_span(codes.const_data_ptr<int16_t>(), x.data_ptr<float>(), x.numel());
}

void round_into(const at::Tensor& x, const at::Tensor& out) {
  expect(x, at::kFloat, "x");
  expect(out, at::kFloat, "out");
  if (!same_walk(x, out)) {
    const auto flat = x.contiguous();
    auto rounded = like(flat, at::kFloat);
    round_span(flat.const_data_ptr<float>(), rounded.data_ptr<float>(), flat.numel());
    out.copy_(rounded);
    return;
  }
  round_span(x.const_data_ptr<float>(), out.data_ptr<float>(), x.numel());
}

}  // namespace dl16
