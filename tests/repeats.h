// SPDX-License-Identifier: Apache-2.0
//
// How often a test repeats itself in each build.
#ifndef TESTS_REPEATS_H_
#define TESTS_REPEATS_H_

namespace mtf::testing {

// `all` where code is optimised. `few` under a sanitizer, which makes each ten
// times as slow and looks at memory and threads: the first repeats show it what
// there is. What differs in kind (layouts, meshes, dtypes) is no repeat.
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
