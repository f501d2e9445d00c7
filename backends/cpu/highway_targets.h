// SPDX-License-Identifier: Apache-2.0
//
// Selects the instruction sets for vector code. Included before Highway.
#ifndef BACKENDS_CPU_HIGHWAY_TARGETS_H_
#define BACKENDS_CPU_HIGHWAY_TARGETS_H_

#if defined(__x86_64__)
// The baseline, x86-64-v3, has AVX2 without the AES that Highway requires by
// default. One larger instruction set is enough for these loops.
#define HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3))
#endif

#endif  // BACKENDS_CPU_HIGHWAY_TARGETS_H_
