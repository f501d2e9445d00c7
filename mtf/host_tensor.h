// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_HOST_TENSOR_H_
#define MTF_HOST_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mtf/dtype.h"
#include "mtf/shape.h"

namespace mtf {

// A whole tensor in host memory, row-major in the order of its shape: what a
// step is fed and what it returns.
//
//   HostTensor x = HostTensor::Of<int32_t>({batch, length}, tokens);
class HostTensor {
 public:
  HostTensor() = default;
  // Zeros.
  HostTensor(Shape shape, DType dtype);

  // From values of the C++ type of a dtype: float, int32_t, int64_t, or bool
  // as uint8_t. Checks that there is one value per element.
  template <class T>
  static HostTensor Of(Shape shape, const std::vector<T>& values);
  // From doubles, converted to `dtype`.
  static HostTensor FromDoubles(Shape shape, DType dtype,
                                absl::Span<const double> values);

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t num_elements() const { return shape_.num_elements(); }

  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  size_t num_bytes() const { return bytes_.size(); }

  // Element `i` in row-major order, whatever the dtype.
  double At(int64_t i) const;
  std::vector<double> ToDoubles() const;

  friend bool operator==(const HostTensor&, const HostTensor&) = default;

 private:
  Shape shape_;
  DType dtype_ = kFloat32;
  std::vector<std::byte> bytes_;
};

// Reads and writes one element of `dtype` at `data`[i] as a double. What is
// written becomes a number of the dtype: floats round to nearest even; integers
// truncate toward zero, the least or greatest one stands for what lies beyond
// (an infinity too), and 0 for a NaN; a bool is true for all but 0. An int64
// beyond 2^53 may read as a double beside it.
double LoadElement(const void* data, DType dtype, int64_t i);
void StoreElement(void* data, DType dtype, int64_t i, double value);

// `value` as it reads back from an element of `dtype`: the one answer to what
// a literal, a fill or a cast is worth.
//
//   RoundToDType(1e-8, kFloat16)     // 0
//   RoundToDType(16777217, kFloat32) // 16777216
double RoundToDType(double value, DType dtype);

}  // namespace mtf

#endif  // MTF_HOST_TENSOR_H_
