// SPDX-License-Identifier: Apache-2.0
#include "tools/launcher_output.h"

#include <algorithm>
#include <utility>

namespace mtf::tools {
namespace {

const std::string& Frame() {
  static const std::string& frame = *new std::string(74, '-');
  return frame;
}

bool Contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Whether `line` is the first of a block that only says that a rank failed.
bool BeginsNoise(const std::string& line) {
  return Contains(line, "Primary job  terminated normally, but") ||
         Contains(line,
                  "detected that one or more processes exited with "
                  "non-zero status") ||
         Contains(line, "MPI_ABORT was invoked on rank");
}

// Whether `line` is the first of a block of a rank that was stopped in MPI_Init
// and goes on when the launcher, which ends the job, has removed its files.
bool BeginsNoiseOfStoppedRank(const std::string& line) {
  return Contains(line,
                  "A system call failed during shared memory initialization");
}

// Whether `line` counts such blocks of further ranks, or is the advice that
// follows a count.
bool IsNoise(const std::string& line, bool timed_out) {
  return Contains(line, "sent help message help-mpi-api.txt / mpi-abort") ||
         (timed_out &&
          Contains(line, "sent help message help-opal-shmem-mmap.txt")) ||
         Contains(line, "Set MCA parameter \"orte_base_help_aggregate\" to 0");
}

}  // namespace

std::string LauncherOutput::TakeLine() {
  const size_t size = held_.find('\n') + 1;  // 0 if there is none
  std::string line = held_.substr(0, size == 0 ? held_.size() : size);
  held_.erase(0, line.size());
  return line;
}

void LauncherOutput::Pass(const std::string& text, std::string& passed) {
  passed += text;
  if (line_.size() < 100) line_ += text;  // the code of an error is in front
  if (text.empty() || text.back() != '\n') return;
  timed_out_ = timed_out_ || Contains(line_, "DEADLINE_EXCEEDED ");
  line_.clear();
}

std::string LauncherOutput::Add(const std::string& text) {
  held_ += text;
  std::string passed;
  while (!held_.empty()) {
    const size_t end = held_.find('\n');
    const bool complete = end != std::string::npos;
    if (in_line_) {
      Pass(TakeLine(), passed);
      in_line_ = !complete;
      continue;
    }
    const std::string line = held_.substr(0, end);
    if (in_block_) {
      if (!complete) break;
      removed_ += TakeLine();
      in_block_ = line != Frame();
    } else if (line == Frame()) {
      const size_t next_end =
          complete ? held_.find('\n', end + 1) : std::string::npos;
      if (next_end == std::string::npos) break;
      const std::string title = held_.substr(end + 1, next_end - end - 1);
      in_block_ =
          BeginsNoise(title) || (timed_out_ && BeginsNoiseOfStoppedRank(title));
      (in_block_ ? removed_ : passed) += TakeLine();
    } else if (!complete && Frame().compare(0, line.size(), line) == 0) {
      break;
    } else if (complete && IsNoise(line, timed_out_)) {
      TakeLine();
    } else {
      Pass(TakeLine(), passed);
      in_line_ = !complete;
    }
  }
  has_other_ = has_other_ || !passed.empty();
  names_signal_ = names_signal_ || Contains(passed, "exited on signal");
  return passed;
}

std::string LauncherOutput::End() {
  std::string rest = std::exchange(held_, "");
  if (in_block_) {
    removed_ += rest;
    return "";
  }
  has_other_ = has_other_ || !rest.empty();
  return rest;
}

}  // namespace mtf::tools
