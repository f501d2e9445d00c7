// SPDX-License-Identifier: Apache-2.0
//
// Also compiled into the shared object of the CUDA driver, which contains
// nothing else of lowering/.
#include "lowering/program/attention_problem.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtf {

double AttentionProblem::Flops() const {
  const double rows = static_cast<double>(length),
               columns = static_cast<double>(memory);
  double visible = rows * columns;
  if (causal) {
    // Row i attends to i + 1 positions, rows from `memory` on to all.
    const double growing = std::min(rows, columns);
    visible = growing * (growing + 1) / 2 + (rows - growing) * columns;
  }
  const double product =
      2 * static_cast<double>(batch * heads) * visible * static_cast<double>(d);
  return (backward ? 5 : 2) * product;
}

int64_t AttentionProblem::Bytes() const {
  const int64_t all_heads = batch * heads;
  const int64_t length_bytes = all_heads * length * d * DTypeSize(dtype);
  const int64_t memory_bytes = all_heads * memory * d * DTypeSize(dtype);
  const int64_t row_bytes = all_heads * length * 4;
  // Forward q, o, k and v; backward also d_q, d_o, d_k and d_v.
  return (backward ? 2 : 1) * 2 * (length_bytes + memory_bytes) + row_bytes +
         BiasElements() * (backward ? 4 : 8);
}

int64_t AttentionProblem::BiasRows() const {
  if (!bias.given) return 0;
  return (bias.batch ? batch : 1) * (bias.heads ? heads : 1) *
         (bias.length ? length : 1);
}

std::string AttentionProblem::ToString() const {
  std::string text =
      absl::StrCat(DTypeName(dtype), " batch ", batch, " heads ", heads,
                   " length ", length, " memory ", memory, " d ", d);
  for (const auto& [name, strides] : {std::pair<const char*, Strides>{"q", q},
                                      {"k", k},
                                      {"v", v},
                                      {"o", o}}) {
    absl::StrAppend(&text, " ", name, " ", strides.batch, "/", strides.heads,
                    "/", strides.length);
  }
  absl::StrAppendFormat(&text, " scale %.9g", scale);
  if (bias.given) {
    absl::StrAppend(&text, " bias ", bias.batch ? "b" : "",
                    bias.heads ? "h" : "", bias.length ? "l" : "", "m");
  }
  absl::StrAppend(&text, causal ? " causal" : "", backward ? " backward" : "",
                  reproducible ? " reproducible" : "");
  return text;
}

absl::Status CheckFusedAttention(const AttentionProblem& problem) {
  constexpr int64_t kMaxHeadSize = 256;
  if (problem.dtype != kBFloat16 && problem.dtype != kFloat16) {
    return absl::UnimplementedError(
        absl::StrCat("it is computed in ", DTypeName(problem.dtype),
                     ", and fused kernels take bf16 and f16"));
  }
  if (problem.d % 8 != 0 || problem.d > kMaxHeadSize) {
    return absl::UnimplementedError(
        absl::StrCat("a head has ", problem.d,
                     " elements, and fused kernels take multiples of 8 up to ",
                     kMaxHeadSize));
  }
  if (problem.length < 2 || problem.memory < 2) {
    return absl::UnimplementedError(
        absl::StrCat("its lengths are ", problem.length, " and ",
                     problem.memory, ", and fused kernels take those above 1"));
  }
  // With a positive scale the largest score is the largest product, which the
  // kernels look for.
  if (!(problem.scale > 0) || std::isinf(problem.scale)) {
    return absl::UnimplementedError(absl::StrFormat(
        "its scores are scaled by %g, and fused kernels take positive numbers",
        problem.scale));
  }
  if (!problem.backward) return absl::OkStatus();
  constexpr int64_t kTile = 128;
  if (problem.causal && problem.length > problem.memory) {
    return absl::UnimplementedError(absl::StrCat(
        "it is causal with ", problem.length, " queries and ", problem.memory,
        " keys, and the gradient of fused kernels takes no more queries than "
        "keys"));
  }
  if (!problem.causal && problem.memory % kTile == kTile / 2) {
    return absl::UnimplementedError(absl::StrCat(
        "it has ", problem.memory, " keys, and the gradient of fused kernels ",
        "is not safe if half a tile of ", kTile, " is left"));
  }
  return absl::OkStatus();
}

}  // namespace mtf
