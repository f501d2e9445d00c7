// SPDX-License-Identifier: Apache-2.0
//
// Every parser of text or bytes that come from outside, in the form that a
// fuzzer calls. CMakeLists.txt builds a libFuzzer program of each; parsers_test
// runs each on mutations of its seeds with any compiler.
#ifndef TESTS_FUZZ_PARSERS_H_
#define TESTS_FUZZ_PARSERS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf::fuzzing {

struct FuzzedParser {
  std::string name;
  // Valid inputs, from which a fuzzer starts.
  std::vector<std::string> seeds;
  // Parses `bytes` and, where the value has a text form, checks that its text
  // parses to the same text; ends the process if it does not.
  std::function<absl::Status(absl::string_view bytes)> parse;
};

// Parsers of what users write: layouts, meshes, machine files, programs, flags,
// and configurations of models.
std::vector<FuzzedParser> TextParsers();

// Parsers of checkpoints and weights.
std::vector<FuzzedParser> CheckpointParsers();

// Parsers of data sets, tokenizers and event files.
std::vector<FuzzedParser> DataParsers();

// All of them.
std::vector<FuzzedParser> AllParsers();

// Ends the process, with both texts, if they differ.
void CheckSameText(absl::string_view text, absl::string_view again);

// Writes a file for a parser that takes a path, and returns the path. A name
// has one file for each process.
std::string FuzzedFile(const std::string& name, absl::string_view bytes);

}  // namespace mtf::fuzzing

#endif  // TESTS_FUZZ_PARSERS_H_
