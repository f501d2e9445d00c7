// SPDX-License-Identifier: Apache-2.0
//
// Memory-bound work as steps of a session. Each step does the same work several
// times, on different variables, so that the host's share of a step is
// negligible. Bytes are the minimum: each input is read once, each output
// written once.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/gpu_benchmark.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/softmax.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "train/session/session.h"

namespace mtf {
namespace {

// Adds work number `i` and its updates to the graph; returns its bytes.
using Work =
    std::function<int64_t(Graph& graph, int i, std::vector<Tensor>& updates)>;

struct KernelCase {
  std::string name;
  int copies;
  Work work;
};

int64_t BytesOf(Tensor x) {
  return x.shape().num_elements() * DTypeSize(x.dtype());
}

Tensor Values(Graph& graph, const std::string& name, int i, const Shape& shape,
              DType dtype) {
  return Variable(
      graph, absl::StrCat(name, "_", i),
      RandomNormal(graph, shape, 0, 1, {.per_step = false, .dtype = dtype}));
}

// y = f(x, other) over values of one shape: reads `inputs`, writes one.
KernelCase Elementwise(const std::string& name, const Shape& shape, DType dtype,
                       int copies,
                       const std::function<Tensor(Tensor x, Tensor other)>& f,
                       int inputs) {
  return {name, copies, [=](Graph& graph, int i, std::vector<Tensor>& updates) {
            const Tensor x = Values(graph, "x", i, shape, dtype);
            const Tensor other =
                inputs > 1 ? Values(graph, "other", i, shape, dtype) : Tensor();
            const Tensor y =
                Variable(graph, absl::StrCat("y_", i),
                         Zeros(graph, dtype, shape), {.trainable = false});
            updates.push_back(Assign(y, f(x, other)));
            return (inputs + 1) * BytesOf(x);
          }};
}

// The gradients of a norm's operand and parameters, as in training.
int64_t AddNormBackward(Graph& graph, int i, const Shape& shape,
                        const Dimension& dim, DType dtype,
                        std::vector<Tensor>& updates) {
  const Tensor x = Values(graph, "x", i, shape, dtype);
  const Tensor dy = Values(graph, "dy", i, shape, dtype);
  std::vector<Tensor> inputs = {x};
  const size_t others = graph.variables().size();
  const Tensor y = nn::LayerNorm(x, dim);
  for (size_t v = others; v < graph.variables().size(); ++v) {
    inputs.push_back(graph.variables()[v].read);
  }
  for (const Tensor& gradient : Gradients(y, inputs, dy)) {
    const Tensor kept = Variable(
        graph, absl::StrCat("kept_", i, "_", updates.size()),
        Zeros(graph, gradient.dtype(), gradient.shape()), {.trainable = false});
    updates.push_back(Assign(kept, gradient));
  }
  return 3 * BytesOf(x);
}

// The parameter shapes of GPT-2 124M, or two small ones.
std::vector<Shape> ParameterShapes(bool tiny) {
  if (tiny) return {{{"vocab", 64}, {"d_model", 16}}, {{"d_model", 16}}};
  const Dimension d_model{"d_model", 768}, d_ff{"d_ff", 3072},
      out{"d_out", 768};
  std::vector<Shape> shapes = {{{"vocab", 50304}, d_model},
                               {{"length", 1024}, d_model}};
  for (int layer = 0; layer < 12; ++layer) {
    for (int i = 0; i < 4; ++i) {
      shapes.push_back({d_model, out});
      shapes.push_back({d_model});
      shapes.push_back({d_model});
    }
    shapes.push_back({d_model, d_ff});
    shapes.push_back({d_ff, d_model});
    shapes.push_back({d_ff});
    shapes.push_back({d_model});
  }
  return shapes;
}

int64_t AddAdamW(Graph& graph, bool tiny, std::vector<Tensor>& updates) {
  std::vector<Tensor> variables, gradients;
  int64_t parameters = 0;
  for (const Shape& shape : ParameterShapes(tiny)) {
    const auto i = static_cast<int>(variables.size());
    variables.push_back(Values(graph, "parameter", i, shape, kFloat32));
    gradients.push_back(Values(graph, "gradient", i, shape, kFloat32));
    parameters += shape.num_elements();
  }
  updates.push_back(
      nn::AdamW({.learning_rate = 1e-3}).Apply(gradients, variables));
  // Reads parameter, gradient and two moments, writes all but the gradient.
  return 28 * parameters;
}

std::vector<KernelCase> Cases(bool tiny) {
  const Dimension rows{"rows", tiny ? 64 : 1 << 18},
      d_model{"d_model", tiny ? 32 : 768},
      queries{"queries", tiny ? 64 : 196608}, keys{"keys", tiny ? 32 : 1024},
      tokens{"tokens", tiny ? 32 : 16384}, vocab{"vocab", tiny ? 64 : 50304};
  const int copies = tiny ? 1 : 8;
  const Shape hidden{rows, d_model}, scores{queries, keys},
      logits{tokens, vocab};
  const auto gradient = [](Tensor y, Tensor x, Tensor dy) {
    return Gradients(y, {x}, dy)[0];
  };
  std::vector<KernelCase> cases;
  for (const auto& [dtype, name] :
       {std::pair{kBFloat16, "bfloat16"}, {kFloat32, "float32"}}) {
    const auto add = [&](const std::string& kernel, const Shape& shape,
                         int inputs, auto f) {
      cases.push_back(Elementwise(absl::StrCat("kernel/", kernel, "/", name),
                                  shape, dtype, copies, f, inputs));
    };
    add("gelu", hidden, 1, [](Tensor x, Tensor) { return Gelu(x); });
    add("gelu_gradient", hidden, 2,
        [=](Tensor x, Tensor dy) { return gradient(Gelu(x), x, dy); });
    add("add", hidden, 2, [](Tensor x, Tensor other) { return x + other; });
    add("layer_norm", hidden, 1,
        [=](Tensor x, Tensor) { return nn::LayerNorm(x, d_model); });
    add("layer_norm_gradient", hidden, 2, [=](Tensor x, Tensor dy) {
      return gradient(nn::LayerNorm(x, d_model), x, dy);
    });
    cases.push_back(
        {absl::StrCat("kernel/layer_norm_all_gradients/", name), copies,
         [=, dtype = dtype](Graph& graph, int i, std::vector<Tensor>& updates) {
           return AddNormBackward(graph, i, hidden, d_model, dtype, updates);
         }});
    add("rms_norm", hidden, 1,
        [=](Tensor x, Tensor) { return nn::RmsNorm(x, d_model); });
    add("softmax", scores, 1,
        [=](Tensor x, Tensor) { return nn::Softmax(x, keys); });
    add("softmax_gradient", scores, 2, [=](Tensor x, Tensor dy) {
      return gradient(nn::Softmax(x, keys), x, dy);
    });
    // Loss and gradient of the logits together; one pass is enough.
    cases.push_back(Elementwise(
        absl::StrCat("kernel/cross_entropy/", name), logits, dtype,
        tiny ? 1 : 2,
        [=](Tensor x, Tensor) {
          const Tensor targets = Constant(x.graph(), 1, kInt32, {tokens});
          return gradient(nn::SoftmaxCrossEntropy(x, vocab, targets), x,
                          Tensor());
        },
        1));
  }
  cases.push_back({"kernel/adamw/float32", 1,
                   [tiny](Graph& graph, int, std::vector<Tensor>& updates) {
                     return AddAdamW(graph, tiny, updates);
                   }});
  return cases;
}

absl::Status MeasureCase(const GpuBenchmark& settings,
                         const KernelCase& kernel) {
  Graph graph;
  std::vector<Tensor> updates;
  int64_t bytes = 0;
  for (int i = 0; i < kernel.copies; ++i) {
    bytes += kernel.work(graph, i, updates);
  }
  train::RunRequest request;
  request.updates = updates;
  train::SessionOptions options;
  options.backend = settings.device;
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::Session::Create(graph, "", "", options));
  MTF_RETURN_IF_ERROR(session->Initialize());
  MTF_ASSIGN_OR_RETURN(const Timing timing,
                       Measure([&] { return session->Run(request).status(); },
                               [] { return absl::OkStatus(); },
                               settings.repeats, settings.tiny ? 0 : 5));
  Emit(settings, kernel.name, "GB/s",
       1e-6 * static_cast<double>(bytes) / timing.milliseconds, timing,
       absl::StrCat(",\"bytes\":", bytes));
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureKernels(const GpuBenchmark& settings) {
  for (const KernelCase& kernel : Cases(settings.tiny)) {
    MTF_RETURN_IF_ERROR(MeasureCase(settings, kernel));
  }
  return absl::OkStatus();
}

}  // namespace mtf
