// SPDX-License-Identifier: Apache-2.0
#include "planning/machine/machine_files.h"

#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "planning/machine/machine.h"

namespace mtf {
namespace {

constexpr absl::string_view kThisHost = "this_host";
constexpr int64_t kMaxBytes = 1 << 20;

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

absl::StatusOr<Machine> ReadFile(const std::string& path) {
  MTF_ASSIGN_OR_RETURN(const std::string text,
                       ReadTextFile(path, "machine file", kMaxBytes));
  return Machine::Parse(text, path);
}

}  // namespace

std::vector<std::string> Machine::PresetNames() {
  std::vector<std::string> names;
  for (const internal::MachineFile& file : internal::MachineFiles()) {
    names.emplace_back(file.name);
  }
  names.emplace_back(kThisHost);
  return names;
}

absl::StatusOr<std::string> Machine::UserPath(absl::string_view name) {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string(value == nullptr ? "" : value);
  };
  std::string path = folder("MTF_MACHINES");
  if (path.empty() && !folder("XDG_CONFIG_HOME").empty()) {
    path = absl::StrCat(folder("XDG_CONFIG_HOME"), "/mtf");
  }
  if (path.empty() && !folder("HOME").empty()) {
    path = absl::StrCat(folder("HOME"), "/.config/mtf");
  }
  if (path.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no folder for machine files",
                     DetailLine("help", "set MTF_MACHINES to one, or HOME")));
  }
  return absl::StrCat(path, "/", name, ".machine");
}

absl::StatusOr<Machine> Machine::Load(absl::string_view name_or_path) {
  for (const internal::MachineFile& file : internal::MachineFiles()) {
    if (file.name == name_or_path) {
      return Parse(file.text, absl::StrCat("preset ", file.name));
    }
  }
  const std::string path(name_or_path);
  if (IsLayoutName(name_or_path)) {
    const auto user = UserPath(name_or_path);
    if (user.ok() && Exists(*user)) return ReadFile(*user);
    if (name_or_path == kThisHost) {
      return absl::NotFoundError(absl::StrCat(
          "this host has not been measured",
          user.ok() ? DetailLine("file", absl::StrCat(*user, " is missing"))
                    : "",
          DetailLine("help",
                     "run mtf calibrate to measure it and write the file")));
    }
  }
  if (Exists(path)) return ReadFile(path);
  const std::vector<std::string> names = PresetNames();
  std::string nearest = NearestName(name_or_path, names);
  for (const std::string& name : names) {
    if (absl::EqualsIgnoreCase(name, name_or_path)) nearest = name;
  }
  return absl::NotFoundError(absl::StrCat(
      "no machine is called ", Quoted(name_or_path), " and no file is there",
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      DetailLine("presets", absl::StrJoin(names, ", ")),
      DetailLine("help",
                 "choose one of these, or give the path of a machine file "
                 "(docs/machines.md)")));
}

}  // namespace mtf
