// SPDX-License-Identifier: Apache-2.0
//
// The program of README.md; tests/docs checks that the two texts are equal.
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

absl::Status Learn() {
  const Dimension batch{"batch", 256}, io{"io", 4}, hidden{"hidden", 64};
  Graph graph;
  Tensor x = RandomUniform(graph, {batch, io}, -1, 1);
  Tensor h = nn::Dense(x, {io}, {hidden}, {.activation = Tanh});
  Tensor y = nn::Dense(h, {hidden}, {io});
  Tensor loss = ReduceMean(Square(y - x * x), {});
  Tensor step = nn::AdamW({.learning_rate = 0.02}).Minimize(loss);

  const train::RunRequest request = {.fetches = {loss}, .updates = {step}};
  MTF_ASSIGN_OR_RETURN(auto session, train::StartSession(graph, request));
  for (int i = 0; i < 200; ++i) {
    MTF_ASSIGN_OR_RETURN(auto values, session->Run(request));
    MTF_ASSIGN_OR_RETURN(double error, values[0].At(0));
    train::Say(absl::StrFormat("step %d  loss %.4f", i, error));
  }
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Learns to square numbers.", &Learn);
}
