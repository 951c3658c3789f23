// Whole device operations in one pass over rows: every step of theirs rounds as if it were made alone.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "spans.h"

namespace dl16 {

// decode_into; a matrix of codes stored by columns, as a linear's weight multiplies, is turned on the way.
void decode_rows_into(const at::Tensor& codes, const at::Tensor& out);
at::Tensor map_tensor(const at::Tensor& x, const at::Tensor& table);  // table[code of x]; float32, 65536 entries
at::Tensor sum_rows(const at::Tensor& rows, int64_t chunk);           // (n, k) -> (n); chunk 0: element by element
at::Tensor softmax_rows(const at::Tensor& rows, const at::Tensor& exponentials, int64_t chunk);
at::Tensor norm_rows(const at::Tensor& rows, const std::optional<at::Tensor>& weight,
                     const std::optional<at::Tensor>& bias, double eps, int64_t chunk, bool clamped);

}  // namespace dl16
