// SPDX-License-Identifier: Apache-2.0
//
// Which instruction sets vector code is compiled for. Included before Highway.
#ifndef BACKENDS_CPU_HIGHWAY_TARGETS_H_
#define BACKENDS_CPU_HIGHWAY_TARGETS_H_

#if defined(__x86_64__)
// The baseline, x86-64-v3, has AVX2 without the AES that Highway would ask for;
// of the sets above it one is enough for these loops.
#define HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3))
#endif

#endif  // BACKENDS_CPU_HIGHWAY_TARGETS_H_
