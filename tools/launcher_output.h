// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_LAUNCHER_OUTPUT_H_
#define TOOLS_LAUNCHER_OUTPUT_H_

#include <string>

namespace mtf::tools {

// Removes from the error output of mpirun what it adds when a rank has failed
// with a message of its own: that a process returned another exit code than 0,
// or called MPI_Abort; after a timeout also that a stopped rank, which goes on
// at the end of the job, finds no files. Everything else passes: the output of
// the ranks, signals that ended a rank, and errors of the launcher itself.
//
//   LauncherOutput output;
//   std::cerr << output.Add(text);   // for each text that was read
//   std::cerr << output.End();
//
// The blocks of mpirun are framed by lines of 74 dashes, and it writes each at
// once, so only a line of dashes waits for the text that follows it.
class LauncherOutput {
 public:
  // Returns the part of `text`, and of what was held back, that can be printed.
  std::string Add(const std::string& text);
  // Returns what is still held back at the end of the output.
  std::string End();

  // The removed blocks. They are all there is to say if no other output was.
  const std::string& removed() const { return removed_; }
  bool has_other() const { return has_other_; }
  // Whether mpirun said which signal ended a rank; at times it does not.
  bool names_signal() const { return names_signal_; }

 private:
  std::string TakeLine();
  // Appends `text` to what is printed.
  void Pass(const std::string& text, std::string& passed);

  std::string held_;       // not yet decided, from the beginning of a line
  std::string removed_;    // blocks with their frames
  std::string line_;       // the unfinished line that was returned
  bool in_line_ = false;   // there is one
  bool in_block_ = false;  // of those to remove
  bool has_other_ = false;
  bool names_signal_ = false;
  bool timed_out_ = false;  // a rank has reported a timeout
};

}  // namespace mtf::tools

#endif  // TOOLS_LAUNCHER_OUTPUT_H_
