// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/windows/pool_gradient.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/rounding.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/windows/pool_loops.h"
#include "backends/cpu/windows/pool_map.h"
#include "backends/cpu/windows/pool_planes.h"

namespace mtf::cpu {
namespace {

// Elements of the windows that a thread takes at a time: few enough for the
// first-level cache.
constexpr int64_t kWindowElements = 1024;
// If there are too few lines for the threads, they divide lines into chunks of
// about kChunkElements; of at least as many rows as kChunkSpans windows have,
// because windows at both ends of a chunk are computed for both.
constexpr int64_t kChunkElements = 16384, kChunkSpans = 8;
constexpr int64_t kTasksPerThread = 8;

// The memory of `value`, or null if no member accesses it.
float* FloatsOf(int value, absl::Span<const Binding> members) {
  for (const Binding& member : members) {
    const Instruction& instruction = member.instruction();
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (instruction.operands[i] != value) continue;
      return static_cast<float*>(member.operands[i].data);
    }
    if (instruction.results[0] == value) {
      return static_cast<float*>(member.results[0].data);
    }
  }
  return nullptr;
}

// Whether a map divides the gradient of windows by their hits.
bool DividesByHits(const Instruction& map, int gradient, int hits) {
  const MapExpression& expression = map.Get<MapAttributes>().expression;
  if (expression.steps.size() != 1) return false;
  const MapStep& step = expression.steps[0];
  return step.function == ScalarFunction::kDivide &&
         map.operands[step.arguments[0]] == gradient &&
         map.operands[step.arguments[1]] == hits;
}

// The gradient along one dimension with its memory.
struct GradientStep {
  PoolWindows windows;
  const float *input = nullptr, *output = nullptr;  // of a maximum
  // Null if the maps or the stage before compute it.
  const float* share = nullptr;
  float* result = nullptr;  // null: in scratch memory
  std::vector<PoolMap> maps;
  // Elements of a row that are computed at a time, and windows if they are all.
  int64_t block = 1, at_once = 1;
  // Offsets in scratch memory, in elements: two buffers for the elements of
  // windows, and the result.
  int64_t buffers[2] = {0, 0}, scratch = 0;

  int64_t span() const { return (windows.window - 1) * windows.dilation + 1; }
  int64_t line_elements() const { return windows.line * windows.inner; }
};

// Some rows of a line, and elements [element, element + n) of each.
struct RowTask {
  int64_t line = 0, begin = 0, end = 0, element = 0, n = 0;
};

class PoolGradientKernel : public Kernel {
 public:
  PoolGradientKernel(const PoolGradientSpec& spec,
                     absl::Span<const Binding> members) {
    int before = -1;
    for (const PoolGradientSpec::Stage& stage : spec.stages) {
      AddStage(stage, before, members);
      before = stage.result;
    }
    if (IsPlane(spec, members)) {
      plane_ = PoolPlane::Of(stages_[1].windows, stages_[0].windows);
    }
    if (plane_.has_value()) {
      plane_share_ = ShareToDivide(spec.stages[0], members);
      for (int64_t& buffer : stages_[0].buffers) {
        buffer = ReserveScratch(plane_->window_elements());
      }
    }
  }

  void Run(StepContext&) override {
    const GradientStep& last = stages_.back();
    const PoolWindows& windows = last.windows;
    const int64_t elements = windows.outer * last.line_elements();
    if (elements == 0) return;
    const int64_t blocks = CeilDivide(windows.inner, last.block);
    int64_t chunk = windows.line;
    if (windows.outer * blocks < kTasksPerThread * NumThreads()) {
      chunk = std::max(kChunkSpans * last.span(), kChunkElements / last.block);
    }
    const int64_t chunks = CeilDivide(windows.line, chunk);
    const int64_t tasks = windows.outer * chunks * blocks;
    ParallelFor(
        tasks, kChunkElements * tasks / elements + 1,
        [&](int64_t first, int64_t end) {
          Worker worker(*this);
          for (int64_t i = first; i < end; ++i) {
            const int64_t begin = i / blocks % chunks * chunk;
            const int64_t element = i % blocks * last.block;
            worker.RunRows(
                stages_.size() - 1,
                {i / blocks / chunks, begin,
                 std::min(begin + chunk, windows.line), element,
                 std::min(last.block, windows.inner - element)},
                last.result + i / blocks / chunks * last.line_elements());
          }
        });
  }

