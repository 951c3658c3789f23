// The conversions over spans of memory, on all threads of ATen's pool.
#pragma once
#include "dl16.h"

namespace dl16 {

void set_op_rounding(Rounding rounding);  // of round_span and encode_span, for this process
Rounding op_rounding();
void round_span(const float* in, float* out, int64_t n);       // in may be out
void encode_span(const float* in, int16_t* out, int64_t n);
void decode_span(const int16_t* in, float* out, int64_t n);
void from_half_span(const uint16_t* in, int16_t* out, int64_t n, Rounding rounding, Infinity infinity);
void from_bfloat_span(const uint16_t* in, int16_t* out, int64_t n, Rounding rounding, Infinity infinity);
void to_half_span(const int16_t* in, uint16_t* out, int64_t n, Rounding rounding, Infinity infinity);
void to_bfloat_span(const int16_t* in, uint16_t* out, int64_t n, Infinity infinity);
void wrap_span(const int64_t* in, int64_t* out, int64_t n);    // int64 kept as int32: the low 32 bits, sign extended

}  // namespace dl16
