// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <string>

#include "mtf/graph.h"
#include "mtf/status.h"
#include "nn/layers/dense.h"
#include "ops/einsum.h"
#include "ops/input.h"
#include "train/session/session.h"

namespace {

// The sum of 0 to 7 by an einsum, on the devices of `mesh`.
absl::StatusOr<double> Sum(const std::string& mesh, const std::string& layout) {
  const mtf::Dimension rows{"rows", 4}, columns{"columns", 2};
  mtf::Graph graph;
  mtf::Tensor x = Input(graph, "x", mtf::kFloat32, {rows, columns});
  mtf::Tensor ones = Input(graph, "ones", mtf::kFloat32, {columns});
  mtf::Tensor sum = mtf::Einsum({x, ones}, {});
  MTF_ASSIGN_OR_RETURN(const auto session,
                       mtf::train::Session::Create(graph, mesh, layout));
  MTF_RETURN_IF_ERROR(session->Initialize());
  const mtf::train::RunRequest request = {
      .feeds = {{"x",
                 mtf::HostTensor::FromDoubles({rows, columns}, mtf::kFloat32,
                                              {0, 1, 2, 3, 4, 5, 6, 7})},
                {"ones", mtf::HostTensor::FromDoubles({columns}, mtf::kFloat32,
                                                      {1, 1})}},
      .fetches = {sum}};
  MTF_ASSIGN_OR_RETURN(const auto values, session->Run(request));
  return values[0].At(0);
}

}  // namespace

int main() {
  const auto one = Sum("", "");
  const auto four = Sum("a:2,b:2", "rows:a, columns:b");
  for (const auto& sum : {one, four}) {
    if (!sum.ok()) {
      std::cerr << mtf::ErrorText(sum.status()) << std::endl;
      return 1;
    }
  }
  if (*one != *four) return 1;
  std::cout << "sum " << *one << " on 1 and on 4 devices" << std::endl;
}