 private:
  // One thread in one run.
  class Worker {
   public:
    explicit Worker(const PoolGradientKernel& kernel)
        : stages_(kernel.stages_),
          plane_(kernel.plane_),
          plane_share_(kernel.plane_share_),
          scratch_(static_cast<float*>(ThreadScratch(
              ScratchUse::kKernel,
              kernel.scratch_elements_ * int64_t{sizeof(float)}))) {
      for (const GradientStep& stage : stages_) {
        auto& evaluators = evaluators_.emplace_back();
        for (const PoolMap& map : stage.maps) {
          evaluators.push_back(
              std::make_unique<BlockProgram::Evaluator>(map.program()));
        }
      }
    }

    // Computes rows of a line of a stage, which begins at `result`.
    void RunRows(size_t index, const RowTask& task, float* result) {
      if (index == 1 && plane_.has_value()) return RunPlanes(task, result);
      const GradientStep& stage = stages_[index];
      const PoolWindows& windows = stage.windows;
      ResultRows rows = {result + task.element, task.begin, task.end,
                         task.begin};
      // The windows that have any of the rows.
      const int64_t after = task.begin + windows.before - stage.span() + 1;
      const int64_t first = after <= 0 ? 0 : CeilDivide(after, windows.stride);
      const int64_t last =
          std::min(windows.windows,
                   (task.end - 1 + windows.before) / windows.stride + 1);
      const int64_t at_once = task.n == windows.inner ? stage.at_once : 1;
      const float* const input =
          stage.input == nullptr
              ? nullptr
              : stage.input + task.line * stage.line_elements() + task.element;
      for (int64_t i = first; i < last; i += at_once) {
        const WindowTile tile = {i, std::min(at_once, last - i), task.n};
        // The first element of the tile.
        const int64_t at =
            (task.line * windows.windows + i) * windows.inner + task.element;
        const float* const output =
            input == nullptr ? nullptr : stage.output + at;
        const float* const share =
            Share(index, at, tile.count * task.n, [&](float* hits) {
              CountHits(windows, tile, input, output, hits);
            });
        AddShares(windows, tile, input, output, share, rows);
      }
      for (int64_t row = rows.written; row < task.end; ++row) {
        float* const to = rows.line + row * windows.inner;
        std::fill(to, to + task.n, 0.0f);
      }
    }

   private:
    // Computes rows of a line of the second of two stages that one loop takes.
    void RunPlanes(const RowTask& task, float* result) {
      const PoolPlane& plane = *plane_;
      const GradientStep &columns = stages_[0], &rows = stages_[1];
      const int64_t row = plane.row_elements();
      const int64_t covered = rows.windows.windows * plane.rows;
      for (int64_t i = task.begin / plane.rows;
           i * plane.rows < std::min(task.end, covered); ++i) {
        const int64_t line = task.line * rows.windows.windows + i;
        const int64_t first = i * plane.rows;
        const int64_t at = line * plane.window_elements();
        PlaneExtrema extrema;
        if (rows.input != nullptr) {
          extrema = {rows.input + (task.line * rows.windows.line + first) * row,
                     columns.input + line * row, columns.output + at,
                     plane_share_ != nullptr};
        }
        const float* const share =
            plane_share_ != nullptr
                ? plane_share_ + at
                : Share(0, at, plane.window_elements(), [&](float* hits) {
                    CountHits(columns.windows, {0, plane.windows, plane.inner},
                              extrema.over_rows, extrema.reduced, hits);
                  });
        SpreadPlane(
            plane, extrema, share, std::max<int64_t>(task.begin - first, 0),
            std::min(task.end - first, plane.rows), result + first * row);
      }
      if (covered >= task.end) return;
      std::fill(result + std::max(covered, task.begin) * row,
                result + task.end * row, 0.0f);
    }

    // The shares of `count` elements from `at` on, one after the other.
    template <class Count>
    const float* Share(size_t index, int64_t at, int64_t count,
                       const Count& count_hits) {
      const GradientStep& stage = stages_[index];
      const float* before = nullptr;  // of the stage before
      if (index > 0) before = RunStageBefore(index, at, count);
      if (stage.maps.empty()) {
        return before != nullptr ? before : stage.share + at;
      }
      float* buffers[2] = {scratch_ + stage.buffers[0],
                           scratch_ + stage.buffers[1]};
      if (stage.input != nullptr) count_hits(buffers[0]);
      const auto address = [&](const float* elements) -> const void* {
        return AddressOfFirst(const_cast<float*>(elements), at, sizeof(float));
      };
      for (size_t i = 0; i < stage.maps.size(); ++i) {
        const void* const sources[2] = {
            address(buffers[i % 2]),
            before == nullptr ? nullptr : address(before)};
        stage.maps[i].Run(
            *evaluators_[index][i], sources, at, count,
            AddressOfFirst(buffers[(i + 1) % 2], at, sizeof(float)));
      }
      return buffers[stage.maps.size() % 2];
    }

