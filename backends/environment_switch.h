// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_ENVIRONMENT_SWITCH_H_
#define BACKENDS_ENVIRONMENT_SWITCH_H_

namespace mtf {

// Whether the environment variable `name` is "1", for "0" false, and where it
// is not set `otherwise`. Any other value is told once on standard error, and
// counts as not set.
bool EnvironmentSwitch(const char* name, bool otherwise);

}  // namespace mtf

#endif  // BACKENDS_ENVIRONMENT_SWITCH_H_
