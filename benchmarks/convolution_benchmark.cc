// SPDX-License-Identifier: Apache-2.0
//
// Convolutions, batch norms and poolings on the CPU device. Reads the name of a
// case per line from standard input, runs it a few times and prints the median
// as a line of JSON (peers/README.md), so that another program can measure the
// same work between the lines: peers/convolution_torch.py does.
//
//   echo convolution/16x56x64-64/k3s1g1/forward | convolution_benchmark
//
// Names are convolution/BATCHxSIZExIN-OUT/kWINDOWsSTRIDEgGROUPS/WHAT and
// {batch_norm,max_pool,average_pool}/BATCHxSIZExCHANNELS/kWINDOWsSTRIDE/WHAT,
// where WHAT is forward, input_gradient, filter_gradient, or for those without
// a filter backward.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "lowering/program/print_program.h"
#include "mtf/mtf.h"

ABSL_FLAG(int, cpu_threads, 2, "threads of the device");
ABSL_FLAG(int, repeats, 5, "runs that are timed for each line");
ABSL_FLAG(bool, print_programs, false, "print the program of each case");

namespace mtf {
namespace {

struct Case {
  long batch = 0, size = 0, in = 0, out = 0, window = 1, stride = 1, groups = 1;
  std::string kind, what;
};

absl::StatusOr<Case> Parse(const std::string& name) {
  Case made;
  char kind[32] = "", what[32] = "";
  int read =
      std::sscanf(name.c_str(), "%31[^/]/%ldx%ldx%ld-%ld/k%lds%ldg%ld/%31s",
                  kind, &made.batch, &made.size, &made.in, &made.out,
                  &made.window, &made.stride, &made.groups, what);
  if (read != 9) {
    read = std::sscanf(name.c_str(), "%31[^/]/%ldx%ldx%ld/k%lds%ld/%31s", kind,
                       &made.batch, &made.size, &made.in, &made.window,
                       &made.stride, what);
    made.out = made.in;
    if (read != 7) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name, "\" is not the name of a case"));
    }
  }
  made.kind = kind;
  made.what = what;
  return made;
}

// A case with its session. Values live in variables, so that a run copies
// nothing from or to the host.
class Runner {
 public:
  explicit Runner(const Case& made) : case_(made) {}

  absl::Status Prepare() {
    const Dimension batch{"batch", case_.batch}, height{"height", case_.size},
        width{"width", case_.size}, in{"in", case_.in};
    const Tensor x = Random("x", {batch, height, width, in});
    Tensor w, y;
    const WindowOptions options = {.stride = case_.stride,
                                   .padding = WindowPadding::kExplicit,
                                   .before = case_.window / 2,
                                   .after = case_.window / 2};
    if (case_.kind == "convolution") {
      const Dimension groups{"groups", case_.groups},
          of_group{"in", case_.in / case_.groups},
          out{"out", case_.out / case_.groups}, kh{"kh", case_.window},
          kw{"kw", case_.window};
      const bool grouped = case_.groups > 1;
      Tensor from = x;
      if (grouped) from = SplitDimension(x, "in", {groups, of_group});
      w = grouped ? Random("w", {kh, kw, of_group, groups, out})
                  : Random("w", {kh, kw, in, out});
      y = Convolution(from, w,
                      {{"height", "kh", options}, {"width", "kw", options}},
                      {of_group});
    } else if (case_.kind == "batch_norm") {
      y = nn::BatchNorm(x, in);
    } else {
      const PoolOptions pool = {.stride = case_.stride,
                                .padding = options.padding,
                                .before = options.before,
                                .after = options.after};
      const Shape windows = {{"height", case_.window}, {"width", case_.window}};
      // Windows of odd sizes have padding, others lie side by side.
      const PoolOptions used = case_.window % 2 == 1 ? pool : PoolOptions{};
      y = case_.kind == "max_pool" ? MaxPool(x, windows, used)
                                   : AveragePool(x, windows, used);
    }
    std::vector<Tensor> results = {y};
    if (case_.what != "forward") {
      const Tensor dy = Random("dy", y.shape());
      const Tensor of = case_.what == "filter_gradient" ? w : x;
      results = Gradients(y, {of}, dy);
      // Without a filter, forward and backward.
      if (case_.what == "backward") results.push_back(y);
    }
    std::vector<Tensor> updates;
    for (Tensor result : results) {
      // Results are written once, as PyTorch does: assigning all of one would
      // copy it.
      for (const char* dim : {"height", "width"}) {
        if (!result.shape().Contains(dim)) continue;
        result = Slice(result, dim, 0, 1);
      }
      const Tensor to = Variable(graph_, absl::StrCat("result", updates.size()),
                                 Zeros(graph_, kFloat32, result.shape()));
      updates.push_back(Assign(to, result));
    }
    request_.updates = updates;
    MTF_ASSIGN_OR_RETURN(
        session_, train::Session::Create(
                      graph_, "", "",
                      {.threads_per_rank = absl::GetFlag(FLAGS_cpu_threads)}));
    MTF_RETURN_IF_ERROR(session_->Initialize());
    if (absl::GetFlag(FLAGS_print_programs)) {
      MTF_ASSIGN_OR_RETURN(const Program* program,
                           session_->ProgramOf(request_));
      std::cerr << PrintProgram(*program) << std::endl;
    }
    for (int i = 0; i < 2; ++i) MTF_RETURN_IF_ERROR(Run().status());
    return absl::OkStatus();
  }

  // The seconds of one run.
  absl::StatusOr<double> Run() {
    const auto begin = std::chrono::steady_clock::now();
    MTF_RETURN_IF_ERROR(session_->Run(request_).status());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin)
        .count();
  }

 private:
  Tensor Random(const std::string& name, const Shape& shape) {
    return Variable(graph_, name,
                    RandomUniform(graph_, shape, -1, 1, {.per_step = false}));
  }

  const Case case_;
  Graph graph_;
  train::RunRequest request_;
  std::unique_ptr<train::Session> session_;
};

absl::Status Main() {
  std::map<std::string, std::unique_ptr<Runner>> runners;
  std::string name;
  while (std::getline(std::cin, name)) {
    std::unique_ptr<Runner>& runner = runners[name];
    if (runner == nullptr) {
      MTF_ASSIGN_OR_RETURN(const Case made, Parse(name));
      runner = std::make_unique<Runner>(made);
      MTF_RETURN_IF_ERROR(runner->Prepare());
    }
    std::vector<double> seconds;
    for (int i = 0; i < absl::GetFlag(FLAGS_repeats); ++i) {
      MTF_ASSIGN_OR_RETURN(const double once, runner->Run());
      seconds.push_back(once);
    }
    std::sort(seconds.begin(), seconds.end());
    std::cout << "{\"schema\": 1, \"benchmark\": \"" << name
              << "\", \"program\": \"mtf\", \"milliseconds\": "
              << 1e3 * seconds[seconds.size() / 2] << "}" << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv, "Measures the convolutions named on standard input.",
      &mtf::Main);
}
