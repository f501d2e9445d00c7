// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "backends/cuda/emulated/libraries.h"
#include "mtf/host_tensor.h"

namespace mtf::cuda {
namespace {

using Computes = ConvolutionProblem::Computes;
using Spatial = ConvolutionProblem::Spatial;

// Overwritten by each run, so that tests find a workspace that others use.
constexpr int64_t kWorkspaceBytes = 512;

std::vector<float> LoadAll(const void* data, DType dtype, int64_t elements) {
  std::vector<float> values(elements);
  for (int64_t i = 0; i < elements; ++i) {
    values[i] = static_cast<float>(LoadElement(data, dtype, i));
  }
  return values;
}

class EmulatedConvolution : public PreparedConvolution {
 public:
  EmulatedConvolution(const ConvolutionProblem& problem, EnqueueWork enqueue)
      : problem_(problem), enqueue_(std::move(enqueue)) {}

  int64_t workspace_bytes() const override { return kWorkspaceBytes; }

  void Run(const Buffers& buffers) override {
    enqueue_([problem = problem_, buffers] {
      std::memset(buffers.workspace, 0xff, kWorkspaceBytes);
      Compute(problem, buffers);
    });
  }

 private:
  // Adds up float32 sums of the result, then rounds each once.
  static void Compute(const ConvolutionProblem& p, const Buffers& buffers) {
    const bool to_input = p.computes == Computes::kInput,
               to_filter = p.computes == Computes::kFilter,
               to_output = p.computes == Computes::kOutput;
    const auto load = [&](bool is_result, const void* data, int64_t elements) {
      return is_result ? std::vector<float>(elements, 0.0f)
                       : LoadAll(data, p.dtype, elements);
    };
    std::vector<float> input = load(to_input, buffers.input, p.InputElements());
    std::vector<float> filter =
        load(to_filter, buffers.filter, p.FilterElements());
    std::vector<float> output =
        load(to_output, buffers.output, p.OutputElements());
    ForEachTap(p, 0, 0, 0, 0, [&](int64_t in, int64_t tap, int64_t out) {
      for (int64_t g = 0; g < p.groups; ++g) {
        for (int64_t o = 0; o < p.outputs; ++o) {
          const int64_t channel = g * p.outputs + o;
          float& y = output[out * p.groups * p.outputs + channel];
          float* const x = &input[(in * p.groups + g) * p.inputs];
          float* const w = &filter[(channel * Taps(p) + tap) * p.inputs];
          for (int64_t c = 0; c < p.inputs; ++c) {
            if (to_output) y += x[c] * w[c];
            if (to_input) x[c] += y * w[c];
            if (to_filter) w[c] += x[c] * y;
          }
        }
      }
    });
    const std::vector<float>& result = to_output  ? output
                                       : to_input ? input
                                                  : filter;
    void* const data = to_output  ? buffers.output
                       : to_input ? buffers.input
                                  : buffers.filter;
    for (size_t i = 0; i < result.size(); ++i) {
      StoreElement(data, p.dtype, static_cast<int64_t>(i), result[i]);
    }
  }

  static int64_t Taps(const ConvolutionProblem& p) {
    int64_t taps = 1;
    for (const Spatial& dim : p.spatial) taps *= dim.window;
    return taps;
  }

  // Calls `body` with a pixel of the input, an element of the window and a
  // pixel of the output, for all that meet. `in`, `tap` and `out` are the
  // offsets by the batch and the spatial dimensions before `at`.
  static void ForEachTap(
      const ConvolutionProblem& p, size_t at, int64_t in, int64_t tap,
      int64_t out, const std::function<void(int64_t, int64_t, int64_t)>& body) {
    if (at > p.spatial.size()) return body(in, tap, out);
    if (at == 0) {
      for (int64_t n = 0; n < p.batch; ++n) ForEachTap(p, 1, n, 0, n, body);
      return;
    }
    const Spatial& dim = p.spatial[at - 1];
    for (int64_t i = 0; i < dim.output; ++i) {
      for (int64_t w = 0; w < dim.window; ++w) {
        const int64_t from = i * dim.stride + w * dim.dilation - dim.before;
        if (from < 0 || from >= dim.input) continue;
        ForEachTap(p, at + 1, in * dim.input + from, tap * dim.window + w,
                   out * dim.output + i, body);
      }
    }
  }

  ConvolutionProblem problem_;
  EnqueueWork enqueue_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedConvolution>> PrepareEmulatedConvolution(
    const ConvolutionProblem& problem, EnqueueWork enqueue) {
  if (!IsFloat(problem.dtype) || problem.spatial.empty() ||
      problem.spatial.size() > 3) {
    return absl::UnimplementedError(absl::StrCat(
        "convolutions have floats and one to three spatial dimensions, not ",
        problem.ToString()));
  }
  return std::make_unique<EmulatedConvolution>(problem, std::move(enqueue));
}

}  // namespace mtf::cuda
