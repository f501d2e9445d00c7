// SPDX-License-Identifier: Apache-2.0
//
// The subcommands of the program mtf (tools/mtf.cc), one source each.
#ifndef TOOLS_MTF_COMMANDS_H_
#define TOOLS_MTF_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace mtf::tools {

struct Command {
  std::string name;
  std::string arguments;           // "PROGRAM.txt", as the usage shows them
  std::string summary;             // one line
  std::vector<std::string> flags;  // names of the flags it takes
  // Called with the arguments that are not flags.
  absl::Status (*run)(const std::vector<std::string>& arguments);
};

Command ExplainCommand();
Command DiffCommand();
Command VerifyCommand();
Command CalibrateCommand();
Command SearchCommand();
Command TokenizeCommand();

}  // namespace mtf::tools

#endif  // TOOLS_MTF_COMMANDS_H_
