// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_DIMENSION_H_
#define MTF_DIMENSION_H_

#include <cstdint>
#include <string>

namespace mtf {

// A named size. Tensors are addressed by the names of their dimensions only.
//
//   const Dimension batch{"batch", 16};
//
// Operations match dimensions by name. Within one operation a name has one
// size; two sizes are an error at the caller's line.
struct Dimension {
  std::string name;
  int64_t size = 0;

  friend bool operator==(const Dimension&, const Dimension&) = default;
};

}  // namespace mtf

#endif  // MTF_DIMENSION_H_
