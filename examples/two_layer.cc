// SPDX-License-Identifier: Apache-2.0
//
// Two linear layers, from "features" to "hidden" units and back, sharded in the
// two classic ways: the units over the axis "model" (tensor parallelism) and
// the rows of the batch over "data". Each run is compared with the one that is
// not sharded.
//
//   build/release/bin/two_layer                         small
//   build/release/bin/two_layer --features=10000 --hidden=3200 --batch=64
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

using mtf::train::Size;

ABSL_FLAG(Size, features, 1000, "width of the input and of the result");
ABSL_FLAG(Size, hidden, 320, "units between the two layers");
ABSL_FLAG(Size, batch, 16, "rows in a step");

namespace mtf {
namespace {

constexpr int kSteps = 5;

// The losses of some steps under a mesh and a layout, and the bytes that a rank
// sends in a step.
struct Run {
  std::vector<double> losses;
  int64_t bytes = 0;
};

absl::StatusOr<Run> TrainUnder(const std::string& mesh,
                               const std::string& layout) {
  const Dimension batch{"batch", absl::GetFlag(FLAGS_batch)},
      features{"features", absl::GetFlag(FLAGS_features)},
      hidden{"hidden", absl::GetFlag(FLAGS_hidden)};
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {batch, features});
  const Tensor h = Relu(nn::Dense(x, {features}, {hidden}));
  const Tensor y = nn::Dense(h, {hidden}, {features});
  const Tensor loss = ReduceMean(Square(y - x), {});  // to copy the input
  const Tensor step =
      nn::AdamW({.learning_rate = 1.0 / static_cast<double>(features.size)})
          .Minimize(loss);

  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::Session::Create(graph, mesh, layout));
  MTF_RETURN_IF_ERROR(session->Initialize());
  std::vector<float> values(x.shape().num_elements());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(0.37f * static_cast<float>(i % 9973));
  }
  const train::RunRequest request = {
      .feeds = {{"x", HostTensor::Of<float>(x.shape(), values)}},
      .fetches = {loss},
      .updates = {step}};
  Run run;
  for (int i = 0; i < kSteps; ++i) {
    session->ResetCounts();
    MTF_ASSIGN_OR_RETURN(const auto fetched, session->Run(request));
    MTF_ASSIGN_OR_RETURN(run.losses.emplace_back(), fetched[0].At(0));
  }
  for (const auto& [key, count] : session->counts()) run.bytes += count.bytes;
  return run;
}

absl::Status Main() {
  MTF_ASSIGN_OR_RETURN(const Run one, TrainUnder("", ""));
  train::Say(absl::StrFormat("one device          loss %.6f to %.6f",
                             one.losses.front(), one.losses.back()));
  struct Sharded {
    const char *name, *mesh, *layout;
  };
  for (const Sharded& sharded : std::vector<Sharded>{
           {"tensor parallel", "model:2", "hidden:model"},
           {"data parallel", "data:2", "batch:data"},
           {"both", "data:2,model:2", "batch:data, hidden:model"}}) {
    MTF_ASSIGN_OR_RETURN(const Run run,
                         TrainUnder(sharded.mesh, sharded.layout));
    double difference = 0;
    for (int i = 0; i < kSteps; ++i) {
      difference =
          std::max(difference, std::abs(run.losses[i] / one.losses[i] - 1));
    }
    train::Say(absl::StrFormat(
        "%-18s  loss %.6f to %.6f, relative difference %.1e, a rank sends %d "
        "bytes in a step",
        sharded.name, run.losses.front(), run.losses.back(), difference,
        run.bytes));
    if (difference > 1e-5) {
      return absl::InternalError("the losses depend on the layout");
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv, "Two layers under tensor and data parallelism, compared.",
      &mtf::Main);
}
