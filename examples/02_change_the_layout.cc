// SPDX-License-Identifier: Apache-2.0
//
// Lesson 2: change the layout.
//
// Two texts distribute a program over devices:
//
//   mesh     "data:2,model:2"            the devices, as a grid with named axes
//   layout   "batch:data, hidden:model"  dimensions sharded over mesh axes
//
//            model 0    model 1
//   data 0   rank 0     rank 1       rank 0 holds the first half of the batch
//   data 1   rank 2     rank 3       and the first half of the hidden units
//
// From graph, mesh and layout the library derives what every device computes
// and which collectives are needed. This lesson runs one program under five
// layouts. The losses are the same; only the communication differs, which the
// session counts.
//
// Without a launcher, as here, the devices are threads of this process. Under
// "mtfrun -n 4 PROGRAM" they are four processes. The program does not change.
#include <cmath>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

struct Program {
  Tensor x, loss, step;
};

// The two layers of lesson 1. No layout, no device, no rank.
Program Build(Graph& graph) {
  const Dimension batch{"batch", 32}, io{"io", 8}, hidden{"hidden", 64};
  Tensor x = Input(graph, "x", kFloat32, {batch, io});
  Tensor w1 = Variable(graph, "w1", RandomNormal(graph, {io, hidden}, 0, 0.3));
  Tensor w2 = Variable(graph, "w2", RandomNormal(graph, {hidden, io}, 0, 0.3));
  Tensor h = Relu(Einsum({x, w1}, {batch, hidden}));
  Tensor y = Einsum({h, w2}, {batch, io});
  Tensor loss = ReduceMean(Square(y - x), {});
  return {x, loss, nn::Sgd({.learning_rate = 0.1}).Minimize(loss)};
}

struct Distribution {
  const char* name;
  const char* mesh;
  const char* layout;
};

constexpr Distribution kDistributions[] = {
    // Everything on one device, to compare the others with.
    {"one device", "", ""},
    // Each device has half of the rows. The weights are replicated, so their
    // gradients are summed over the devices by an all_reduce.
    {"data parallel", "data:2", "batch:data"},
    // Each device has half of the hidden units, and so half of both weights,
    // which are never sent. "y" is a sum over hidden units, so it is summed
    // over the devices by an all_reduce.
    {"model parallel", "model:2", "hidden:model"},
    // Both at once, on four devices.
    {"both", "data:2,model:2", "batch:data, hidden:model"},
    // One dimension sharded over two axes: eight rows on each of four devices.
    {"two axes", "a:2,b:2", "batch:a+b"},
};

absl::Status Lesson() {
  // With --explain, print what a step costs and why under --mesh_shape and
  // --layout, instead of the lesson.
  Graph explained_graph;
  const Program explained = Build(explained_graph);
  MTF_RETURN_IF_ERROR(
      train::StartSession(explained_graph, {.fetches = {explained.loss},
                                            .updates = {explained.step}})
          .status());

  double reference = 0;
  for (const Distribution& distribution : kDistributions) {
    Graph graph;
    const Program program = Build(graph);
    MTF_ASSIGN_OR_RETURN(
        const std::unique_ptr<train::Session> session,
        train::Session::Create(graph, distribution.mesh, distribution.layout));
    MTF_RETURN_IF_ERROR(session->Initialize());

    std::vector<double> numbers;
    for (int i = 0; i < program.x.shape().num_elements(); ++i) {
      numbers.push_back(std::sin(i));
    }
    double loss = 0;
    for (int i = 0; i < 20; ++i) {
      // Count the communication of the last step only.
      session->ResetCounts();
      MTF_ASSIGN_OR_RETURN(
          const std::vector<HostTensor> values,
          session->Run(
              {.feeds = {{"x", HostTensor::FromDoubles(program.x.shape(),
                                                       kFloat32, numbers)}},
               .fetches = {program.loss},
               .updates = {program.step}}));
      MTF_ASSIGN_OR_RETURN(loss, values[0].At(0));
    }
    if (reference == 0) reference = loss;

    int64_t calls = 0, bytes = 0;
    for (const auto& [kind_and_axes, count] : session->counts()) {
      calls += count.calls;
      bytes += count.bytes;
    }
    // Sums over devices are taken in another order than on one device, so the
    // last bits of a float may differ.
    const bool same = std::abs(loss - reference) < 1e-5 * reference;
    std::cout << absl::StrFormat(
        "%-14s  loss %.6f  %s  in a step: collectives %d, bytes %d\n",
        distribution.name, loss, same ? "same" : "DIFFERENT", calls, bytes);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 2: change the layout.",
                             &mtf::Lesson);
}
