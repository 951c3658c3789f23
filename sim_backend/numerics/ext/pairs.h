// Arithmetic of two DL16 operands in one pass: the exact float32 operation, rounded once.
#pragma once
#include <ATen/core/Tensor.h>

#include "spans.h"

namespace dl16 {

enum class Pair : int { add = 0, sub = 1, mul = 2 };

// float32 operands of any strides, broadcast as PyTorch does -> a new contiguous tensor.
at::Tensor pair_tensor(Pair pair, const at::Tensor& a, const at::Tensor& b);

}  // namespace dl16
