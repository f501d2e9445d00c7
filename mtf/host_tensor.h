// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_HOST_TENSOR_H_
#define MTF_HOST_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mtf/dtype.h"
#include "mtf/shape.h"

namespace mtf {

// A tensor in host memory, unsharded and row-major in the order of its shape.
// Steps take and return HostTensors.
//
//   HostTensor x = HostTensor::Of<int32_t>({batch, length}, tokens);
//   MTF_ASSIGN_OR_RETURN(const double loss, fetches[0].At(0));
//   MTF_ASSIGN_OR_RETURN(const auto logits, fetches[1].values<float>());
//
// A wrong call that creates a tensor is kept as its status(), with the line of
// the call. Whoever takes the tensor returns the error: Session::Run for a
// feed, At and values for a reader.
class HostTensor {
 public:
  // The f32 scalar 0.
  HostTensor() : HostTensor(Shape(), kFloat32) {}
  // Zeros. The status is an error if Shape::Validate rejects `shape`.
  HostTensor(Shape shape, DType dtype);

  // A tensor of `values`, one per element. T is float, int32_t, int64_t,
  // uint8_t for bool, BFloat16 or Float16. If the number of values differs, the
  // status is kInvalidArgument and the elements are 0.
  template <class T>
  static HostTensor Of(
      Shape shape, const std::vector<T>& values,
      std::source_location location = std::source_location::current());
  // A tensor of `values`, converted to `dtype` as by StoreElement. Errors are
  // those of Of.
  static HostTensor FromDoubles(
      Shape shape, DType dtype, absl::Span<const double> values,
      std::source_location location = std::source_location::current());

  // OK, or the error of the call that created the tensor.
  const absl::Status& status() const { return status_; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t num_elements() const { return shape_.num_elements(); }

  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  size_t num_bytes() const { return bytes_.size(); }

  // Element `i` in row-major order, converted to double. kOutOfRange if there
  // is no such element; otherwise status().
  absl::StatusOr<double> At(
      int64_t i,
      std::source_location location = std::source_location::current()) const;
  // All elements in row-major order, converted to double; those of a tensor
  // whose status() is an error are 0.
  std::vector<double> ToDoubles() const;

  // The elements in row-major order, as T of the dtype: those listed at Of.
  // kInvalidArgument if the tensor has another dtype; otherwise status(). Valid
  // as long as the tensor.
  template <class T>
  absl::StatusOr<absl::Span<const T>> values(
      std::source_location location = std::source_location::current()) const;
  template <class T>
  absl::StatusOr<absl::Span<T>> mutable_values(
      std::source_location location = std::source_location::current());

  friend bool operator==(const HostTensor&, const HostTensor&) = default;

 private:
  Shape shape_;
  DType dtype_ = kFloat32;
  std::vector<std::byte> bytes_;
  absl::Status status_;
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
