// SPDX-License-Identifier: Apache-2.0
//
// A program that includes the umbrella header only.
#include <iostream>
#include <string>

#include "mtf/mtf.h"

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
  return *values[0].At(0);
}

// A training step of every kind of layer: whether the umbrella header declares
// them and the package links them.
absl::StatusOr<double> Loss() {
  const mtf::Dimension batch{"batch", 2}, length{"length", 4},
      d_model{"d_model", 8}, d_ff{"d_ff", 16}, heads{"heads", 2},
      d_kv{"d_kv", 4}, vocab{"vocab", 5};
  mtf::Graph graph;
  mtf::Tensor tokens =
      mtf::Broadcast(mtf::Range(graph, length, mtf::kInt32), {batch, length});
  mtf::Tensor x = mtf::nn::Embedding(tokens, vocab, d_model);
  x = x + mtf::nn::SelfAttention(
              mtf::nn::LayerNorm(x, d_model),
              {.length = length, .heads = heads, .d_kv = d_kv, .causal = true});
  x = x + mtf::nn::FeedForward(x, d_ff, mtf::Gelu);
  mtf::Tensor loss = mtf::nn::CrossEntropy(x, vocab, tokens);
  mtf::Tensor step = mtf::nn::Adam().Minimize(loss);
  MTF_ASSIGN_OR_RETURN(const auto session,
                       mtf::train::Session::Create(graph, "", ""));
  MTF_RETURN_IF_ERROR(session->Initialize());
  MTF_ASSIGN_OR_RETURN(const auto values,
                       session->Run({.fetches = {loss}, .updates = {step}}));
  return *values[0].At(0);
}

// Opens the device "cuda", which loads libmtf_cuda.so, and prints its error.
int OpenCuda() {
  mtf::Graph graph;
  mtf::Input(graph, "x", mtf::kFloat32, {{"rows", 4}});
  const auto session =
      mtf::train::Session::Create(graph, "", "", {.backend = "cuda"});
  std::cout << mtf::ErrorText(session.status()) << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "cuda") return OpenCuda();
  const auto one = Sum("", "");
  const auto four = Sum("a:2,b:2", "rows:a, columns:b");
  const auto loss = Loss();
  for (const auto& number : {one, four, loss}) {
    if (!number.ok()) {
      std::cerr << mtf::ErrorText(number.status()) << std::endl;
      return 1;
    }
  }
  if (*one != *four || !(*loss > 0)) return 1;
  std::cout << "sum " << *one << " on 1 and on 4 devices" << std::endl;
}
