// SPDX-License-Identifier: Apache-2.0
#include "train/loop/parse_flags.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "train/loop/flag_types.h"

namespace mtf::train {
namespace {

constexpr absl::string_view kFlagfile = "flagfile";

// The names of the flags that the latest ParseFlags set.
std::set<std::string>& GivenFlags() {
  static std::set<std::string>& names = *new std::set<std::string>();
  return names;
}

// The flagfiles being parsed, outermost first.
using OpenFlagfiles = std::vector<std::string>;

// The names of all flags in alphabetical order.
std::vector<std::string> FlagNames() {
  std::vector<std::string> names;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The name and value of "--steps=3" or "--steps".
struct Argument {
  std::string name;
  std::string value;
  bool has_value = false;
};

absl::StatusOr<Argument> SplitArgument(const std::string& text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "-") || rest.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected argument ", Quoted(text), ": flags start with --",
        DetailLine(
            "help",
            "write --steps=100, with quotes around a value that contains "
            "blanks")));
  }
  absl::ConsumePrefix(&rest, "-");
  const size_t equals = rest.find('=');
  Argument argument;
  argument.has_value = equals != absl::string_view::npos;
  argument.name = std::string(rest.substr(0, equals));
  // Accept both spellings: --learning-rate, --learning_rate.
  std::replace(argument.name.begin(), argument.name.end(), '-', '_');
  if (argument.has_value) argument.value = std::string(rest.substr(equals + 1));
  return argument;
}

// Whether a flag may be given without a value: --strict_layout, --explain.
bool ValueIsOptional(const absl::CommandLineFlag& flag) {
  return flag.IsOfType<bool>() || flag.IsOfType<ExplainFormat>();
}

absl::Status UnknownFlag(const std::string& name) {
  std::vector<std::string> names = FlagNames();
  names.emplace_back(kFlagfile);
  names.emplace_back("help");
  const std::string nearest = NearestName(name, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown flag --", Escaped(name),
      nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?"),
      DetailLine("help", "--help lists the flags")));
}

// Sets one flag. The error states the allowed values.
absl::Status SetFlag(absl::CommandLineFlag& flag, const std::string& value) {
  std::string error;
  if (flag.ParseFrom(value, &error)) return absl::OkStatus();
  // Abseil writes "Illegal value 'x' specified for flag 'y'; REASON".
  const size_t reason = error.rfind("; ");
  std::string allowed = flag.IsOfType<bool>() ? "true or false" : "";
  if (reason != std::string::npos) allowed = error.substr(reason + 2);
  return absl::InvalidArgumentError(absl::StrCat(
      "flag --", flag.Name(), " is ", Quoted(value), ", not ",
      allowed.empty() ? "a valid value" : allowed,
      flag.DefaultValue().empty() ? ""
                                  : DetailLine("default", flag.DefaultValue()),
      DetailLine("meaning", flag.Help())));
}

// Reads the arguments of a flagfile, one per line.
absl::StatusOr<std::vector<std::string>> ReadFlagfile(const std::string& path) {
  constexpr int64_t kMaxBytes = 1 << 20;
  MTF_ASSIGN_OR_RETURN(const std::string text,
                       ReadTextFile(path, "flagfile", kMaxBytes));
  std::vector<std::string> arguments;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty() && line[0] != '#') arguments.emplace_back(line);
  }
  return arguments;
}

absl::Status ParseAll(const std::vector<std::string>& arguments,
                      OpenFlagfiles& open);

absl::Status ParseFlagfile(const std::string& path, OpenFlagfiles& open) {
  std::error_code unresolved;
  const std::string file =
      std::filesystem::weakly_canonical(path, unresolved).string();
  if (std::find(open.begin(), open.end(), file) != open.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("flagfile ", Quoted(path), " includes itself",
                     DetailLine("help", "remove its --flagfile line")));
  }
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> arguments,
                       ReadFlagfile(path));
  open.push_back(file);
  const absl::Status status = ParseAll(arguments, open);
  open.pop_back();
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), DetailLine("flagfile", path)));
}

// Flagfiles are applied first, wherever they occur, so that flags given
// directly take precedence.
absl::Status ParseAll(const std::vector<std::string>& arguments,
                      OpenFlagfiles& open) {
  struct Setting {
    absl::CommandLineFlag* flag;
    std::string value;
  };
  std::vector<Setting> settings;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--" && i + 1 == arguments.size()) break;
    MTF_ASSIGN_OR_RETURN(Argument argument, SplitArgument(arguments[i]));
    const bool is_flagfile = argument.name == kFlagfile;
    absl::CommandLineFlag* flag =
        is_flagfile ? nullptr : absl::FindCommandLineFlag(argument.name);
    if (flag == nullptr && !is_flagfile) {
      if (argument.name.rfind("no", 0) == 0 && !argument.has_value) {
        flag = absl::FindCommandLineFlag(argument.name.substr(2));
      }
      if (flag == nullptr || !ValueIsOptional(*flag)) {
        return UnknownFlag(argument.name);
      }
      argument.value = "false";
    } else if (!argument.has_value && flag != nullptr &&
               ValueIsOptional(*flag)) {
      argument.value = "true";
    } else if (!argument.has_value) {
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "flag --", argument.name, " has no value",
            DetailLine("help",
                       absl::StrCat("write --", argument.name, "=VALUE"))));
      }
      argument.value = arguments[++i];
    }
    if (is_flagfile) {
      MTF_RETURN_IF_ERROR(ParseFlagfile(argument.value, open));
    } else {
      settings.push_back({flag, argument.value});
    }
  }
  for (const Setting& setting : settings) {
    MTF_RETURN_IF_ERROR(SetFlag(*setting.flag, setting.value));
    GivenFlags().emplace(setting.flag->Name());
  }
  return absl::OkStatus();
}

}  // namespace

bool FlagIsGiven(absl::string_view name) {
  return GivenFlags().count(std::string(name)) > 0;
}

absl::Status ParseFlags(const std::vector<std::string>& arguments) {
  GivenFlags().clear();
  OpenFlagfiles open;
  return ParseAll(arguments, open);
}

absl::optional<std::string> FindFlagValue(
    const std::vector<std::string>& arguments, absl::string_view name) {
  absl::optional<std::string> value;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view text = arguments[i];
    if (text == "--") break;
    if (!absl::ConsumePrefix(&text, "--") && !absl::ConsumePrefix(&text, "-")) {
      continue;
    }
    if (!absl::ConsumePrefix(&text, name)) continue;
    if (absl::ConsumePrefix(&text, "=")) {
      value = std::string(text);
    } else if (text.empty() && i + 1 < arguments.size()) {
      value = arguments[i + 1];
    }
  }
  return value;
}

bool HasHelpFlag(const std::vector<std::string>& arguments) {
  return std::any_of(
      arguments.begin(), arguments.end(), [](const std::string& argument) {
        return argument == "--help" || argument == "-help" ||
               argument == "-h" || absl::StartsWith(argument, "--help=");
      });
}

std::string HelpText(absl::string_view usage) {
  std::string text = absl::StrCat(usage, "\n\n");
  for (const std::string& name : FlagNames()) {
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    const std::string value = flag->DefaultValue();
    absl::StrAppend(&text, "  --", name, value.empty() ? "" : "=", value,
                    "\n      ", flag->Help(), "\n");
  }
  absl::StrAppend(&text, "  --flagfile=FILE\n      ",
                  "reads more flags, one per line; \"#\" starts a comment\n");
  return text;
}

}  // namespace mtf::train
