// SPDX-License-Identifier: Apache-2.0
//
// Runs programs from tests as a user runs them.
#ifndef TESTS_RUN_COMMAND_H_
#define TESTS_RUN_COMMAND_H_

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mtf::testing {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string errors;
};

inline std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A temporary path. Unique per process, because tests run concurrently.
inline std::string Temporary(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/mtf_", getpid(), "_", name);
}

// Runs a shell command. Include "timeout 60" to make a hang a failure.
inline Outcome RunCommand(const std::string& command) {
  const std::string out = Temporary("out"), errors = Temporary("errors");
  const int status =
      std::system(absl::StrCat(command, " >", out, " 2>", errors).c_str());
  Outcome outcome = {WEXITSTATUS(status), ReadText(out), ReadText(errors)};
  std::remove(out.c_str());
  std::remove(errors.c_str());
  return outcome;
}

}  // namespace mtf::testing

#endif  // TESTS_RUN_COMMAND_H_
