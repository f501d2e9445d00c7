// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/group_cases.h"

#include <cmath>
#include <random>
#include <utility>

#include "nn/layers/dense.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/softmax.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/one_hot.h"
#include "ops/reduce.h"

namespace mtf::cuda {
namespace {

Tensor Number(Graph& graph, const char* name, Shape shape, DType dtype) {
  return Cast(Input(graph, name, kFloat32, std::move(shape)), dtype);
}

const RowsCase kRowsCases[] = {
    {"Softmax",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       return std::vector<Tensor>{nn::Softmax(x, columns)};
     }},
    {"CausalSoftmax",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor hidden =
           Less(Range(graph, rows, kInt32), Range(graph, columns, kInt32));
       return std::vector<Tensor>{
           nn::Softmax(Select(hidden, -INFINITY, x), columns)};
     }},
    {"SoftmaxAndItsGradient",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor y = Number(graph, "y", {rows, columns}, dtype);
       const Tensor loss =
           ReduceSum(Cast(nn::Softmax(x, columns) * y, kFloat32), Shape());
       return Gradients(loss, {x});
     }},
    {"LayerNorm",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor y = Number(graph, "y", {rows, columns}, dtype);
       return std::vector<Tensor>{
           nn::LayerNorm(x + y, columns, {.scale = false, .bias = false})};
     }},
    {"LayerNormAndItsGradient",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor y = Number(graph, "y", {columns}, dtype);
       const Tensor norm =
           nn::LayerNorm(x, columns, {.scale = false, .bias = false});
       const Tensor loss = ReduceSum(Cast(norm * y, kFloat32), Shape());
       return Gradients(loss, {x, y});
     }},
    // A value that is the same for all rows, computed in the group and read
    // outside.
    {"LayerNormWithAComputedScale",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor scale = Number(graph, "scale", {columns}, dtype);
       const Tensor norm =
           nn::LayerNorm(x, columns, {.scale = false, .bias = false});
       const Tensor wide = Exp(scale);
       return std::vector<Tensor>{norm * wide, wide};
     }},
    {"LayerNormWithScaleAndItsGradient",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor y = Number(graph, "y", {rows, columns}, dtype);
       const Tensor scale = Number(graph, "scale", {columns}, dtype);
       const Tensor bias = Number(graph, "bias", {columns}, dtype);
       const Tensor norm =
           nn::LayerNorm(x, columns, {.scale = false, .bias = false}) * scale +
           bias;
       const Tensor loss = ReduceSum(Cast(norm * y, kFloat32), Shape());
       std::vector<Tensor> fetches = Gradients(loss, {x, scale, bias});
       fetches.push_back(norm);
       return fetches;
     }},
    // 16 bytes of a row correspond to 32 bytes of the scale.
    {"LayerNormWithAFloat32Scale",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Input(graph, "x", dtype, {rows, columns});
       const Tensor y = Input(graph, "y", dtype, {rows, columns});
       const Tensor scale = Input(graph, "scale", kFloat32, {columns});
       const Tensor norm = Cast(nn::LayerNorm(Cast(x, kFloat32), columns,
                                              {.scale = false, .bias = false}) *
                                    scale,
                                dtype);
       const Tensor loss = ReduceSum(Cast(norm * y, kFloat32), Shape());
       return Gradients(loss, {x, scale});
     }},
    {"RmsNormAndItsGradient",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor y = Number(graph, "y", {rows, columns}, dtype);
       const Tensor norm = nn::RmsNorm(x, columns, {.scale = false});
       const Tensor loss = ReduceSum(Cast(norm * y, kFloat32), Shape());
       return Gradients(loss, {x, y});
     }},
    {"RmsNorm",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       return std::vector<Tensor>{nn::RmsNorm(x, columns, {.scale = false})};
     }},
    {"CrossEntropyAndItsGradient",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor targets = Input(graph, "targets", kInt32, {rows});
       const Tensor loss = nn::SoftmaxCrossEntropy(x, columns, targets);
       return std::vector<Tensor>{loss, Gradients(loss, {x})[0]};
     }},
    // Rows have weights 0, 1 and 2.
    {"WeightedCrossEntropyAndItsGradient",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor targets = Input(graph, "targets", kInt32, {rows});
       const Tensor loss = nn::SoftmaxCrossEntropy(
           x, columns, targets,
           {.z_loss = 0.1, .weights = Input(graph, "w", kInt32, {rows})});
       return std::vector<Tensor>{loss, Gradients(loss, {x})[0]};
     }},
    {"ManyMaps",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor y = Number(graph, "y", {columns}, dtype);
       const Tensor a = Exp(x) + 1.0, b = Tanh(y) * 3.0;
       const Tensor c = a * a - x, d = Cast(Square(b), kInt32);
       return std::vector<Tensor>{a, b, c, d};
     },
     false, true},
    {"AdamW",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor h = nn::Dense(x, {columns}, {Dimension{"hidden", 5}});
       const Tensor loss = ReduceSum(Square(Cast(h, kFloat32)), Shape());
       return std::vector<Tensor>{loss, nn::AdamW().Minimize(loss)};
     },
     true},
    // Bias gradients next to weight gradients.
    {"LayersWithBiases",
     [](Graph& graph, Dimension rows, Dimension columns, DType dtype) {
       const Dimension hidden{"hidden", 64};
       const Tensor x = Number(graph, "x", {rows, columns}, dtype);
       const Tensor w1 = Number(graph, "w1", {columns, hidden}, dtype);
       const Tensor b1 = Number(graph, "b1", {hidden}, dtype);
       const Tensor w2 = Number(graph, "w2", {hidden, columns}, dtype);
       const Tensor b2 = Number(graph, "b2", {columns}, dtype);
       const double scale = 0.1 / std::sqrt(static_cast<double>(columns.size));
       const Tensor h = Gelu(Einsum({x * scale, w1}, Shape{rows, hidden}) + b1);
       const Tensor y = Einsum({h * 0.1, w2}, Shape{rows, columns}) + b2;
       const Tensor loss = ReduceSum(Tanh(Cast(y, kFloat32)), Shape());
       std::vector<Tensor> all = Gradients(loss, {x, w1, b1, w2, b2});
       all.push_back(loss);
       return all;
     }},
};

