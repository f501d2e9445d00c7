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

// Whether `line` counts such blocks of further ranks, or is the advice that
// follows a count.
bool IsNoise(const std::string& line) {
  return Contains(line, "sent help message help-mpi-api.txt / mpi-abort") ||
         Contains(line, "Set MCA parameter \"orte_base_help_aggregate\" to 0");
}

}  // namespace

std::string LauncherOutput::TakeLine() {
  const size_t size = held_.find('\n') + 1;  // 0 if there is none
  std::string line = held_.substr(0, size == 0 ? held_.size() : size);
  held_.erase(0, line.size());
  return line;
}

std::string LauncherOutput::Add(const std::string& text) {
  held_ += text;
  std::string passed;
  while (!held_.empty()) {
    const size_t end = held_.find('\n');
    const bool complete = end != std::string::npos;
    if (in_line_) {
      passed += TakeLine();
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
      in_block_ = BeginsNoise(held_.substr(end + 1, next_end - end - 1));
      (in_block_ ? removed_ : passed) += TakeLine();
    } else if (!complete && Frame().compare(0, line.size(), line) == 0) {
      break;
    } else if (complete && IsNoise(line)) {
      TakeLine();
    } else {
      passed += TakeLine();
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
