// One build for every x86-64: the loader picks the AVX2 clone of a loop where the processor has it.
#pragma once
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DL16_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define DL16_CLONES
#endif
