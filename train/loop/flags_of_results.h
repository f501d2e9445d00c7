// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_FLAGS_OF_RESULTS_H_
#define TRAIN_LOOP_FLAGS_OF_RESULTS_H_

#include <map>
#include <string>

namespace mtf::train {

// The flags that are given or not at their defaults, by name, without those
// that say only where and how to run: mesh, layout, files and the like. What
// remains says which model is trained on which data, and how.
std::map<std::string, std::string> FlagsOfResults();

}  // namespace mtf::train

#endif  // TRAIN_LOOP_FLAGS_OF_RESULTS_H_
