// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_SPLIT_H_
#define OPS_SPLIT_H_

#include <cstdint>
#include <source_location>
#include <vector>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Splits `x` along `dim` into consecutive tensors of the given sizes, each with
// `dim` in its size. Any dtype. Concat is the inverse and the gradient.
//
//   // [batch, d_qkv:96] -> three of [batch, d_qkv:32]
//   std::vector<Tensor> qkv = Split(x, "d_qkv", {32, 32, 32});
//
// Records kInvalidArgument in the graph if `x` lacks `dim`, a size is negative,
// or the sizes do not add up to that of `dim`. Returns as many empty Tensors if
// `x` is empty.
std::vector<Tensor> Split(
    Tensor x, absl::string_view dim, std::vector<int64_t> sizes,
    std::source_location location = std::source_location::current());

// As above, into `parts` tensors of equal size. Also records kInvalidArgument
// if `parts` is less than 1 or does not divide the size of `dim`.
//
//   std::vector<Tensor> qkv = Split(x, "d_qkv", 3);
std::vector<Tensor> Split(
    Tensor x, absl::string_view dim, int64_t parts,
    std::source_location location = std::source_location::current());

// The elements of `x` along `dim`, each without `dim`, in order. Stack is the
// inverse and the gradient.
//
//   // [time:2, batch] -> two of [batch]
//   std::vector<Tensor> steps = Unstack(x, "time");
//
// Records kInvalidArgument in the graph if `x` lacks `dim`. Returns no tensors
// if `x` is empty.
std::vector<Tensor> Unstack(
    Tensor x, absl::string_view dim,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_SPLIT_H_
