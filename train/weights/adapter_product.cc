// SPDX-License-Identifier: Apache-2.0
#include "train/weights/adapter_product.h"

#include <cstddef>

#include "mtf/status.h"
#include "train/weights/weight_files.h"

namespace mtf::train {
namespace {

// The indices, row-major, of the elements that `ranges` has of the dimensions
// [begin, end) of `shape`.
std::vector<int64_t> IndicesOf(const Shape& shape, int begin, int end,
                               const ElementRanges& ranges) {
  std::vector<int64_t> indices = {0};
  for (int dim = begin; dim < end; ++dim) {
    std::vector<int64_t> next;
    next.reserve(indices.size() * ranges[dim].size);
    for (const int64_t index : indices) {
      for (int64_t i = 0; i < ranges[dim].size; ++i) {
        next.push_back(index * shape[dim].size + ranges[dim].begin + i);
      }
    }
    indices = std::move(next);
  }
  return indices;
}

int64_t SizeOf(const Shape& shape, int begin, int end) {
  int64_t size = 1;
  for (int dim = begin; dim < end; ++dim) size *= shape[dim].size;
  return size;
}

}  // namespace

absl::StatusOr<std::vector<float>> ReadParameter(Session& session,
                                                 const VariableInfo& info) {
  const int id = info.master >= 0 ? info.master : info.id;
  MTF_ASSIGN_OR_RETURN(
      const HostTensor value,
      session.ReadVariable(session.graph().variables()[id].name));
  return FloatsOf(value.data(), value.dtype(), value.num_elements());
}

absl::StatusOr<AdapterProduct> AdapterProduct::Read(
    Session& session, const VariableInfo& kernel,
    const nn::internal::AdapterVariables& adapter) {
  const auto& variables = session.graph().variables();
  AdapterProduct product;
  product.shape_ = kernel.shape;
  product.dims_ = kernel.kernel;
  product.rank_ = variables[adapter.a].shape.dims().back().size;
  MTF_ASSIGN_OR_RETURN(product.a_,
                       ReadParameter(session, variables[adapter.a]));
  MTF_ASSIGN_OR_RETURN(product.b_,
                       ReadParameter(session, variables[adapter.b]));
  MTF_ASSIGN_OR_RETURN(const std::vector<float> scale,
                       ReadParameter(session, variables[adapter.scale]));
  product.scale_ = scale[0];
  return product;
}

void AdapterProduct::AddTo(const ElementRanges& ranges,
                           absl::Span<float> kernel) const {
  const int outputs = dims_.each + dims_.fan_in, end = shape_.rank();
  const std::vector<int64_t> each = IndicesOf(shape_, 0, dims_.each, ranges),
                             in =
                                 IndicesOf(shape_, dims_.each, outputs, ranges),
                             out = IndicesOf(shape_, outputs, end, ranges);
  const int64_t fan_in = SizeOf(shape_, dims_.each, outputs),
                fan_out = SizeOf(shape_, outputs, end);
  std::vector<double> row(out.size());
  float* next = kernel.data();
  for (const int64_t e : each) {
    for (const int64_t i : in) {
      row.assign(out.size(), 0.0);
      for (int64_t r = 0; r < rank_; ++r) {
        const double a = scale_ * a_[(e * fan_in + i) * rank_ + r];
        const float* b = b_.data() + (e * rank_ + r) * fan_out;
        for (size_t o = 0; o < out.size(); ++o) row[o] += a * b[out[o]];
      }
      for (size_t o = 0; o < out.size(); ++o) {
        next[o] = static_cast<float>(next[o] + row[o]);
      }
      next += out.size();
    }
  }
}

}  // namespace mtf::train
