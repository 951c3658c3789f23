// The conversions on CPU tensors. Inputs may have any strides; a new output keeps them where they are dense.
#pragma once
#include <ATen/core/Tensor.h>

#include "spans.h"

namespace dl16 {

at::Tensor encode_tensor(const at::Tensor& x);                 // float32 -> int16 codes, by op_rounding
at::Tensor decode_tensor(const at::Tensor& codes);             // int16 codes -> float32
at::Tensor from_host_tensor(const at::Tensor& x, Rounding rounding, Infinity infinity);       // fp16, bf16 -> codes
// Codes -> fp16, bf16; bf16 truncates whatever the rounding.
at::Tensor to_host_tensor(const at::Tensor& codes, at::ScalarType dtype, Rounding rounding, Infinity infinity);
void encode_into(const at::Tensor& x, const at::Tensor& codes);
void decode_into(const at::Tensor& codes, const at::Tensor& x);
void round_into(const at::Tensor& x, const at::Tensor& out);

}  // namespace dl16
