// SPDX-License-Identifier: Apache-2.0
//
// What the parts of gpu_benchmark share. Figures are lines of JSON in the form
// of benchmarks/peers/README.md.
#ifndef BENCHMARKS_GPU_BENCHMARK_H_
#define BENCHMARKS_GPU_BENCHMARK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/backend.h"

namespace mtf {

struct GpuBenchmark {
  std::string device;  // a name of DeviceNames()
  bool tiny = false;   // sizes that a device of plain loops can do
  int repeats = 20;    // of what is timed

  absl::StatusOr<std::unique_ptr<Device>> Open() const;
};

struct Timing {
  double milliseconds = 0;  // of one run, the median
  double spread = 0;        // of the middle half, relative to the median
};

// Times `run`, which may only enqueue, to the end of `wait`: after a few runs
// that do not count, `repeats` times at least `least_ms` each.
absl::StatusOr<Timing> Measure(const std::function<absl::Status()>& run,
                               const std::function<absl::Status()>& wait,
                               int repeats, double least_ms);

// Prints a measurement; `more` is further fields, as ",\"bytes\":1".
void Emit(const GpuBenchmark& settings, const std::string& name,
          const std::string& unit, double value, const Timing& timing,
          const std::string& more = "");
// Prints why there is none.
void EmitSkip(const GpuBenchmark& settings, const std::string& name,
              const absl::Status& reason);

// The parts. Each says by itself what it cannot do; an error is a failure.
//
// Large copies by the device, and einsums of GPT's shapes one by one.
absl::Status MeasureCopy(const GpuBenchmark& settings);
absl::Status MeasureEinsums(const GpuBenchmark& settings);
// Their names and sizes, for comparison with peers/einsum_torch.py --list.
void ListEinsums(bool tiny);
// Maps, norms, softmax, loss and AdamW as steps of a session.
absl::Status MeasureKernels(const GpuBenchmark& settings);
// A training step of few tokens.
absl::Status MeasureLaunches(const GpuBenchmark& settings);
// A training step on eight virtual devices beside one that does all the work.
absl::Status MeasureMeshes(const GpuBenchmark& settings);
// What a training step takes of the device beside what its plan says.
absl::Status MeasureMemory(const GpuBenchmark& settings);

}  // namespace mtf

#endif  // BENCHMARKS_GPU_BENCHMARK_H_
