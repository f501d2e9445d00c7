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

// Reads and writes one element of `dtype` at `data`[i] as a double; floats
// narrower than float round to nearest even, integers truncate.
double LoadElement(const void* data, DType dtype, int64_t i);
void StoreElement(void* data, DType dtype, int64_t i, double value);

}  // namespace mtf

#endif  // MTF_HOST_TENSOR_H_
