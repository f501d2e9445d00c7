// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_PARAMETER_GROUPS_H_
#define NN_OPTIMIZERS_PARAMETER_GROUPS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

// Settings of an optimizer for some parameters, by their names. Of several
// groups that match a parameter, the last that has a setting determines it.
//
//   nn::AdamW({.learning_rate = 1e-3,
//              .weight_decay = 0.1,
//              .groups = {{.parameters = "**/bias", .weight_decay = 0},
//                         {.parameters = "embedding", .learning_rate = 1e-4},
//                         {.parameters = "layer_*", .frozen = true},
//                         {.parameters = "layer_11", .frozen = false}}})
//
// A frozen parameter keeps its value. It has no gradient, no state, no master
// copy and no communication.
struct ParameterGroup {
  // A pattern of names, as sections of layouts have (mtf/scope_pattern.h): of
  // parameters, or of scopes that contain them. It is an error if it matches
  // nothing.
  std::string parameters;
  // Used instead of those of the optimizer.
  std::optional<Schedule> learning_rate = std::nullopt;
  std::optional<double> weight_decay = std::nullopt;
  std::optional<bool> frozen = std::nullopt;  // false by default
};

// Whether one of `patterns` matches the parameter `name`, for update rules that
// treat some parameters in another way.
bool MatchesAny(const std::vector<std::string>& patterns,
                absl::string_view name);

namespace internal {

// The settings of one parameter.
struct ParameterSettings {
  int rate_group = -1;  // the group with its learning rate, or -1
  std::optional<double> weight_decay;
  bool frozen = false;
};
ParameterSettings SettingsOf(const std::vector<ParameterGroup>& groups,
                             absl::string_view name);

absl::Status CheckGroups(const std::vector<ParameterGroup>& groups);

}  // namespace internal
}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_PARAMETER_GROUPS_H_
