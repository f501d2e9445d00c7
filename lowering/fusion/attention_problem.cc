// SPDX-License-Identifier: Apache-2.0
//
// The shared object of the CUDA driver is built with this file too, and with
// nothing else of lowering.
#include "lowering/fusion/attention_problem.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtf {

double AttentionProblem::Flops() const {
  const double rows = static_cast<double>(length),
               columns = static_cast<double>(memory);
  double seen = rows * columns;
  if (causal) {
    // Row i sees i + 1 places, and all of them from row `memory` on.
    const double growing = std::min(rows, columns);
    seen = growing * (growing + 1) / 2 + (rows - growing) * columns;
  }
  const double product =
      2 * static_cast<double>(batch * heads) * seen * static_cast<double>(d);
  return (backward ? 5 : 2) * product;
}

int64_t AttentionProblem::Bytes() const {
  const int64_t heads_of_all = batch * heads;
  const int64_t of_length = heads_of_all * length * d * DTypeSize(dtype);
  const int64_t of_memory = heads_of_all * memory * d * DTypeSize(dtype);
  const int64_t per_row = heads_of_all * length * 4;
  // q, o and k, v; backward d_q, d_o and d_k, d_v besides.
  return (backward ? 2 : 1) * 2 * (of_length + of_memory) + per_row +
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
  constexpr int64_t kWidest = 256;
  if (problem.dtype != kBFloat16 && problem.dtype != kFloat16) {
    return absl::UnimplementedError(
        absl::StrCat("it is computed in ", DTypeName(problem.dtype),
                     ", and fused kernels take bf16 and f16"));
  }
  if (problem.d % 8 != 0 || problem.d > kWidest) {
    return absl::UnimplementedError(absl::StrCat(
        "a head has ", problem.d,
        " places, and fused kernels take multiples of 8 up to ", kWidest));
  }
  if (problem.length < 2 || problem.memory < 2) {
    return absl::UnimplementedError(
        absl::StrCat("its lengths are ", problem.length, " and ",
                     problem.memory, ", and fused kernels take those above 1"));
  }
  // The largest score is then the largest product, which they look for.
  if (!(problem.scale > 0) || std::isinf(problem.scale)) {
    return absl::UnimplementedError(absl::StrFormat(
        "its scores are scaled by %g, and fused kernels take positive numbers",
        problem.scale));
  }
  return absl::OkStatus();
}

}  // namespace mtf
