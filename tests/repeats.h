// SPDX-License-Identifier: Apache-2.0
//
// The number of repetitions of a test, by build.
#ifndef TESTS_REPEATS_H_
#define TESTS_REPEATS_H_

namespace mtf::testing {

// `all` in optimized builds, `few` under a sanitizer, where each repetition
// takes ten times as long and the first ones exercise the same code. Cases that
// differ in kind (layouts, meshes, dtypes) are not repetitions.
//
//   for (int seed = 0; seed < Repeats(400, 40); ++seed) ...
constexpr int Repeats(int all, int few) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return all < few ? all : few;
#else
  return all < few ? few : all;
#endif
}

}  // namespace mtf::testing

#endif  // TESTS_REPEATS_H_
