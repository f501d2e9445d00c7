// SPDX-License-Identifier: Apache-2.0
//
// Lesson 1: two layers.
//
// A tensor has no first or second axis here. It has dimensions, and a
// dimension is a name with a size. Operations find each other's dimensions by
// name: multiply [batch, io] with [io, hidden], ask for [batch, hidden], and
// "io" is what gets summed. No transposes, no axis numbers, no broadcasting
// rules to remember.
//
// This lesson trains the smallest network that learns anything: two layers
// that imitate a function.
#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "nn/optimizers/sgd.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "train/loop/flags.h"
#include "train/loop/run_main.h"
#include "train/session/session.h"

namespace mtf {
namespace {

absl::Status Lesson() {
  // The names are the vocabulary of the whole program.
  const Dimension batch{"batch", 64}, io{"io", 4}, hidden{"hidden", 32};

  // A graph holds what is to be computed. Nothing runs while it is built.
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {batch, io});
  Tensor wanted = Input(graph, "wanted", kFloat32, {batch, io});

  // A variable outlives a step. Its initial value is a tensor like any other:
  // here random numbers that depend on a seed and on nothing else.
  Tensor w1 = Variable(graph, "w1", RandomNormal(graph, {io, hidden}, 0, 0.5));
  Tensor bias = Variable(graph, "bias", RandomNormal(graph, {hidden}, 0, 0.1));
  Tensor w2 = Variable(graph, "w2", RandomNormal(graph, {hidden, io}, 0, 0.2));

  // Read the shapes: "io" meets "io" and is summed, because the result does
  // not name it. The bias has no "batch", so every row gets the same one.
  Tensor h = Tanh(Einsum({x, w1}, {batch, hidden}) + bias);
  Tensor y = Einsum({h, w2}, {batch, io});
  Tensor loss = ReduceMean(Square(y - wanted), {});

  // Gradients are more operations in the same graph, and so is the update.
  Tensor step = nn::Sgd({.learning_rate = 0.5, .momentum = 0.9}).Minimize(loss);

  // What a step returns, and what it changes.
  train::RunRequest request = {.fetches = {loss}, .updates = {step}};

  // A session runs a graph. The flags --mesh_shape and --layout say where:
  // without them, on one device. Lesson 2 is about them. With --explain, what a
  // step would cost is printed instead, and there is no session.
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::StartSession(graph, request));
  if (session == nullptr) return absl::OkStatus();

  // What the network is to learn: the square of each number.
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
    // A step feeds the inputs by name and returns what was asked for. A wrong
    // feed, or a wrong line above, would come back as a Status that names the
    // tensor, its dimensions and the line.
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> values,
                         session->Run(request));
    last = values[0].At(0);
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
