// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/random.h"

#include <utility>
#include <vector>

#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/codegen/loop_nest.h"
#include "mtf/status.h"

namespace mtf::cuda {

absl::StatusOr<std::unique_ptr<Kernel>> PrepareRandom(Runtime& runtime,
                                                      StepState& step_state,
                                                      const Binding& binding) {
  const auto& random = binding.instruction().Get<RandomAttributes>();
  const BoundValue& result = binding.results[0];
  const int64_t count = result.elements();
  std::vector<Launch> launches;
  if (count == 0) {
    return std::make_unique<LaunchSequence>(runtime, std::move(launches));
  }
  MTF_ASSIGN_OR_RETURN(const uint32_t* seed_and_step, step_state.SeedAndStep());
  KernelWriter writer("random");
  writer.UseRandom();
  const std::string state = writer.ReadAs(seed_and_step, "u32", 8);
  const std::string y = writer.Write(result.data, result.dtype(), count);
  // Array 0 is the global tensor, whose element index is the counter.
  LoopNest nest("i", 1);
  const Shape& shape = result.value->shape;
  int64_t first = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t stride = 1;
    for (int j = i + 1; j < shape.rank(); ++j) stride *= shape[j].size;
    nest.Add(shape[i].name, result.dims[i].extent, {stride}, false);
    first += result.dims[i].offset * stride;
  }
  // The global tensor may have more elements than the local shard.
  writer.SetIndexReach(shape.num_elements() + count);
  const std::string start = writer.Number(first);
  const bool uniform = random.kind == RandomKind::kUniform;
  const std::string stream = writer.Number(random.stream);
  writer.Add(writer.GridLoop("i", count), nest.Coordinates("    "),
             "    const u64 element = (u64)(", start, " + ",
             SumText({nest.Offset(0)}), ");\n    const Words words = PhiloxAt(",
             state, "[0], (u32)", stream, ", ",
             random.per_step ? state + "[1]" : "0u", ", element);\n    Put(", y,
             "[i], ", uniform ? "Uniform" : "Normal", "(words));\n  }\n");
  launches.emplace_back();
  MTF_ASSIGN_OR_RETURN(
      launches[0],
      writer.Compile(runtime, writer.ShapeFor(runtime.info(), count)));
  return std::make_unique<LaunchSequence>(runtime, std::move(launches));
}

}  // namespace mtf::cuda
