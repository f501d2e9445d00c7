// SPDX-License-Identifier: Apache-2.0
#include "backends/environment_switch.h"

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <set>
#include <string>

namespace mtf {

bool EnvironmentSwitch(const char* name, bool otherwise) {
  const char* value = std::getenv(name);
  if (value == nullptr) return otherwise;
  const std::string text = value;
  if (text == "1") return true;
  if (text == "0") return false;
  // Several ranks of a process ask.
  static std::mutex mutex;
  static std::set<std::string>& told = *new std::set<std::string>;
  std::lock_guard<std::mutex> lock(mutex);
  if (told.insert(name).second) {
    std::cerr << name << " \"" << text << "\" is neither 1 nor 0; using "
              << (otherwise ? 1 : 0) << std::endl;
  }
  return otherwise;
}

}  // namespace mtf
