// SPDX-License-Identifier: Apache-2.0
//
// mtf calibrate: measures this host and writes its machine file.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <system_error>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "backends/communicators/launcher.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "mtf/write_file.h"
#include "planning/machine/machine.h"
#include "tools/calibrate.h"
#include "tools/mtf_commands.h"
#include "tools/mtf_flags.h"

ABSL_DECLARE_FLAG(mtf::tools::Allowance, seconds);
ABSL_FLAG(int, ranks, 0,
          "ranks, as threads, whose communication is measured; 0: the cores "
          "of this host, or the ranks of a launcher");

namespace mtf::tools {
namespace {

constexpr double kSecondsToMeasure = 20;

absl::Status WriteMachineFile(const std::string& path,
                              const std::string& text) {
  return WritePlainFile(path, text, "the machine file",
                        "name a file in a folder that exists with --output");
}

// Returns the error that WriteMachineFile would return. Changes no file.
absl::Status CheckCanWrite(const std::string& path) {
  std::error_code ignored;
  const bool is_there = std::filesystem::exists(path, ignored);
  if (is_there && !std::filesystem::is_directory(path, ignored) &&
      access(path.c_str(), W_OK) == 0) {
    return absl::OkStatus();
  }
  MTF_RETURN_IF_ERROR(WriteMachineFile(path, ""));
  if (!is_there) std::filesystem::remove(path, ignored);
  return absl::OkStatus();
}

absl::Status Calibrate(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mtf calibrate takes flags only, not ", Quoted(arguments[0]),
        DetailLine("help", "--output=FILE says where to write")));
  }
  // Check the path first: measuring takes a while.
  std::string path = absl::GetFlag(FLAGS_output);
  if (path.empty()) {
    MTF_ASSIGN_OR_RETURN(path, Machine::UserPath("this_host"));
  }
  const bool writes = DetectLauncher().rank == 0;
  if (writes) {
    // A missing folder is created; if that fails, writing fails.
    std::error_code ignored;
    const std::filesystem::path folder =
        std::filesystem::path(path).parent_path();
    if (absl::GetFlag(FLAGS_output).empty() && !folder.empty()) {
      std::filesystem::create_directories(folder, ignored);
    }
    MTF_RETURN_IF_ERROR(CheckCanWrite(path));
  }
  CalibrateOptions options;
  const double seconds = absl::GetFlag(FLAGS_seconds).seconds;
  options.seconds = seconds == 0 ? kSecondsToMeasure : seconds;
  options.ranks = absl::GetFlag(FLAGS_ranks);
  options.progress = [](absl::string_view line) {
    std::cerr << line << std::endl;
  };
  MTF_ASSIGN_OR_RETURN(const std::string text, CalibrateThisHost(options));
  if (!writes) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(WriteMachineFile(path, text));
  std::cout << "wrote " << path << "; use it with --machine="
            << (absl::GetFlag(FLAGS_output).empty() ? "this_host" : path)
            << std::endl;
  return absl::OkStatus();
}

}  // namespace

Command CalibrateCommand() {
  return {"calibrate",
          "",
          "measures this host and writes its machine file",
          {"output", "seconds", "ranks"},
          &Calibrate};
}

}  // namespace mtf::tools
