// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of the memory of a GPT: one layer as the difference of
// two programs, and the published models.
#ifndef TESTS_LOWERING_GPT_PLAN_H_
#define TESTS_LOWERING_GPT_PLAN_H_

#include <algorithm>
#include <functional>
#include <ostream>
#include <vector>

#include "tests/lowering/gpt_layers.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {

// The values from which `value` is computed by maps and instructions of
// `passed` alone.
inline std::vector<int> SourcesOf(const Program& program,
                                  const std::vector<int>& producers, int value,
                                  const std::vector<Opcode>& passed) {
  const int producer = producers[value];
  if (producer < 0) return {value};
  const Instruction& instruction = program.instructions[producer];
  if (std::count(passed.begin(), passed.end(), instruction.opcode) == 0) {
    return {value};
  }
  std::vector<int> sources;
  for (int operand : instruction.operands) {
    for (int source : SourcesOf(program, producers, operand, passed)) {
      sources.push_back(source);
    }
  }
  return sources;
}

using Minimizer = std::function<Tensor(Tensor loss)>;

inline Tensor AdamWStep(Tensor loss) { return nn::AdamW().Minimize(loss); }

// The difference between `read` of the program with one more layer and of the
// program with sizes.layers.
template <typename Result>
Result PerLayer(absl::string_view mesh, absl::string_view layout,
                GptSizes sizes, const Minimizer& minimize,
                Result (*read)(const Graph&, const Program&)) {
  Result results[2];
  for (Result& result : results) {
    Graph graph;
    const Gpt gpt = GptBuilder(graph, sizes).Build();
    const Tensor step = minimize(gpt.loss);
    const auto program = LowerText(graph, mesh, layout,
                                   {.fetches = {gpt.loss}, .updates = {step}});
    EXPECT_OK(program);
    if (program.ok()) result = read(graph, *program);
    ++sizes.layers;
  }
  return results[1] - results[0];
}

inline GptSizes Sizes(DType dtype, DType parameters, int64_t batch = 1) {
  GptSizes sizes;
  sizes.batch = batch;
  sizes.dtype = dtype;
  sizes.parameters = parameters;
  return sizes;
}

// Megatron's mixed precision: 18 bytes per parameter, or 16 with bf16
// gradients.
inline GptSizes MegatronSizes(int64_t batch = 1, DType gradients = kFloat32) {
  GptSizes sizes = Sizes(kBFloat16, kBFloat16, batch);
  sizes.master = kFloat32;
  sizes.gradients = gradients;
  return sizes;
}

// Models of Korthikanti et al., 2022, in GiB per rank: weights and optimizer
// state at 18 bytes per parameter, and activations: all kept, without and with
// sequence parallelism; with attention rematerialized, without and with it;
// with layers rematerialized. Length 2048.
struct Published {
  const char* name;
  int64_t h, layers, heads, tensor, pipeline, interleaved, batch;
  double weights, tensor_parallel, sequence_parallel;
  double selective, selective_sequence, full;
  friend std::ostream& operator<<(std::ostream& out, const Published& p) {
    return out << p.name;
  }
};
inline constexpr Published kPublished[] = {
    {"22B", 6144, 48, 64, 8, 1, 1, 4, 45.5625, 59.25, 39.5625, 29.25, 9.5625,
     4.5},
    {"175B", 12288, 96, 96, 8, 8, 3, 1, 45.5625, 66.84375, 41.4140625, 37.78125,
     12.3515625, 5.8125},
    {"530B", 20480, 105, 128, 8, 35, 3, 1, 31.640625, 114.0234375, 66.513672,
     70.585938, 23.076171875, 10.859375},
    {"1T", 25600, 128, 160, 8, 64, 1, 1, 32.958984375, 131.25, 76.5625, 81.25,
     26.5625, 12.5},
};
inline constexpr double kGiB = 1 << 30;

inline GptSizes SizesOf(const Published& p) {
  GptSizes sizes = MegatronSizes(p.batch);
  sizes.d_model = p.h;
  sizes.heads = p.heads;
  return sizes;
}

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_GPT_PLAN_H_
