// SPDX-License-Identifier: Apache-2.0
//
// Lesson 3: uneven sizes.
//
// A dimension need not divide by the mesh. Thirteen rows on three devices?
// Each device gets room for five places:
//
//   rank 0   rows  0..4
//   rank 1   rows  5..9
//   rank 2   rows 10..12 and two places of padding
//
// You never see the padding. It is kept out of sums, maxima and gradients, and
// a tensor that comes back to the host is whole and has thirteen rows. This
// lesson looks at the shards, then shows that a sum, a mean and a maximum over
// uneven shards are those of one device, also where a device holds no row.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "train/loop/run_main.h"
#include "train/session/session.h"

namespace mtf {
namespace {

absl::Status ShowShards(int64_t rows, const std::string& mesh) {
  const Dimension row{"row", rows}, column{"column", 2};
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {row, column});
  // Exp(0) is 1: padding would not stay harmless if nobody looked after it.
  Tensor y = Exp(x);
  Tensor sum = ReduceSum(y, {});
  Tensor mean = ReduceMean(y, {});
  Tensor smallest = ReduceMin(y, {});

  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::Session::Create(graph, mesh, "row:rows"));
  const HostTensor zeros(x.shape(), kFloat32);
  const train::RunRequest request = {.feeds = {{"x", zeros}},
                                     .fetches = {y, sum, mean, smallest}};

  // Run returns whole tensors, whatever the layout ...
  MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> whole,
                       session->Run(request));
  std::cout << absl::StrFormat("%d rows on %s: sum %g, mean %g, minimum %g\n",
                               rows, mesh, whole[1].At(0), whole[2].At(0),
                               whole[3].At(0));

  // ... and RunShards what each device holds of them, without the padding.
  MTF_ASSIGN_OR_RETURN(const auto shards, session->RunShards(request));
  for (const train::TensorShard& shard : shards[0]) {
    const ShardedDimension& rows_here = shard.dims[0];
    std::cout << "  rank " << shard.rank << ": "
              << (rows_here.valid == 0
                      ? "no row"
                      : absl::StrCat("rows ", rows_here.offset, "..",
                                     rows_here.offset + rows_here.valid - 1))
              << ", padding " << rows_here.extent - rows_here.valid << "\n";
  }
  return absl::OkStatus();
}

absl::Status Lesson() {
  // Even sizes need no padding, ...
  MTF_RETURN_IF_ERROR(ShowShards(12, "rows:3"));
  // ... uneven ones a little, ...
  MTF_RETURN_IF_ERROR(ShowShards(13, "rows:3"));
  // ... and fewer rows than devices leave some with nothing to do.
  MTF_RETURN_IF_ERROR(ShowShards(2, "rows:4"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 3: uneven sizes.",
                             &mtf::Lesson);
}
