// SPDX-License-Identifier: Apache-2.0
//
// A small program for tests of sessions: the values of its variables show which
// steps have run.
#ifndef TESTS_TRAIN_SESSION_COUNTING_H_
#define TESTS_TRAIN_SESSION_COUNTING_H_

#include "mtf/dimension.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"

namespace mtf::train {

inline const Dimension kBatch{"batch", 5};
inline const Dimension kIo{"io", 3};

// A step does counter += 1 and total += sum of x.
struct Counting {
  explicit Counting(Graph& graph) {
    x = Input(graph, "x", kFloat32, {kBatch, kIo});
    counter = Variable(graph, "counter", Zeros(graph, kFloat32, {}));
    rows = Variable(graph, "rows", Zeros(graph, kFloat32, {kBatch}));
    y = x * 2.0;
    sum = ReduceSum(x, {kBatch});
    update = Group(graph,
                   {Assign(counter, counter + 1.0), Assign(rows, rows + sum)});
  }
  Tensor x, y, sum, counter, rows, update;
};

inline HostTensor Ascending() {
  HostTensor x({kBatch, kIo}, kFloat32);
  for (int i = 0; i < x.num_elements(); ++i) {
    StoreElement(x.data(), kFloat32, i, i);
  }
  return x;
}

}  // namespace mtf::train

#endif  // TESTS_TRAIN_SESSION_COUNTING_H_
