// SPDX-License-Identifier: Apache-2.0
#include "backends/environment_switch.h"

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <set>
#include <string>

namespace mtf {

bool EnvironmentSwitch(const char* name, bool default_value) {
  const char* value = std::getenv(name);
  if (value == nullptr) return default_value;
  const std::string text = value;
  if (text == "1") return true;
  if (text == "0") return false;
  // Called concurrently by the ranks of a process.
  static std::mutex mutex;
  static std::set<std::string>& reported = *new std::set<std::string>;
  std::lock_guard<std::mutex> lock(mutex);
  if (reported.insert(name).second) {
    std::cerr << name << " \"" << text << "\" is neither 1 nor 0; using "
              << (default_value ? 1 : 0) << std::endl;
  }
  return default_value;
}

}  // namespace mtf
