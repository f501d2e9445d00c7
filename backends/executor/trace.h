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

// What one rank did in a step, and when: the rows of a trace that
// chrome://tracing and ui.perfetto.dev show, one for each rank.
//
//   StepTrace trace(program, rank);
//   executor->TraceInto(&trace);
//   MTF_RETURN_IF_ERROR(executor->Run(feeds, seed, step, &outputs));
//   file << WriteTrace({trace.events()});
//
// Instructions carry the operation and the line of the user that made them, and
// the bytes they write; collectives their bytes on the wire, their axes and the
// ranks of their group.
class StepTrace {
 public:
  using Clock = std::chrono::steady_clock;

  StepTrace(const Program& program, int64_t rank);

  // A part of the step that is no instruction, such as "feeds".
  void AddPart(absl::string_view name, Clock::time_point begin,
               Clock::time_point end);
  void AddInstruction(int index, Clock::time_point begin,
                      Clock::time_point end);

  // Objects of the trace event format, each behind a comma and a line break.
  // Times are those of the host's clock, so rows of one host line up.
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

// A whole file from the events of its ranks.
std::string WriteTrace(absl::Span<const std::string> events);

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_TRACE_H_
