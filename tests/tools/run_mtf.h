// SPDX-License-Identifier: Apache-2.0
//
// The command mtf as a user starts it, and the files it is given.
#ifndef TESTS_TOOLS_RUN_MTF_H_
#define TESTS_TOOLS_RUN_MTF_H_

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/run_command.h"

namespace mtf::testing {

// Holds `text` and is gone with the object.
class File {
 public:
  File(const std::string& name, const std::string& text)
      : path_(Temporary(name)) {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The time limit turns a hang into a failure. `before` is shell.
inline Outcome RunMtf(const std::string& arguments,
                      const std::string& before = "") {
  return RunCommand(
      absl::StrCat(before, "timeout 120 ", MTF_COMMAND, " ", arguments));
}

}  // namespace mtf::testing

#endif  // TESTS_TOOLS_RUN_MTF_H_
