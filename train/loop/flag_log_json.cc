// SPDX-License-Identifier: Apache-2.0
//
// The flag --log_json, which a program has if it reads FLAGS_log_json.
#include <string>

#include "absl/flags/flag.h"

ABSL_FLAG(std::string, log_json, "",
          "writes one JSON object for each step to this file");
