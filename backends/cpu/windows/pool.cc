// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/windows/pool.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/scratch.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/windows/pool_gradient.h"
#include "backends/cpu/windows/pool_loops.h"
#include "backends/cpu/windows/pool_map.h"
#include "backends/cpu/windows/pool_planes.h"
#include "lowering/program/pool_spec.h"

namespace mtf::cpu {
namespace {

// Results of the first stage that a thread takes through all stages at a time,
// at least one window: few enough for the first-level cache.
constexpr int64_t kPoolTileElements = 2048;
// Minimum number of elements of the windows per thread.
constexpr int64_t kPoolGrain = 16384;

int64_t RoundUpTo64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// One reduction with its memory. A tile is some windows of the first stage with
// all that later stages make of them.
struct StageStep {
  PoolWindows windows;
  ReduceKind kind = ReduceKind::kMax;
  float* reduced = nullptr;  // null: in scratch memory
  std::optional<PoolMap> map;
  // Elements of the result for each window of the first stage.
  int64_t elements = 0;
  // Offsets in scratch memory of the reduced windows and the results of the
  // map, in bytes.
  int64_t reduced_scratch = 0, mapped_scratch = 0;

  bool maps_to_scratch() const {
    return map.has_value() && map->result() == nullptr;
  }
};

class PoolKernel : public Kernel {
 public:
  PoolKernel(const PoolSpec& spec, absl::Span<const Binding> members) {
    input_ = static_cast<const float*>(members[0].operands[0].data);
    const PoolWindows& first = spec.stages[0].windows;
    const int64_t slabs = first.outer * first.windows;
    // Empty dimensions have no slabs.
    tile_ = std::clamp<int64_t>(
        kPoolTileElements / std::max<int64_t>(first.inner, 1), 1,
        std::max<int64_t>(first.windows, 1));
    for (const PoolSpec::Stage& stage : spec.stages) {
      AddStage(stage, members, slabs);
    }
    if (stages_.size() < 2 || stages_[0].map.has_value() ||
        stages_[0].kind != stages_[1].kind) {
      return;
    }
    const PoolWindows &rows = stages_[0].windows, &columns = stages_[1].windows;
    plane_ = PoolPlane::Of(rows, columns);
    planes_overlap_ = !plane_.has_value() && stages_[0].reduced == nullptr &&
                      CanReduceOverlappingPlanes(rows, columns);
    if (has_planes()) DivideInPlane(spec, members);
  }

  void Run(StepContext&) override {
    const PoolWindows& first = stages_[0].windows;
    const int64_t tiles = (first.windows + tile_ - 1) / tile_;
    const int64_t read = tile_ * first.inner * first.window;
    ParallelFor(first.outer * tiles,
                kPoolGrain / std::max<int64_t>(read, 1) + 1,
                [&](int64_t begin, int64_t end) {
                  Worker worker(*this);
                  for (int64_t i = begin; i < end; ++i) {
                    worker.RunTile(i / tiles, i % tiles * tile_);
                  }
                });
  }

 private:
  // One thread in one run.
  class Worker {
   public:
    explicit Worker(const PoolKernel& kernel)
        : kernel_(kernel),
          scratch_(static_cast<std::byte*>(
              ThreadScratch(ScratchUse::kKernel, kernel.scratch_bytes_))) {
      for (const StageStep& stage : kernel.stages_) {
        evaluators_.push_back(stage.map.has_value()
                                  ? std::make_unique<BlockProgram::Evaluator>(
                                        stage.map->program())
                                  : nullptr);
      }
    }

    // The windows from `window` on of one line of the first stage.
    void RunTile(int64_t outer, int64_t window) {
      const PoolWindows& first = kernel_.stages_[0].windows;
      const int64_t count = std::min(kernel_.tile_, first.windows - window);
      const int64_t slab = outer * first.windows + window;
      const float* from = kernel_.input_ + outer * first.line * first.inner;
      const bool has_planes = kernel_.has_planes();
      for (size_t i = has_planes ? 1 : 0; i < kernel_.stages_.size(); ++i) {
        const StageStep& stage = kernel_.stages_[i];
        const int64_t begin = slab * stage.elements;
        float* const reduced =
            stage.reduced != nullptr
                ? stage.reduced + begin
                : reinterpret_cast<float*>(scratch_ + stage.reduced_scratch);
        if (has_planes && i == 1) {
          if (kernel_.planes_overlap_) {
            ReduceOverlappingPlanes(first, stage.windows, stage.kind, from,
                                    window, count, kernel_.divisor_, reduced);
          } else {
            ReducePlanes(from + window * first.stride * first.inner, slab,
                         count, reduced);
          }
        } else if (i == 0) {
          ReduceWindows(first, stage.kind, from, window, count, reduced);
        } else {
          ReduceLines(stage, from, count, reduced);
        }
        from = reduced;
        if (stage.map.has_value()) {
          from = RunMap(i, begin, count * stage.elements, reduced);
        }
      }
    }