const MatmulCase kMatmulCases[] = {
    {"Residual",
     [](Tensor y, Tensor r, Tensor) { return std::vector<Tensor>{r + y}; },
     "2 members adds"},
    {"Bias",
     [](Tensor y, Tensor, Tensor b) { return std::vector<Tensor>{y + b}; },
     "2 members bias"},
    {"BiasAndResidual",
     [](Tensor y, Tensor r, Tensor b) {
       return std::vector<Tensor>{r + (y + b)};
     },
     "2 members bias adds"},
    {"Gelu",
     [](Tensor y, Tensor, Tensor) { return std::vector<Tensor>{Gelu(y)}; }, "",
     "2 members gelu"},
    {"GeluWithAnotherReader",
     [](Tensor y, Tensor, Tensor) {
       return std::vector<Tensor>{Gelu(y), y};
     },
     "", "2 members gelu keeps"},
    {"BiasAndGelu",
     [](Tensor y, Tensor, Tensor b) {
       return std::vector<Tensor>{Gelu(y + b)};
     },
     "", "2 members bias gelu"},
    {"BiasAndGeluWithAnotherReader",
     [](Tensor y, Tensor, Tensor b) {
       const Tensor before = y + b;
       return std::vector<Tensor>{Gelu(before), before};
     },
     "2 members bias", "3 members bias gelu keeps"},
    // A product that is only part of a sum must not have other readers.
    {"ResidualWithAnotherReader",
     [](Tensor y, Tensor r, Tensor) {
       return std::vector<Tensor>{r + y, y};
     },
     ""},
    // y times the derivative of gelu at r.
    {"GeluGradient",
     [](Tensor y, Tensor r, Tensor) {
       return Gradients(ReduceSum(Gelu(r) * y, Shape()), {r});
     },
     "", "2 members gelu gradient"},
    {"GeluGradientWithAnotherReader",
     [](Tensor y, Tensor r, Tensor) {
       std::vector<Tensor> both =
           Gradients(ReduceSum(Gelu(r) * y, Shape()), {r});
       both.push_back(y);
       return both;
     },
     ""},
    {"TanhGradient",
     [](Tensor y, Tensor r, Tensor) {
       return Gradients(ReduceSum(Tanh(r) * y, Shape()), {r});
     },
     ""},
    {"Difference",
     [](Tensor y, Tensor r, Tensor) { return std::vector<Tensor>{r - y}; }, ""},
};

}  // namespace

absl::Span<const RowsCase> RowsCases() { return kRowsCases; }
absl::Span<const MatmulCase> MatmulCases() { return kMatmulCases; }

std::map<std::string, HostTensor> RandomFeeds(const Program& program) {
  std::mt19937 random(7);
  std::map<std::string, HostTensor> feeds;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kInput) continue;
    const ProgramValue& value = program.values[instruction.results[0]];
    HostTensor tensor(value.shape, value.dtype);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      StoreElement(tensor.data(), value.dtype, i,
                   value.dtype == kInt32
                       ? random() % 3
                       : std::normal_distribution<float>(0.2f, 1.5f)(random));
    }
    feeds[instruction.Get<NameAttributes>().name] = std::move(tensor);
  }
  return feeds;
}

}  // namespace mtf::cuda
