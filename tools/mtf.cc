// SPDX-License-Identifier: Apache-2.0
//
// The program mtf: estimates, compares, searches and verifies layouts without
// running a step, and starts the programs that train. docs/mtf.md describes it;
// each subcommand is a source.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
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

// Commands that are programs of their own, mtf-NAME in the folder of mtf, with
// the flags of training programs.
struct Program {
  const char* name;
  const char* summary;
};
constexpr Program kPrograms[] = {
    {"train", "trains a model on a text or pictures"},
    {"eval", "evaluates a checkpoint on held-out data"},
    {"convert", "checkpoints to files of safetensors, and back"}};

bool IsProgram(const std::string& name) {
  return absl::c_any_of(kPrograms, [&name](const Program& program) {
    return program.name == name;
  });
}

// Becomes the program mtf-NAME. Returns only if that fails.
absl::Status Become(const std::string& name,
                    const std::vector<std::string>& arguments) {
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path =
      (self.parent_path() / absl::StrCat("mtf-", name)).string();
  std::vector<std::string> words = {path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(path.c_str(), pointers.data());
  return absl::NotFoundError(
      absl::StrCat("cannot start ", Quoted(path), ": ", std::strerror(errno),
                   DetailLine("help", "install it beside mtf")));
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
  text += "\nTrains without a program of your own:\n\n";
  for (const Program& program : kPrograms) {
    std::string left = program.name;
    left.resize(22, ' ');
    absl::StrAppend(&text, "  ", left, program.summary, "\n");
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
  for (const Program& program : kPrograms) names.emplace_back(program.name);
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
    if (IsProgram(others[0])) return Become(others[0], {"--help"});
    MTF_ASSIGN_OR_RETURN(const Command command, FindCommand(others[0]));
    std::cout << HelpOf(command) << std::flush;
    return absl::OkStatus();
  }
  if (IsProgram(first)) return Become(first, others);
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

// The error that CatchExceptions makes of an allocation that failed.
const std::string& OutOfMemoryText() {
  static const std::string& text = *new std::string(absl::StrCat(
      ErrorText(
          CatchExceptions([]() -> absl::Status { throw std::bad_alloc(); })),
      "\n"));
  return text;
}

// Ends the process where an allocation fails. An exception would destroy the
// graph, and a hash table of Abseil must not be destroyed after an insertion
// into it has thrown.
void EndWithoutMemory() {
  const std::string& text = OutOfMemoryText();
  // Nothing can be done if the message cannot be written.
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), text.size());
  std::_Exit(train::ExitCode(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace mtf::tools

int main(int argc, char** argv) {
  mtf::tools::OutOfMemoryText();  // made while there is memory
  std::set_new_handler(&mtf::tools::EndWithoutMemory);
  const absl::Status status = mtf::CatchExceptions([&] {
    const absl::Status ran =
        mtf::tools::Main(std::vector<std::string>(argv + 1, argv + argc));
    return ran.ok() ? mtf::train::FlushOutput() : ran;
  });
  if (!status.ok()) std::cerr << mtf::ErrorText(status) << std::endl;
  return mtf::train::ExitCode(status.code());
}
