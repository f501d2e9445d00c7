// SPDX-License-Identifier: Apache-2.0
//
// A step of one mixture of experts on the CPU, forward and backward, without an
// update: the gradients of the input and of all parameters. Prints a line of
// JSON (benchmarks/peers/README.md); peers/experts_torch.py is the same work in
// PyTorch.
//   experts_benchmark --capacity_factor=1.25
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"
#include "train/loop/flag_types.h"

ABSL_FLAG(mtf::train::Size, tokens, 4096,
          "tokens of a step, in groups of 1024");
ABSL_FLAG(mtf::train::Size, width, 512, "d_model; d_ff is four times as much");
ABSL_FLAG(mtf::train::Size, num_experts, 8, "experts; two for each token");
ABSL_FLAG(double, capacity_factor, 1.25, "slots per choice");
ABSL_FLAG(std::string, dispatch, "automatic", "automatic, sorted or one_hot");
ABSL_FLAG(mtf::train::Size, repeats, 10, "timed steps");

namespace mtf {
namespace {

nn::Dispatch DispatchFlag() {
  const std::string name = absl::GetFlag(FLAGS_dispatch);
  return name == "sorted"    ? nn::Dispatch::kSorted
         : name == "one_hot" ? nn::Dispatch::kOneHot
                             : nn::Dispatch::kAutomatic;
}

absl::Status MeasureExperts() {
  const int64_t tokens = absl::GetFlag(FLAGS_tokens).value,
                group = std::min<int64_t>(tokens, 1024),
                width = absl::GetFlag(FLAGS_width).value;
  const Dimension batch{"batch", tokens / group}, length{"length", group},
      d_model{"d_model", width}, d_ff{"d_ff", 4 * width},
      experts{"experts", absl::GetFlag(FLAGS_num_experts).value};
  const double factor = absl::GetFlag(FLAGS_capacity_factor);

  Graph graph;
  // A parameter, so that it is not drawn again in every step.
  const Tensor x = nn::Parameter(
      graph, "x",
      RandomNormal(graph, {batch, length, d_model}, 0, 1, {.per_step = false}),
      kFloat32);
  const nn::Experts y = nn::MixtureOfExperts(
      x, experts, d_ff, Relu,
      {.capacity_factor = factor, .dispatch = DispatchFlag()});
  const Tensor loss =
      ReduceMean(Square(y.output), {}) + 0.01 * y.load_balancing_loss;
  std::vector<Tensor> parameters;
  for (const VariableInfo& info : graph.variables()) {
    parameters.push_back(info.read);
  }
  std::vector<Tensor> sums = {loss, y.dropped};
  // Gradients stay on the device; a step returns the sum of each.
  for (const Tensor& gradient : Gradients(loss, parameters)) {
    sums.push_back(ReduceSum(gradient, {}));
  }
  const train::RunRequest request = {.fetches = sums};
  MTF_ASSIGN_OR_RETURN(const auto session, train::StartSession(graph, request));
  std::vector<double> times;
  double dropped = 0;
  const int64_t repeats = absl::GetFlag(FLAGS_repeats).value;
  for (int64_t i = 0; i < repeats + 2; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    MTF_ASSIGN_OR_RETURN(const auto values, session->Run(request));
    const std::chrono::duration<double, std::milli> time =
        std::chrono::steady_clock::now() - begin;
    MTF_ASSIGN_OR_RETURN(dropped, values[1].At(0));
    if (i >= 2) times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  const double best = times.front();
  std::cout << absl::StrFormat(
      "{\"schema\":1,\"benchmark\":\"experts/%dx%dx%d/float32\","
      "\"program\":\"mtf\",\"device\":\"cpu\",\"unit\":\"tokens/s\","
      "\"value\":%.1f,\"milliseconds\":%.2f,\"best_milliseconds\":%.2f,"
      "\"repeats\":%d,\"capacity_factor\":%g,\"dropped\":%.4f}\n",
      tokens, width, experts.size, 1e3 * static_cast<double>(tokens) / best,
      times[times.size() / 2], best, repeats, factor, dropped);
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Measures a mixture of experts.",
                             &mtf::MeasureExperts);
}
