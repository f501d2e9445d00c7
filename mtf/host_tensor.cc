// SPDX-License-Identifier: Apache-2.0
#include "mtf/host_tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "mtf/check.h"
#include "mtf/half.h"

namespace mtf {
namespace {

template <class T>
constexpr DType kDTypeOf = kFloat32;
template <>
constexpr DType kDTypeOf<int32_t> = kInt32;
template <>
constexpr DType kDTypeOf<int64_t> = kInt64;
template <>
constexpr DType kDTypeOf<uint8_t> = kBool;

}  // namespace

HostTensor::HostTensor(Shape shape, DType dtype)
    : shape_(std::move(shape)),
      dtype_(dtype),
      bytes_(shape_.num_elements() * DTypeSize(dtype)) {}

template <class T>
HostTensor HostTensor::Of(Shape shape, const std::vector<T>& values) {
  HostTensor tensor(std::move(shape), kDTypeOf<T>);
  MTF_CHECK_EQ(static_cast<int64_t>(values.size()), tensor.num_elements())
      << "values for [" << tensor.shape().ToString() << "]";
  if (!values.empty()) {
    std::memcpy(tensor.data(), values.data(), tensor.num_bytes());
  }
  return tensor;
}
template HostTensor HostTensor::Of(Shape, const std::vector<float>&);
template HostTensor HostTensor::Of(Shape, const std::vector<int32_t>&);
template HostTensor HostTensor::Of(Shape, const std::vector<int64_t>&);
template HostTensor HostTensor::Of(Shape, const std::vector<uint8_t>&);

HostTensor HostTensor::FromDoubles(Shape shape, DType dtype,
                                   absl::Span<const double> values) {
  HostTensor tensor(std::move(shape), dtype);
  MTF_CHECK_EQ(static_cast<int64_t>(values.size()), tensor.num_elements())
      << "values for [" << tensor.shape().ToString() << "]";
  for (size_t i = 0; i < values.size(); ++i) {
    StoreElement(tensor.data(), dtype, static_cast<int64_t>(i), values[i]);
  }
  return tensor;
}

double HostTensor::At(int64_t i) const {
  return LoadElement(data(), dtype_, i);
}

std::vector<double> HostTensor::ToDoubles() const {
  std::vector<double> values(num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = At(i);
  return values;
}

double LoadElement(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case kFloat32:
      return static_cast<const float*>(data)[i];
    case kBFloat16:
      return ToFloat(static_cast<const BFloat16*>(data)[i]);
    case kFloat16:
      return ToFloat(static_cast<const Float16*>(data)[i]);
    case kInt32:
      return static_cast<const int32_t*>(data)[i];
    case kInt64:
      return static_cast<double>(static_cast<const int64_t*>(data)[i]);
    case kBool:
      return static_cast<const uint8_t*>(data)[i] != 0;
  }
  return 0;
}

namespace {

template <class Int>
Int Saturated(double value) {
  using Limits = std::numeric_limits<Int>;
  if (std::isnan(value)) return 0;
  // The least integer is a power of two, so a double represents it and its
  // negative exactly.
  const double least = static_cast<double>(Limits::min());
  if (value <= least) return Limits::min();
  if (value >= -least) return Limits::max();
  return static_cast<Int>(value);
}

}  // namespace

void StoreElement(void* data, DType dtype, int64_t i, double value) {
  switch (dtype) {
    case kFloat32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      break;
    case kBFloat16:
      static_cast<BFloat16*>(data)[i] = ToBFloat16(static_cast<float>(value));
      break;
    case kFloat16:
      static_cast<Float16*>(data)[i] = ToFloat16(static_cast<float>(value));
      break;
    case kInt32:
      static_cast<int32_t*>(data)[i] = Saturated<int32_t>(value);
      break;
    case kInt64:
      static_cast<int64_t*>(data)[i] = Saturated<int64_t>(value);
      break;
    case kBool:
      static_cast<uint8_t*>(data)[i] = value != 0;
      break;
  }
}

double RoundToDType(double value, DType dtype) {
  int64_t bits = 0;
  StoreElement(&bits, dtype, 0, value);
  return LoadElement(&bits, dtype, 0);
}

}  // namespace mtf