   private:
    // The first two stages of `count` windows of the first, which begin at
    // `from`.
    void ReducePlanes(const float* from, int64_t slab, int64_t count,
                      float* reduced) {
      const PoolPlane& plane = *kernel_.plane_;
      const StageStep& first = kernel_.stages_[0];
      for (int64_t i = 0; i < count; ++i) {
        float* const over_rows =
            first.reduced == nullptr
                ? nullptr
                : first.reduced + (slab + i) * first.elements;
        ReducePlane(
            plane, first.kind, from + i * plane.rows * plane.row_elements(),
            kernel_.divisor_, over_rows, reduced + i * plane.window_elements());
      }
    }

    static void ReduceLines(const StageStep& stage, const float* from,
                            int64_t slabs, float* to) {
      const PoolWindows& windows = stage.windows;
      const int64_t results = windows.windows * windows.inner;
      if (results == 0) return;
      const int64_t lines = slabs * stage.elements / results;
      for (int64_t line = 0; line < lines; ++line) {
        ReduceWindows(windows, stage.kind,
                      from + line * windows.line * windows.inner, 0,
                      windows.windows, to + line * results);
      }
    }

    // Returns the first of the results, which the next stage reads.
    const float* RunMap(size_t index, int64_t begin, int64_t count,
                        float* reduced) {
      const StageStep& stage = kernel_.stages_[index];
      void* const scratch = scratch_ + stage.mapped_scratch;
      void* const to =
          stage.maps_to_scratch()
              ? AddressOfFirst(scratch, begin, stage.map->element_bytes())
              : stage.map->result();
      const void* const source = AddressOfFirst(reduced, begin, sizeof(float));
      stage.map->Run(*evaluators_[index], {source}, begin, count, to);
      return stage.maps_to_scratch() ? static_cast<const float*>(scratch)
                                     : static_cast<const float*>(to) + begin;
    }

    const PoolKernel& kernel_;
    std::byte* const scratch_;
    std::vector<std::unique_ptr<BlockProgram::Evaluator>> evaluators_;
  };

  void AddStage(const PoolSpec::Stage& stage, absl::Span<const Binding> members,
                int64_t slabs) {
    StageStep step;
    step.windows = stage.windows;
    step.kind = stage.kind;
    const Binding& reduce = MemberOf(stage.reduce, members);
    step.reduced = static_cast<float*>(reduce.results[0].data);
    step.elements = reduce.results[0].elements() / std::max<int64_t>(slabs, 1);
    if (stage.map >= 0) {
      const Binding& map = MemberOf(stage.map, members);
      step.map.emplace(map, reduce.instruction().results,
                       map.results[0].value->shape.rank());
    }
    // Vector loops read and write beyond the last element.
    const int64_t bytes =
        RoundUpTo64(tile_ * step.elements * int64_t{sizeof(float)}) + 64;
    if (step.reduced == nullptr) {
      step.reduced_scratch = scratch_bytes_;
      scratch_bytes_ += bytes;
    }
    if (step.maps_to_scratch()) {
      step.mapped_scratch = scratch_bytes_;
      scratch_bytes_ += bytes;
    }
    stages_.push_back(std::move(step));
  }

  bool has_planes() const { return plane_.has_value() || planes_overlap_; }

  // Lets the loop over planes divide, if that is all that the map does.
  void DivideInPlane(const PoolSpec& spec, absl::Span<const Binding> members) {
    StageStep& stage = stages_[1];
    if (!stage.map.has_value() || stage.reduced != nullptr) return;
    const Binding& map = MemberOf(spec.stages[1].map, members);
    const auto& steps = map.instruction().Get<MapAttributes>().expression.steps;
    if (steps.size() != 2 || map.operands.size() != 1 ||
        map.results[0].dtype() != kFloat32 ||
        steps[0].function != ScalarFunction::kLiteral ||
        steps[1].function != ScalarFunction::kDivide ||
        steps[1].arguments[0] != 0 || steps[1].arguments[1] != 1) {
      return;
    }
    divisor_ = static_cast<float>(steps[0].literal);
    stage.reduced = static_cast<float*>(stage.map->result());
    stage.map.reset();
  }

  const float* input_ = nullptr;
  int64_t tile_ = 1;  // windows of the first stage
  std::vector<StageStep> stages_;
  // If one loop takes the first two stages: their planes, or whether those
  // overlap.
  std::optional<PoolPlane> plane_;
  bool planes_overlap_ = false;
  float divisor_ = 1;
  int64_t scratch_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PreparePool(
    const FusedGroup& group, absl::Span<const Binding> members) {
  const Program& program = *members[0].program;
  if (const auto pool = FindPool(program, group.members)) {
    return std::make_unique<PoolKernel>(*pool, members);
  }
  const auto gradient = FindPoolGradient(program, group.members);
  if (!gradient.has_value()) {
    return absl::InternalError("the group is not a pooling");
  }
  return PreparePoolGradient(*gradient, members);
}

}  // namespace mtf::cpu
