// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_WEIGHTS_ADAPTER_PRODUCT_H_
#define TRAIN_WEIGHTS_ADAPTER_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mtf/graph.h"
#include "nn/layers/adapter.h"
#include "train/checkpoint/element_range.h"
#include "train/session/session.h"

namespace mtf::train {

// What an adapter adds to its kernel: scale * A * B, summed over the rank.
class AdapterProduct {
 public:
  // Reads A and B, which are small, completely in each process. Collective.
  static absl::StatusOr<AdapterProduct> Read(
      Session& session, const VariableInfo& kernel,
      const nn::internal::AdapterVariables& adapter);

  // Adds the elements `ranges` to those of the kernel, which are row-major.
  void AddTo(const ElementRanges& ranges, absl::Span<float> kernel) const;

 private:
  AdapterProduct() = default;
  Shape shape_;  // of the kernel
  KernelDims dims_;
  int64_t rank_ = 0;
  double scale_ = 0;
  std::vector<float> a_, b_;  // [each, fan_in, rank], [each, rank, output]
};

// The value of a parameter before rounding: of its master copy if it has one.
absl::StatusOr<std::vector<float>> ReadParameter(Session& session,
                                                 const VariableInfo& info);

}  // namespace mtf::train

#endif  // TRAIN_WEIGHTS_ADAPTER_PRODUCT_H_