    // Computes `count` elements from `at` on of the result of the stage before,
    // which are complete lines.
    const float* RunStageBefore(size_t index, int64_t at, int64_t count) {
      const GradientStep& stage = stages_[index - 1];
      const PoolWindows& windows = stage.windows;
      const int64_t elements = stage.line_elements();
      float* result = scratch_ + stage.scratch;
      for (int64_t done = 0; done < count; done += elements) {
        for (int64_t n = 0; n < windows.inner; n += stage.block) {
          RunRows(index - 1,
                  {(at + done) / elements, 0, windows.line, n,
                   std::min(stage.block, windows.inner - n)},
                  result + done);
        }
      }
      return result;
    }

    const std::vector<GradientStep>& stages_;
    const std::optional<PoolPlane>& plane_;
    const float* const plane_share_;
    float* const scratch_;
    // By stage and map.
    std::vector<std::vector<std::unique_ptr<BlockProgram::Evaluator>>>
        evaluators_;
  };

  // Whether one loop may take both stages: it has the map of the second.
  static bool IsPlane(const PoolGradientSpec& spec,
                      absl::Span<const Binding> members) {
    if (spec.stages.size() != 2) return false;
    const PoolGradientSpec::Stage& first = spec.stages[0];
    const PoolGradientSpec::Stage& second = spec.stages[1];
    if ((first.input < 0) != (second.input < 0)) return false;
    if (second.input < 0) return second.maps.empty();
    // What the windows of rows give is what the windows of columns read.
    return second.output == first.input && second.maps.size() == 1 &&
           DividesByHits(MemberOf(second.maps[0], members).instruction(),
                         first.result, second.hits);
  }

  // The gradient of the windows, if all that the maps of the first stage do is
  // to divide it by the hits; otherwise null.
  static const float* ShareToDivide(const PoolGradientSpec::Stage& stage,
                                    absl::Span<const Binding> members) {
    if (stage.input < 0 || stage.maps.size() != 1) return nullptr;
    const Binding& map = MemberOf(stage.maps[0], members);
    for (size_t i = 0; i < map.operands.size(); ++i) {
      const BoundValue& share = map.operands[i];
      if (DividesByHits(map.instruction(), map.instruction().operands[i],
                        stage.hits) &&
          share.dtype() == kFloat32 &&
          share.value->shape == map.results[0].value->shape) {
        return static_cast<const float*>(share.data);
      }
    }
    return nullptr;
  }

  int64_t ReserveScratch(int64_t elements) {
    const int64_t offset = scratch_elements_;
    // Vector loops read and write beyond the last element.
    scratch_elements_ += (elements + 15) / 16 * 16 + 16;
    return offset;
  }

  // `before` is the result of the stage before, or -1.
  void AddStage(const PoolGradientSpec::Stage& stage, int before,
                absl::Span<const Binding> members) {
    GradientStep step;
    step.windows = stage.windows;
    if (stage.input >= 0) {
      step.input = FloatsOf(stage.input, members);
      step.output = FloatsOf(stage.output, members);
    }
    step.share = FloatsOf(stage.share, members);
    step.result = FloatsOf(stage.result, members);
    // A map that repeats its operands has the windows as its last dimension.
    const int dims = members[0].program->values[stage.result].shape.rank();
    int source = stage.hits;
    for (int instruction : stage.maps) {
      const Binding& map = MemberOf(instruction, members);
      step.maps.emplace_back(map, std::vector<int>{source, before}, dims);
      source = map.instruction().results[0];
    }
    const int64_t inner = std::max<int64_t>(step.windows.inner, 1);
    step.at_once = std::max<int64_t>(kWindowElements / inner, 1);
    // What the stage before computes is all elements of a row.
    step.block = before >= 0 ? inner : std::min(inner, kWindowElements);
    const int64_t elements = step.at_once * step.block;
    for (int64_t& buffer : step.buffers) buffer = ReserveScratch(elements);
    if (before >= 0) {
      stages_.back().scratch = ReserveScratch(step.at_once * inner);
    }
    stages_.push_back(std::move(step));
  }

  std::vector<GradientStep> stages_;
  // Of both stages, if one loop takes both.
  std::optional<PoolPlane> plane_;
  // What that loop divides by the hits of the first stage, or null.
  const float* plane_share_ = nullptr;
  int64_t scratch_elements_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> PreparePoolGradient(const PoolGradientSpec& spec,
                                            absl::Span<const Binding> members) {
  return std::make_unique<PoolGradientKernel>(spec, members);
}

}  // namespace mtf::cpu
