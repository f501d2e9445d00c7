// SPDX-License-Identifier: Apache-2.0
//
// The libFuzzer program of the parser FUZZ_PARSER:
//
//   fuzz_layout -write_seeds=corpus/    writes its seeds as files and ends
//   fuzz_layout corpus/                 fuzzes; see the options of libFuzzer
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

#include "tests/fuzz/parsers.h"

namespace {

const mtf::fuzzing::FuzzedParser& Parser() {
  static const auto* const kParser = [] {
    for (mtf::fuzzing::FuzzedParser& parser : mtf::fuzzing::AllParsers()) {
      if (parser.name == FUZZ_PARSER) {
        return new mtf::fuzzing::FuzzedParser(std::move(parser));
      }
    }
    std::cerr << "no parser is called " FUZZ_PARSER "\n";
    std::abort();
  }();
  return *kParser;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr char kFlag[] = "-write_seeds=";
  for (int i = 1; i < *argc; ++i) {
    if (std::strncmp((*argv)[i], kFlag, sizeof(kFlag) - 1) != 0) continue;
    const std::string folder = (*argv)[i] + sizeof(kFlag) - 1;
    int number = 0;
    for (const std::string& seed : Parser().seeds) {
      std::ofstream file(folder + "/seed_" + std::to_string(number++),
                         std::ios::binary);
      if (!(file << seed)) {
        std::cerr << "cannot write into the folder \"" << folder << "\"\n";
        std::exit(1);
      }
    }
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Status status = Parser().parse(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  // An error says what is wrong.
  if (!status.ok() && status.message().empty()) std::abort();
  return 0;
}
