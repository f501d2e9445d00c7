// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/interpreter_elements.h"

#include <limits>

#include "mtf/check.h"

namespace mtf::oracle {
namespace {

double Lowest(DType dtype) {
  if (dtype == kInt32) return std::numeric_limits<int32_t>::min();
  if (dtype == kInt64) return -0x1p63;
  return -std::numeric_limits<double>::infinity();
}

double Highest(DType dtype) {
  if (dtype == kInt32) return std::numeric_limits<int32_t>::max();
  if (dtype == kInt64) return 0x1p63 - 1024;  // the last double below 2^63
  return std::numeric_limits<double>::infinity();
}

}  // namespace

OracleTensor Filled(DType dtype, const Shape& shape, double value) {
  return {shape, dtype, std::vector<double>(shape.num_elements(), value)};
}

std::vector<int64_t> Strides(const Shape& tensor, const Shape& space) {
  std::vector<int64_t> strides(space.rank(), 0);
  int64_t stride = 1;
  for (int i = tensor.rank() - 1; i >= 0; --i) {
    const int dim = space.Find(tensor[i].name);
    if (dim >= 0) {
      MTF_CHECK_EQ(space[dim].size, tensor[i].size) << tensor[i].name;
      strides[dim] = stride;
    }
    stride *= tensor[i].size;
  }
  return strides;
}

int64_t StrideOf(const Shape& tensor, const std::string& dimension) {
  int64_t stride = 1;
  for (int i = tensor.rank() - 1; tensor[i].name != dimension; --i) {
    stride *= tensor[i].size;
  }
  return stride;
}

std::vector<int64_t> StridesOf(const Shape& tensor, const Shape& dims) {
  std::vector<int64_t> strides;
  for (const Dimension& dim : dims) {
    strides.push_back(StrideOf(tensor, dim.name));
  }
  return strides;
}

double StartOf(ReduceKind kind, DType dtype) {
  switch (kind) {
    case ReduceKind::kSum:
      return 0;
    case ReduceKind::kMax:
      return Lowest(dtype);
    case ReduceKind::kMin:
      return Highest(dtype);
  }
  MTF_CHECK(false) << "unknown ReduceKind";
}

}  // namespace mtf::oracle
