// SPDX-License-Identifier: Apache-2.0
//
// Accumulates gradients over four small batches before each update, and
// compares the parameters with those of training on the large batches.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, hidden:model
//
// Missing: microbatches as text in the layout. Here the program has the
// accumulators, and an f16 model would have to scale its loss by itself.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
using namespace mtf;

constexpr int kParts = 4;
const Dimension io{"io", 5}, hidden{"hidden", 24};

struct Model {
  explicit Model(int64_t rows) : batch{"batch", rows} {
    x = Input(graph, "x", kFloat32, {batch, io});
    Tensor h = nn::Dense(x, {io}, {hidden}, {.activation = Gelu});
    loss = ReduceMean(Square(nn::Dense(h, {hidden}, {io}) - x * x), {});
    for (const auto& info : graph.variables()) parameters.push_back(info.read);
    gradients = Gradients(loss, parameters);
  }
  // The rows of one part of a step.
  std::map<std::string, HostTensor> Rows(int step, int part) const {
    std::vector<float> values;
    for (int64_t i = 0; i < batch.size * io.size; ++i) {
      const int64_t j = i + part * batch.size * io.size;
      values.push_back(std::sin(j * 12.9898 + step * 78.233));
    }
    return {{"x", HostTensor::Of<float>({batch, io}, values)}};
  }
  Graph graph;
  Dimension batch;
  Tensor x, loss;
  std::vector<Tensor> parameters, gradients;
};

absl::Status Accumulate() {
  const nn::AdamW optimizer({.learning_rate = 0.01, .max_gradient_norm = 0.5});
  Model large(8 * kParts);
  Tensor large_step = optimizer.Apply(large.gradients, large.parameters);

  Model small(8);
  std::vector<Tensor> means, additions, resets;
  for (size_t i = 0; i < small.parameters.size(); ++i) {
    Tensor zeros = Like(small.parameters[i], 0);
    Tensor sum =
        Variable(small.graph, absl::StrCat("sum_", i), zeros,
                 {.kind = VariableKind::kOptimizerState, .trainable = false});
    additions.push_back(Assign(sum, sum + small.gradients[i]));
    means.push_back(sum * (1.0 / kParts));
    resets.push_back(Assign(sum, zeros));
  }
  resets.push_back(optimizer.Apply(means, small.parameters));
  Tensor add = Group(small.graph, additions);
  Tensor update = Group(small.graph, resets);

  train::RunRequest request = {.fetches = {large.loss},
                               .updates = {large_step}};
  MTF_ASSIGN_OR_RETURN(auto whole, train::StartSession(large.graph, request));
  MTF_ASSIGN_OR_RETURN(auto parts,
                       train::StartSession(small.graph, {.updates = {add}}));
  for (int i = 0; i < 12; ++i) {
    request.feeds = large.Rows(i, 0);
    MTF_ASSIGN_OR_RETURN(auto values, whole->Run(request));
    MTF_ASSIGN_OR_RETURN(const double loss, values[0].At(0));
    if (i % 4 == 0) train::Say(absl::StrFormat("result loss %.9f", loss));
    for (int part = 0; part < kParts; ++part) {
      MTF_RETURN_IF_ERROR(
          parts->Run({.feeds = small.Rows(i, part), .updates = {add}})
              .status());
    }
    MTF_RETURN_IF_ERROR(parts->Run({.updates = {update}}).status());
  }
  for (const VariableInfo& info : large.graph.variables()) {
    if (!info.trainable) continue;
    MTF_ASSIGN_OR_RETURN(const HostTensor a, whole->ReadVariable(info.name));
    MTF_ASSIGN_OR_RETURN(const HostTensor b, parts->ReadVariable(info.name));
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      if (!(std::abs(*a.At(i) - *b.At(i)) <= 1e-5)) {
        return absl::InternalError(absl::StrCat(info.name, " differs"));
      }
    }
  }
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  return train::RunMain(argc, argv, "Accumulates gradients.", &Accumulate);
}
