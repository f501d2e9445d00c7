// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/random.h"

#include <algorithm>

#include "backends/cpu/block_memory.h"
#include "backends/cpu/threads.h"
#include "mtf/philox.h"

namespace mtf::cpu {
namespace {

constexpr int64_t kBuffer = 256;

class RandomKernel : public Kernel {
 public:
  explicit RandomKernel(const Binding& binding)
      : result_(binding.results[0]),
        attributes_(binding.instruction().Get<RandomAttributes>()) {}

  void Run(StepContext& context) override {
    const int rank = result_.value->shape.rank();
    const int64_t row = rank == 0 ? 1 : result_.dims[rank - 1].extent;
    if (result_.elements() == 0) return;
    const int64_t rows = result_.elements() / row;
    const uint32_t step = attributes_.per_step ? context.step : 0;
    ParallelFor(rows, 4096 / row + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        FillRow(context.seed, step, GlobalStart(i), row, i * row);
      }
    });
  }

 private:
  // The global row-major index of the first element of a local row.
  uint64_t GlobalStart(int64_t row) const {
    const int rank = result_.value->shape.rank();
    if (rank == 0) return 0;
    int64_t global = result_.dims[rank - 1].offset;
    int64_t stride = result_.value->shape[rank - 1].size;
    for (int i = rank - 2; i >= 0; --i) {
      global +=
          (result_.dims[i].offset + row % result_.dims[i].extent) * stride;
      row /= result_.dims[i].extent;
      stride *= result_.value->shape[i].size;
    }
    return static_cast<uint64_t>(global);
  }

  void FillRow(uint32_t seed, uint32_t step, uint64_t global, int64_t count,
               int64_t offset) const {
    float buffer[kBuffer];
    for (int64_t done = 0; done < count; done += kBuffer) {
      const int64_t n = std::min(kBuffer, count - done);
      for (int64_t i = 0; i < n; ++i) {
        const PhiloxWords words =
            PhiloxAt(seed, attributes_.stream, step, global + done + i);
        buffer[i] = attributes_.kind == RandomKind::kUniform
                        ? UniformFromWord(words.word[0])
                        : NormalFromWords(words);
      }
      WriteFloats(result_.dtype(), buffer, n, result_.data, offset + done, 1);
    }
  }

  BoundValue result_;
  RandomAttributes attributes_;
};

}  // namespace

std::unique_ptr<Kernel> PrepareRandom(const Binding& binding) {
  return std::make_unique<RandomKernel>(binding);
}

}  // namespace mtf::cpu
