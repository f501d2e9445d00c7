// SPDX-License-Identifier: Apache-2.0
#include "mtf/host_tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "mtf/errors.h"
#include "mtf/half.h"
#include "mtf/status.h"

namespace mtf {
namespace {

template <class T>
constexpr DType kDTypeOf = kFloat32;
template <>
constexpr DType kDTypeOf<BFloat16> = kBFloat16;
template <>
constexpr DType kDTypeOf<Float16> = kFloat16;
template <>
constexpr DType kDTypeOf<int32_t> = kInt32;
template <>
constexpr DType kDTypeOf<int64_t> = kInt64;
template <>
constexpr DType kDTypeOf<uint8_t> = kBool;

absl::string_view CppName(DType dtype) {
  switch (dtype) {
    case kFloat32:
      return "float";
    case kBFloat16:
      return "BFloat16";
    case kFloat16:
      return "Float16";
    case kInt32:
      return "int32_t";
    case kInt64:
      return "int64_t";
    case kBool:
      return "uint8_t";
  }
  return "";
}

std::string Site(std::source_location location) {
  return absl::StrCat(" (", CallSite::Of(location).ToString(), ")");
}

// Checks that `shape` has `size` elements.
absl::Status CheckCount(size_t size, DType dtype, const Shape& shape,
                        std::source_location location) {
  if (static_cast<int64_t>(size) == shape.num_elements()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      size, " values for the ", shape.num_elements(), " elements of ",
      DescribeTensor(dtype, shape), Site(location),
      "\n  help     pass one value for each element, in row-major order"));
}

absl::Status CheckRead(const HostTensor& tensor, DType dtype,
                       std::source_location location) {
  MTF_RETURN_IF_ERROR(tensor.status());
  if (tensor.dtype() == dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("values<", CppName(dtype), "> of ",
                   DescribeTensor(tensor.dtype(), tensor.shape()),
                   Site(location), "\n  help     read values<",
                   CppName(tensor.dtype()), ">, or ToDoubles()"));
}

}  // namespace

HostTensor::HostTensor(Shape shape, DType dtype)
    : dtype_(dtype), status_(shape.Validate()) {
  if (status_.ok()) shape_ = std::move(shape);
  bytes_.resize(shape_.num_elements() * DTypeSize(dtype));
}

template <class T>
HostTensor HostTensor::Of(Shape shape, const std::vector<T>& values,
                          std::source_location location) {
  HostTensor tensor(std::move(shape), kDTypeOf<T>);
  if (!tensor.status_.ok()) return tensor;
  tensor.status_ =
      CheckCount(values.size(), tensor.dtype_, tensor.shape_, location);
  if (tensor.status_.ok() && !values.empty()) {
    std::memcpy(tensor.data(), values.data(), tensor.num_bytes());
  }
  return tensor;
}

HostTensor HostTensor::FromDoubles(Shape shape, DType dtype,
                                   absl::Span<const double> values,
                                   std::source_location location) {
  HostTensor tensor(std::move(shape), dtype);
  if (!tensor.status_.ok()) return tensor;
  tensor.status_ = CheckCount(values.size(), dtype, tensor.shape_, location);
  if (!tensor.status_.ok()) return tensor;
  for (size_t i = 0; i < values.size(); ++i) {
    StoreElement(tensor.data(), dtype, static_cast<int64_t>(i), values[i]);
  }
  return tensor;
}

absl::StatusOr<double> HostTensor::At(int64_t i,
                                      std::source_location location) const {
  MTF_RETURN_IF_ERROR(status_);
  if (i >= 0 && i < num_elements()) return LoadElement(data(), dtype_, i);
  return absl::OutOfRangeError(
      absl::StrCat("element ", i, " of the ", num_elements(), " elements of ",
                   DescribeTensor(dtype_, shape_), Site(location)));
}

std::vector<double> HostTensor::ToDoubles() const {
  std::vector<double> values(num_elements());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadElement(data(), dtype_, static_cast<int64_t>(i));
  }
  return values;
}

template <class T>
absl::StatusOr<absl::Span<const T>> HostTensor::values(
    std::source_location location) const {
  MTF_RETURN_IF_ERROR(CheckRead(*this, kDTypeOf<T>, location));
  return absl::MakeConstSpan(static_cast<const T*>(data()),
                             static_cast<size_t>(num_elements()));
}

template <class T>
absl::StatusOr<absl::Span<T>> HostTensor::mutable_values(
    std::source_location location) {
  MTF_RETURN_IF_ERROR(CheckRead(*this, kDTypeOf<T>, location));
  return absl::MakeSpan(static_cast<T*>(data()),
                        static_cast<size_t>(num_elements()));
}

#define MTF_ELEMENT_TYPE(T)                                          \
  template HostTensor HostTensor::Of(Shape, const std::vector<T>&,   \
                                     std::source_location);          \
  template absl::StatusOr<absl::Span<const T>> HostTensor::values(   \
      std::source_location) const;                                   \
  template absl::StatusOr<absl::Span<T>> HostTensor::mutable_values( \
      std::source_location);
MTF_ELEMENT_TYPE(float)
MTF_ELEMENT_TYPE(BFloat16)
MTF_ELEMENT_TYPE(Float16)
MTF_ELEMENT_TYPE(int32_t)
MTF_ELEMENT_TYPE(int64_t)
MTF_ELEMENT_TYPE(uint8_t)
#undef MTF_ELEMENT_TYPE

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
