// SPDX-License-Identifier: Apache-2.0
//
// The program mtf: estimates, compares, searches and verifies layouts without
// running a step. docs/mtf.md describes it; each subcommand is a source.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"
#include "tools/mtf_commands.h"
#include "train/loop/parse_flags.h"
#include "train/loop/run_main.h"

namespace mtf::tools {
namespace {

std::vector<Command> Commands() {
  return {ExplainCommand(),   DiffCommand(),   VerifyCommand(),
          CalibrateCommand(), SearchCommand(), TokenizeCommand()};
}

std::string Usage() {
  std::string text =
      "usage: mtf COMMAND [ARGUMENT...] [--FLAG=VALUE...]\n\n"
      "Estimates what a layout costs before anything runs.\n\n";
  for (const Command& command : Commands()) {
    std::string left = absl::StrCat(
        command.name, command.arguments.empty() ? "" : " ", command.arguments);
    left.resize(std::max<size_t>(left.size() + 1, 22), ' ');
    absl::StrAppend(&text, "  ", left, command.summary, "\n");
  }
  return absl::StrCat(text,
                      "\nmtf help COMMAND lists the flags of a command, mtf "
                      "--version prints the version.\n");
}

std::string HelpOf(const Command& command) {
  std::string text = absl::StrCat(
      "usage: mtf ", command.name, command.arguments.empty() ? "" : " ",
      command.arguments, " [--FLAG=VALUE...]\n\n", command.summary, "\n\n");
  for (const std::string& name : command.flags) {
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    const std::string value = flag->DefaultValue();
    absl::StrAppend(&text, "  --", name, value.empty() ? "" : "=", value,
                    "\n      ", flag->Help(), "\n");
  }
  return text;
}

absl::StatusOr<Command> FindCommand(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : Commands()) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  names.emplace_back("help");
  const std::string nearest = NearestName(name, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "mtf has no command ", Quoted(name),
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      DetailLine("commands", absl::StrJoin(names, ", "))));
}

// A flag of another command is an error; it is never ignored.
absl::Status CheckTaken(const Command& command, const std::string& name) {
  if (absl::c_linear_search(command.flags, name)) return absl::OkStatus();
  std::vector<std::string> owners;
  for (const Command& other : Commands()) {
    if (absl::c_linear_search(other.flags, name)) owners.push_back(other.name);
  }
  if (owners.empty()) {
    const std::string nearest = NearestName(name, command.flags);
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown flag --", Escaped(name),
        nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?"),
        DetailLine("help", absl::StrCat("mtf help ", command.name,
                                        " lists the flags"))));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "mtf ", command.name, " takes no flag --", name,
      DetailLine("taken by",
                 absl::StrCat("mtf ", absl::StrJoin(owners, ", mtf ")))));
}

// Splits the arguments of a command into flags and the rest.
absl::Status SplitArguments(const Command& command,
                            const std::vector<std::string>& all,
                            std::vector<std::string>& flags,
                            std::vector<std::string>& rest) {
  for (size_t i = 0; i < all.size(); ++i) {
    if (!absl::StartsWith(all[i], "-") || all[i] == "-") {
      rest.push_back(all[i]);
      continue;
    }
    if (all[i] == "--") {
      rest.insert(rest.end(), all.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  all.end());
      break;
    }
    const size_t begin = absl::StartsWith(all[i], "--") ? 2 : 1;
    const size_t equals = all[i].find('=');
    std::string name = all[i].substr(
        begin, equals == std::string::npos ? equals : equals - begin);
    std::replace(name.begin(), name.end(), '-', '_');
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    if (flag == nullptr && absl::StartsWith(name, "no")) {
      flag = absl::FindCommandLineFlag(name.substr(2));
      if (flag != nullptr && flag->IsOfType<bool>()) name = name.substr(2);
    }
    MTF_RETURN_IF_ERROR(CheckTaken(command, name));
    flags.push_back(all[i]);
    const bool alone = equals == std::string::npos &&
                       !absl::FindCommandLineFlag(name)->IsOfType<bool>();
    if (alone && i + 1 < all.size()) flags.push_back(all[++i]);
  }
  return absl::OkStatus();
}

absl::Status Main(const std::vector<std::string>& arguments) {
  const std::string first = arguments.empty() ? "help" : arguments[0];
  if (first == "--version" || first == "version") {
    std::cout << "mtf " << MTF_VERSION << std::endl;
    return absl::OkStatus();
  }
  std::vector<std::string> others(
      arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  const bool asks = train::HasHelpFlag(others);
  if (first == "help" || first == "--help" || first == "-h") {
    if (others.empty() || others[0] == "help") {
      std::cout << Usage() << std::flush;
      return absl::OkStatus();
    }
    MTF_ASSIGN_OR_RETURN(const Command command, FindCommand(others[0]));
    std::cout << HelpOf(command) << std::flush;
    return absl::OkStatus();
  }
  MTF_ASSIGN_OR_RETURN(const Command command, FindCommand(first));
  if (asks) {
    std::cout << HelpOf(command) << std::flush;
    return absl::OkStatus();
  }
  std::vector<std::string> flags, rest;
  MTF_RETURN_IF_ERROR(SplitArguments(command, others, flags, rest));
  MTF_RETURN_IF_ERROR(train::ParseFlags(flags));
  return command.run(rest);
}

}  // namespace
}  // namespace mtf::tools

int main(int argc, char** argv) {
  const absl::Status status = mtf::CatchExceptions([&] {
    const absl::Status ran =
        mtf::tools::Main(std::vector<std::string>(argv + 1, argv + argc));
    return ran.ok() ? mtf::train::FlushOutput() : ran;
  });
  if (!status.ok()) std::cerr << mtf::ErrorText(status) << std::endl;
  return mtf::train::ExitCode(status.code());
}
