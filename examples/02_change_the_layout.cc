// SPDX-License-Identifier: Apache-2.0
//
// Lesson 2: change the layout.
//
// Two texts say where a program runs:
//
//   mesh     "data:2,model:2"            the devices, as a grid with named axes
//   layout   "batch:data, hidden:model"  which dimension is cut over which axis
//
//            model 0    model 1
//   data 0   rank 0     rank 1       rank 0 holds the first half of the batch
//   data 1   rank 2     rank 3       and the first half of the hidden units
//
// From graph, mesh and layout the library derives what every device computes
// and what the devices must tell each other. This lesson runs one program under
// five layouts. The losses stay the same; what changes is the communication,
// which the session counts.
//
// Without a launcher, as here, the devices are threads of this process. Under
// "mtfrun -n 4 PROGRAM" they are four processes. The program cannot tell.
#include <cmath>
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

struct Place {
  const char* what;
  const char* mesh;
  const char* layout;
};

constexpr Place kPlaces[] = {
    // Everything on one device: what the others are compared with.
    {"one device", "", ""},
    // Each device has half of the rows. The weights are everywhere, so their
    // gradients must be summed over the devices: all_reduce.
    {"data parallel", "data:2", "batch:data"},
    // Each device has half of the hidden units, and with them half of both
    // weights, which never move. "y" sums over hidden units, so it is what
    // must be summed over the devices.
    {"model parallel", "model:2", "hidden:model"},
    // Both at once, on a grid of four.
    {"both", "data:2,model:2", "batch:data, hidden:model"},
    // One dimension over two axes: eight rows on each of four devices.
    {"two axes", "a:2,b:2", "batch:a+b"},
};

absl::Status Lesson() {
  // A place of your own, by --mesh_shape and --layout: with --explain, what a
  // step costs there and why, line by line, instead of the lesson.
  Graph yours;
  const Program own = Build(yours);
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> there,
                       train::StartSession(yours, {.fetches = {own.loss},
                                                   .updates = {own.step}}));
  if (there == nullptr) return absl::OkStatus();

  double reference = 0;
  for (const Place& place : kPlaces) {
    Graph graph;
    const Program program = Build(graph);
    MTF_ASSIGN_OR_RETURN(
        const std::unique_ptr<train::Session> session,
        train::Session::Create(graph, place.mesh, place.layout));
    MTF_RETURN_IF_ERROR(session->Initialize());

    std::vector<double> numbers;
    for (int i = 0; i < program.x.shape().num_elements(); ++i) {
      numbers.push_back(std::sin(i));
    }
    double loss = 0;
    for (int i = 0; i < 20; ++i) {
      // Count the communication of one step only: the last.
      session->ResetCounts();
      MTF_ASSIGN_OR_RETURN(
          const std::vector<HostTensor> values,
          session->Run(
              {.feeds = {{"x", HostTensor::FromDoubles(program.x.shape(),
                                                       kFloat32, numbers)}},
               .fetches = {program.loss},
               .updates = {program.step}}));
      loss = values[0].At(0);
    }
    if (reference == 0) reference = loss;

    int64_t calls = 0, bytes = 0;
    for (const auto& [kind_and_axes, count] : session->counts()) {
      calls += count.calls;
      bytes += count.bytes;
    }
    // Sums over devices are taken in another order than sums on one, so the
    // last bits of a float may differ. Nothing else does.
    const bool same = std::abs(loss - reference) < 1e-5 * reference;
    std::cout << absl::StrFormat(
        "%-14s  loss %.6f  %s  in a step: collectives %d, bytes %d\n",
        place.what, loss, same ? "same" : "DIFFERENT", calls, bytes);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Lesson 2: change the layout.",
                             &mtf::Lesson);
}
