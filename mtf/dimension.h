// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_DIMENSION_H_
#define MTF_DIMENSION_H_

#include <cstdint>
#include <string>

namespace mtf {

// A named size: the only way tensors are addressed.
//
//   const Dimension batch{"batch", 16};
//
// Dimensions meet by name. Within one operation a name has one size; anything
// else is an error at the user's line.
struct Dimension {
  std::string name;
  int64_t size = 0;

  friend bool operator==(const Dimension&, const Dimension&) = default;
};

}  // namespace mtf

#endif  // MTF_DIMENSION_H_
