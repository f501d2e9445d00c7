// SPDX-License-Identifier: Apache-2.0
//
// Declarations shared by the parts of gpu_benchmark. Figures are lines of JSON
// in the format of benchmarks/peers/README.md.
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
  bool tiny = false;   // sizes suitable for the reference device
  int repeats = 20;    // timed runs of each measurement

  absl::StatusOr<std::unique_ptr<Device>> Open() const;
};

struct Timing {
  double milliseconds = 0;  // of one run, the median
  double spread = 0;        // of the middle half, relative to the median
};

// Times `run`, which may only enqueue, until `wait` returns. After a warm-up,
// measures `repeats` times for at least `least_ms` each.
absl::StatusOr<Timing> Measure(const std::function<absl::Status()>& run,
                               const std::function<absl::Status()>& wait,
                               int repeats, double least_ms);

// Prints a measurement; `more` has further fields, as in ",\"bytes\":1".
void Emit(const GpuBenchmark& settings, const std::string& name,
          const std::string& unit, double value, const Timing& timing,
          const std::string& more = "");
// Prints the reason for a missing measurement.
void EmitSkip(const GpuBenchmark& settings, const std::string& name,
              const absl::Status& reason);

// The parts. Each prints what it cannot measure; an error is a failure.
//
// Large copies on the device, and einsums of GPT's shapes one by one.
absl::Status MeasureCopy(const GpuBenchmark& settings);
absl::Status MeasureEinsums(const GpuBenchmark& settings);
// Prints their names and sizes, to compare with peers/einsum_torch.py --list.
void ListEinsums(bool tiny);
// Maps, norms, softmax, loss and AdamW as steps of a session.
absl::Status MeasureKernels(const GpuBenchmark& settings);
// A training step of few tokens.
absl::Status MeasureLaunches(const GpuBenchmark& settings);
// A training step on eight virtual devices, relative to one with all the work.
absl::Status MeasureMeshes(const GpuBenchmark& settings);
// The memory that a training step allocates, and that of its plan.
absl::Status MeasureMemory(const GpuBenchmark& settings);

}  // namespace mtf

#endif  // BENCHMARKS_GPU_BENCHMARK_H_
