// SPDX-License-Identifier: Apache-2.0
//
// Accumulates gradients over four small batches before each update, and
// compares the parameters with those of training on the large batches.
//
// Layout: data:2 | batch:data
// Layout: data:2,model:2 | batch:data, hidden:model
//
// Missing: microbatches as text in the layout. Each step here reduces its
// gradients over the devices.
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
  Model(int64_t rows, int64_t accumulate_steps) : batch{"batch", rows} {
    x = Input(graph, "x", kFloat32, {batch, io});
    Tensor h = nn::Dense(x, {io}, {hidden}, {.activation = Gelu});
    loss = ReduceMean(Square(nn::Dense(h, {hidden}, {io}) - x * x), {});
    step = nn::AdamW({.learning_rate = 0.01,
                      .max_gradient_norm = 0.5,
                      .accumulate_steps = accumulate_steps})
               .Minimize(loss);
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
  Tensor x, loss, step;
};

absl::Status Accumulate() {
  const Model large(8 * kParts, 1), small(8, kParts);
  train::RunRequest request = {.fetches = {large.loss},
                               .updates = {large.step}};
  MTF_ASSIGN_OR_RETURN(auto whole, train::StartSession(large.graph, request));
  MTF_ASSIGN_OR_RETURN(
      auto parts, train::StartSession(small.graph, {.updates = {small.step}}));
  for (int i = 0; i < 12; ++i) {
    request.feeds = large.Rows(i, 0);
    MTF_ASSIGN_OR_RETURN(auto values, whole->Run(request));
    MTF_ASSIGN_OR_RETURN(const double loss, values[0].At(0));
    if (i % 4 == 0) train::Say(absl::StrFormat("result loss %.9f", loss));
    for (int part = 0; part < kParts; ++part) {
      MTF_RETURN_IF_ERROR(
          parts->Run({.feeds = small.Rows(i, part), .updates = {small.step}})
              .status());
    }
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
