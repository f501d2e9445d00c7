// SPDX-License-Identifier: Apache-2.0
//
// Lesson 3: uneven sizes.
//
// The size of a dimension need not be a multiple of the size of a mesh axis.
// Thirteen rows on three devices are stored in shards of five rows:
//
//   rank 0   rows  0..4
//   rank 1   rows  5..9
//   rank 2   rows 10..12 and two rows of padding
//
// Programs never see the padding. It does not enter sums, maxima or gradients,
// and a tensor that is returned to the host has thirteen rows. This lesson
// prints the shards and shows that a sum, a mean and a minimum over uneven
// shards are those of one device, even if a device holds no row.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

absl::Status ShowShards(int64_t rows, const std::string& mesh) {
  const Dimension row{"row", rows}, column{"column", 2};
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {row, column});
  // Exp(0) is 1, so padding with zeros would change the sum if it were not
  // masked.
  Tensor y = Exp(x);
  Tensor sum = ReduceSum(y, {});
  Tensor mean = ReduceMean(y, {});
  Tensor smallest = ReduceMin(y, {});

  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::Session::Create(graph, mesh, "row:rows"));
  const HostTensor zeros(x.shape(), kFloat32);
  const train::RunRequest request = {.feeds = {{"x", zeros}},
                                     .fetches = {y, sum, mean, smallest}};

  // Run returns complete tensors under every layout.
  MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                       session->Run(request));
  std::cout << absl::StrFormat("%d rows on %s: sum %g, mean %g, minimum %g\n",
                               rows, mesh, *values[1].At(0), *values[2].At(0),
                               *values[3].At(0));

  // RunShards returns the shard of each device, without the padding.
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
  // Sizes that divide need no padding.
  MTF_RETURN_IF_ERROR(ShowShards(12, "rows:3"));
  // Other sizes need a little.
  MTF_RETURN_IF_ERROR(ShowShards(13, "rows:3"));
  // With fewer rows than devices, some devices hold only padding.
  MTF_RETURN_IF_ERROR(ShowShards(2, "rows:4"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 3: uneven sizes.",
                             &mtf::Lesson);
}
