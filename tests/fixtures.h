// SPDX-License-Identifier: Apache-2.0
//
// Results of PyTorch that tests compare ours with: tests/fixtures/NAME.txt,
// written by tests/fixtures/NAME.py.
#ifndef TESTS_FIXTURES_H_
#define TESTS_FIXTURES_H_

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mtf::testing {

struct FixtureTensor {
  std::vector<int64_t> sizes;
  std::vector<double> values;  // row-major
};

// The tensors of a fixture by name. A missing or damaged file fails the test.
//
//   const auto torch = ReadFixture("optimizers");
//   const FixtureTensor& expected = torch.at("adam/step_20");
inline std::map<std::string, FixtureTensor> ReadFixture(
    const std::string& name) {
  const std::string path =
      absl::StrCat(GOLDEN_DIR, "/../fixtures/", name, ".txt");
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::map<std::string, FixtureTensor> tensors;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string tensor_name, word;
    words >> tensor_name;
    FixtureTensor& tensor = tensors[tensor_name];
    int64_t elements = 1;
    while (words >> word && word != ":") {
      tensor.sizes.push_back(std::strtoll(word.c_str(), nullptr, 10));
      elements *= tensor.sizes.back();
    }
    while (words >> word) {
      tensor.values.push_back(std::strtod(word.c_str(), nullptr));
    }
    EXPECT_EQ(static_cast<int64_t>(tensor.values.size()), elements)
        << tensor_name << " in " << path;
  }
  return tensors;
}

}  // namespace mtf::testing

#endif  // TESTS_FIXTURES_H_
