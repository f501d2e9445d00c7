// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_ENVIRONMENT_SWITCH_H_
#define BACKENDS_ENVIRONMENT_SWITCH_H_

namespace mtf {

// Reads a boolean environment variable: true for "1", false for "0",
// `default_value` if it is not set. Any other value is reported once on
// standard error and counts as not set.
bool EnvironmentSwitch(const char* name, bool default_value);

}  // namespace mtf

#endif  // BACKENDS_ENVIRONMENT_SWITCH_H_
