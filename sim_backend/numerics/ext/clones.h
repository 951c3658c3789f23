// One build for every x86-64: the loader picks the widest clone of a loop that the processor has. No clone may contract
// a*b + c into one rounding (-ffp-contract=off), so that all give the same bits.
#pragma once
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#if __GNUC__ >= 12
#define DL16_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define DL16_CLONES __attribute__((target_clones("avx2", "default")))
#endif
#else
#define DL16_CLONES
#endif
// A body is a template, which a clone cannot be.
#define DL16_BODY inline __attribute__((always_inline))
