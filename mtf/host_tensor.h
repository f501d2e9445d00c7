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

// A tensor in host memory, unsharded and row-major in the order of its shape.
// Steps take and return HostTensors.
//
//   HostTensor x = HostTensor::Of<int32_t>({batch, length}, tokens);
class HostTensor {
 public:
  HostTensor() = default;
  // Zeros.
  HostTensor(Shape shape, DType dtype);

  // A tensor of `values`, one per element (checked). T is float, int32_t,
  // int64_t, or uint8_t for bool.
  template <class T>
  static HostTensor Of(Shape shape, const std::vector<T>& values);
  // A tensor of `values`, converted to `dtype` as by StoreElement.
  static HostTensor FromDoubles(Shape shape, DType dtype,
                                absl::Span<const double> values);

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t num_elements() const { return shape_.num_elements(); }

  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  size_t num_bytes() const { return bytes_.size(); }

  // Element `i` in row-major order, converted to double.
  double At(int64_t i) const;
  std::vector<double> ToDoubles() const;

  friend bool operator==(const HostTensor&, const HostTensor&) = default;

 private:
  Shape shape_;
  DType dtype_ = kFloat32;
  std::vector<std::byte> bytes_;
};

// Read and write element `i` of the array `data` of `dtype` as a double. A
// value is converted to the dtype: floats round to nearest even; integers
// truncate toward zero, saturate at the limits of the dtype, and are 0 for NaN;
// a bool is false for 0 and true otherwise. An int64 beyond 2^53 is rounded to
// a double when it is read.
double LoadElement(const void* data, DType dtype, int64_t i);
void StoreElement(void* data, DType dtype, int64_t i, double value);

// `value` after a round trip through an element of `dtype`. This is the value
// of a literal, a fill or a cast.
//
//   RoundToDType(1e-8, kFloat16)     // 0
//   RoundToDType(16777217, kFloat32) // 16777216
double RoundToDType(double value, DType dtype);

}  // namespace mtf

#endif  // MTF_HOST_TENSOR_H_
