// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_EXECUTOR_TRACE_H_
#define BACKENDS_EXECUTOR_TRACE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lowering/program/program.h"

namespace mtf {

// Records when one rank ran each instruction of a step, as events for
// chrome://tracing and ui.perfetto.dev. Each rank is a row of the trace.
//
//   StepTrace trace(program, rank);
//   executor->TraceInto(&trace);
//   MTF_RETURN_IF_ERROR(executor->Run(feeds, seed, step, &outputs));
//   file << WriteTrace({trace.events()});
//
// Each instruction has the user's operation and line and the bytes it writes;
// each collective also has its bytes on the wire, its axes and the ranks of its
// group.
class StepTrace {
 public:
  using Clock = std::chrono::steady_clock;

  StepTrace(const Program& program, int64_t rank);

  // Adds a phase of the step that is not an instruction, such as "feeds".
  void AddPhase(absl::string_view name, Clock::time_point begin,
                Clock::time_point end);
  void AddInstruction(int index, Clock::time_point begin,
                      Clock::time_point end);

  // JSON objects in the trace event format, each preceded by a comma and a line
  // break. Times are of the host's clock, so the rows of one host line up.
  const std::string& events() const { return events_; }
  void Clear();

 private:
  void Add(absl::string_view name, absl::string_view category,
           Clock::time_point begin, Clock::time_point end,
           absl::string_view arguments);

  const Program& program_;
  const int64_t rank_;
  std::string events_;
};

// The contents of a trace file with the events of all ranks.
std::string WriteTrace(absl::Span<const std::string> events);

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_TRACE_H_
