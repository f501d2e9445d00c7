// SPDX-License-Identifier: Apache-2.0
//
// Lesson 1: two layers.
//
// A tensor has named dimensions: a dimension is a name with a size. Operations
// match dimensions by name. Multiply [batch, io] by [io, hidden], ask for
// [batch, hidden], and the product is summed over "io". There are no
// transposes, no axis numbers and no broadcasting rules to remember.
//
// This lesson trains a small network: two layers that learn a function.
#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

absl::Status Lesson() {
  // The program refers to dimensions by these names.
  const Dimension batch{"batch", 64}, io{"io", 4}, hidden{"hidden", 32};

  // A graph describes a computation. Nothing runs while it is built.
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {batch, io});
  Tensor wanted = Input(graph, "wanted", kFloat32, {batch, io});

  // A variable keeps its value between steps. Its initial value is a tensor
  // like any other, here random numbers that depend only on a seed.
  Tensor w1 = Variable(graph, "w1", RandomNormal(graph, {io, hidden}, 0, 0.5));
  Tensor bias = Variable(graph, "bias", RandomNormal(graph, {hidden}, 0, 0.1));
  Tensor w2 = Variable(graph, "w2", RandomNormal(graph, {hidden, io}, 0, 0.2));

  // The first product is summed over "io", because the result does not name it.
  // The bias has no "batch", so it is broadcast to every row.
  Tensor h = Tanh(Einsum({x, w1}, {batch, hidden}) + bias);
  Tensor y = Einsum({h, w2}, {batch, io});
  Tensor loss = ReduceMean(Square(y - wanted), {});

  // Gradients and updates are operations in the same graph.
  Tensor step = nn::Sgd({.learning_rate = 0.5, .momentum = 0.9}).Minimize(loss);

  // The tensors that a step returns, and the updates that it performs.
  train::RunRequest request = {.fetches = {loss}, .updates = {step}};

  // A session runs a graph, by default on one device. The flags --mesh_shape
  // and --layout, the subject of lesson 2, distribute it over several. With
  // --explain, this prints what a step would cost and ends the program.
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::StartSession(graph, request));

  // The network learns the square of each number.
  std::vector<double> numbers, squares;
  for (int i = 0; i < batch.size * io.size; ++i) {
    numbers.push_back((i * 37 % 101) / 50.0 - 1.0);
    squares.push_back(numbers.back() * numbers.back());
  }
  request.feeds = {
      {"x", HostTensor::FromDoubles({batch, io}, kFloat32, numbers)},
      {"wanted", HostTensor::FromDoubles({batch, io}, kFloat32, squares)}};

  double first = 0, last = 0;
  for (int i = 0; i <= 200; ++i) {
    // A step takes feeds by the names of inputs and returns the fetches. A
    // wrong feed, or an error in a line above, is returned as a Status that
    // names the tensor, its dimensions and the line.
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                         session->Run(request));
    MTF_ASSIGN_OR_RETURN(last, values[0].At(0));
    if (i == 0) first = last;
    if (i % 50 == 0) {
      std::cout << absl::StrFormat("step %3d  loss %.5f\n", i, last);
    }
  }
  std::cout << (last < first / 10 ? "The network has learned to square.\n"
                                  : "The network has not learned.\n");
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 1: two layers.", &mtf::Lesson);
}
