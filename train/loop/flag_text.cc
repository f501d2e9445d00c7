// SPDX-License-Identifier: Apache-2.0
//
// The flag --text, which a program has if it reads FLAGS_text.
#include <string>

#include "absl/flags/flag.h"

ABSL_FLAG(std::string, text, "",
          "file to train on; empty: the output of Debian's \"bible\"");
