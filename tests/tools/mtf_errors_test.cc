// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (checks the output of other programs)
//
// Every kind of invalid file and flag of the command mtf. Each gives one
// message on standard error and the exit code of its kind.
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/run_mtf.h"

namespace mtf {
namespace {

using ::mtf::testing::File;
using ::mtf::testing::Outcome;
using ::mtf::testing::RunMtf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Wrong {
  std::string name;
  std::string arguments;  // FILE stands for the path of the file
  std::string text;       // of the file
  int exit_code;
  std::string message;  // how standard error begins

  friend std::ostream& operator<<(std::ostream& out, const Wrong& wrong) {
    return out << wrong.name;
  }
};

class CliWrong : public ::testing::TestWithParam<Wrong> {};

TEST_P(CliWrong, IsOneMessageAndAnExitCode) {
  const File file("file", GetParam().text);
  const Outcome outcome = RunMtf(
      absl::StrReplaceAll(GetParam().arguments, {{"FILE", file.path()}}));
  EXPECT_EQ(outcome.exit_code, GetParam().exit_code) << outcome.errors;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(absl::StrReplaceAll(outcome.errors, {{file.path(), "FILE"}}),
              StartsWith(GetParam().message));
  // One message: its first line, and details that are indented.
  std::istringstream lines(outcome.errors);
  std::string line;
  for (int i = 0; std::getline(lines, line); ++i) {
    EXPECT_TRUE(i == 0 || absl::StartsWith(line, "  ")) << line;
    EXPECT_LE(line.size(), 400u);
  }
}

constexpr char kExplain[] = "explain FILE";
constexpr char kDiff[] = "diff data FILE --mesh=data:2";
constexpr char kMachine[] = "search --mesh=data:2 --machine=FILE --layers=1";

INSTANTIATE_TEST_SUITE_P(
    Files, CliWrong,
    ::testing::ValuesIn(std::vector<Wrong>{
        // Programs.
        {"empty_program", kExplain, "", 2,
         "INVALID_ARGUMENT \"FILE\" is not a program: it does not begin with a "
         "mesh\n"},
        {"layout_as_program", kExplain, "batch:data\n", 2,
         "INVALID_ARGUMENT \"FILE\" is not a program"},
        {"binary_program", kExplain, std::string("\x01\0\xff\xfe", 4), 2,
         "INVALID_ARGUMENT cannot read program \"FILE\": not a text file: byte "
         "1 is zero"},
        {"program_of_unknown_pass", kExplain,
         "# after expand_reshard\nmesh{data:2}\nend{instructions:0}\n", 2,
         "INVALID_ARGUMENT line 1 names no pass: \"expand_reshard\"; did you "
         "mean \"expand_reshards\"?"},
        {"program_with_bad_mesh", kExplain, "mesh{data}\n", 2,
         "INVALID_ARGUMENT "},
        {"program_with_unknown_instruction", kExplain,
         "mesh{data:2}\n%x : f32[b:8] = input x\n%y : f32[b:8] = inptu y\n", 2,
         "INVALID_ARGUMENT "},
        {"program_with_unknown_value", kExplain,
         "mesh{data:2}\n%x : f32[b:8] = input x\noutput(%z) x\n", 2,
         "INVALID_ARGUMENT "},
        {"program_cut_in_a_line", kExplain, "mesh{data:2}\n%x : f32[b:8", 2,
         "INVALID_ARGUMENT "},
        {"program_with_unknown_axis", kExplain,
         "mesh{data:2}\n%x : f32[b:8/dta] = input x\n", 2, "INVALID_ARGUMENT "},
        {"program_beyond_the_machine", "explain FILE --machine=h200_x8",
         "mesh{data:64}\n%x : f32[b:64/data] = input x\noutput(%x) x\n"
         "end{instructions:2}\n",
         2, "INVALID_ARGUMENT "},
        {"program_cut_between_lines", kExplain,
         "mesh{data:2}\n%x : f32[b:8] = input x\n", 2,
         "INVALID_ARGUMENT line 2, column 24: the text is truncated: it ends "
         "without end{...}\n"},
        {"program_that_does_nothing", kExplain,
         "mesh{data:2}\n%x : f32[b:8] = input x\nend{instructions:1}\n", 2,
         "INVALID_ARGUMENT the program of \"FILE\" neither outputs a value "
         "nor writes a variable\n"},
        // Layouts.
        {"layout_without_axis", kDiff, "batch\n", 2,
         "INVALID_ARGUMENT rule \"batch\" names no axis (FILE:1)"},
        {"layout_with_rule_twice", kDiff, "batch:data\nbatch:data\n", 2,
         "INVALID_ARGUMENT "},
        {"layout_with_axis_twice", kDiff, "batch:data+data\n", 2,
         "INVALID_ARGUMENT rule \"batch:data+data\" names the axis \"data\" "
         "twice (FILE:1)"},
        {"layout_with_unknown_section", kDiff, "[optimiser]\nd_ff:data\n", 2,
         "INVALID_ARGUMENT section \"[optimiser]\" is unknown (FILE:1)"},
        {"layout_with_misspelt_dimension", kDiff, "bacth:data\n", 2,
         "INVALID_ARGUMENT no tensor has a dimension \"bacth\"; did you mean "
         "\"batch\"?"},
        {"layout_that_cuts_twice", kDiff, "batch:data\nlength:data\n", 2,
         "INVALID_ARGUMENT dimensions \"batch\" and \"length\" of one "
         "operation are both sharded over mesh axis \"data\""},
        {"layout_beside_program", "diff data FILE --mesh=data:2",
         "mesh{data:2}\n%x : f32[b:8] = input x\noutput(%x) x\n"
         "end{instructions:2}\n",
         2, "INVALID_ARGUMENT \"data\" is a layout and \"FILE\" a program"},
        // Machines.
        {"empty_machine", kMachine, "", 2, "INVALID_ARGUMENT "},
        {"machine_without_device", kMachine, "machine m\n", 2,
         "INVALID_ARGUMENT "},
        {"machine_with_unknown_word", kMachine,
         "machine m\n[device]\nmemroy 80 GB\n", 2, "INVALID_ARGUMENT "},
        {"machine_with_unknown_unit", kMachine,
         "machine m\n[device]\nmemory 80 GG\n", 2, "INVALID_ARGUMENT "},
        {"machine_with_negative_bandwidth", kMachine,
         "machine m\n[device]\nmemory 80 GB\nbandwidth -3 TB/s\n", 2,
         "INVALID_ARGUMENT "},
        {"layout_as_machine", kMachine, "batch:data\n", 2, "INVALID_ARGUMENT "},
    }),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Flags, CliWrong,
    ::testing::ValuesIn(std::vector<Wrong>{
        {"unknown_command", "serach", "", 2,
         "INVALID_ARGUMENT mtf has no command \"serach\"; did you mean "
         "\"search\"?"},
        {"unknown_command_of_help", "help explian", "", 2,
         "INVALID_ARGUMENT mtf has no command \"explian\"; did you mean "
         "\"explain\"?"},
        {"flag_of_another_command", "verify --mesh=data:2 --memory=1GiB", "", 2,
         "INVALID_ARGUMENT mtf verify takes no flag --memory"},
        {"unknown_flag", "verify --mehs=data:2", "", 2,
         "INVALID_ARGUMENT unknown flag --mehs; did you mean --mesh?"},
        {"no_program", "explain", "", 2,
         "INVALID_ARGUMENT mtf explain takes one program, not 0"},
        {"no_layout", "explain --mesh=data:1", "", 2,
         "INVALID_ARGUMENT mtf explain --mesh takes one layout, not 0"},
        {"sizes_of_a_program", "explain FILE --layers=3", "mesh{data:2}\n", 2,
         "INVALID_ARGUMENT a program takes no model flags, but --layers"},
        {"model_without_config", "explain data --mesh=data:2 --model=t5", "", 2,
         "INVALID_ARGUMENT --model=t5 needs the sizes of the model"},
        {"sizes_and_a_config",
         "explain data --mesh=data:2 --config={} --heads=2", "", 2,
         "INVALID_ARGUMENT --heads is given, and --config"},
        {"config_that_is_not_there",
         "explain data --mesh=data:2 --config=/no/such", "", 66,
         "NOT_FOUND cannot read configuration"},
        {"type_of_a_config",
         "explain data --mesh=data:2 "
         "--config={\\\"model_type\\\":\\\"bart\\\"}",
         "", 66, "NOT_FOUND there is no model type \"bart\"; did you mean"},
        {"program_that_is_not_there", "explain /no/such/program.txt", "", 66,
         "NOT_FOUND cannot read program \"/no/such/program.txt\""},
        {"folder_as_program", "explain /", "", 2, "INVALID_ARGUMENT cannot "},
        {"unknown_format", "explain FILE --format=jsn", "mesh{data:2}\n", 2,
         "INVALID_ARGUMENT --format is \"jsn\", not text, full, json or html"},
        {"narrow_width", "explain FILE --width=5", "mesh{data:2}\n", 2,
         "INVALID_ARGUMENT --width is 5"},
        {"unknown_machine", "explain FILE --machine=h100_nvlink", "", 66,
         "NOT_FOUND "},
        {"one_layout", "diff data --mesh=data:2", "", 2,
         "INVALID_ARGUMENT mtf diff takes two layouts or two programs, not 1"},
        {"unknown_preset", "diff data megatorn --mesh=data:2", "", 66,
         "NOT_FOUND no layout preset is called \"megatorn\"; did you mean "
         "\"megatron\"?"},
        {"diff_without_mesh", "diff data megatron", "", 2,
         "INVALID_ARGUMENT no mesh is given"},
        {"layout_that_is_not_there", "diff data no.layout --mesh=data:2", "",
         66, "NOT_FOUND cannot read "},
        {"unknown_model", "search --mesh=data:2 --model=gpt3_157b", "", 66,
         "NOT_FOUND unknown model \"gpt3_157b\"; did you mean "
         "\"gpt3_175b\"?"},
        {"mesh_and_devices", "search --mesh=data:2 --devices=2", "", 2,
         "INVALID_ARGUMENT both --mesh and --devices are given"},
        {"no_devices", "search --devices=0", "", 2,
         "INVALID_ARGUMENT flag --devices is \"0\", not a whole number from "
         "1"},
        {"too_many_devices", "search --devices=1048577", "", 2,
         "INVALID_ARGUMENT --devices is 1048577, more than 1048576"},
        {"budget_that_is_no_line", "search --mesh=data:2 --budget='no foo'", "",
         2, "INVALID_ARGUMENT budget line \"no foo\" has the word \"foo\""},
        {"layers_of_programs", "diff FILE FILE --layers=3",
         "mesh{data:2}\n%x : f32[b:8] = input x\noutput(%x) x\n"
         "end{instructions:2}\n",
         2,
         "INVALID_ARGUMENT programs take no model flags, but --layers is "
         "given\n"},
        {"neither_mesh_nor_devices", "search", "", 2,
         "INVALID_ARGUMENT neither --mesh nor --devices is given"},
        {"bad_mesh", "search --mesh=data:0", "", 2,
         "INVALID_ARGUMENT mesh item \"data:0\" has a size below 1"},
        {"bad_memory", "search --mesh=data:2 --memory=80GGB", "", 2,
         "INVALID_ARGUMENT flag --memory is \"80GGB\""},
        {"a_byte_of_memory",
         "search --mesh=data:2 --layers=1 --sections=false --memory=1B", "", 71,
         "RESOURCE_EXHAUSTED no layout fits into 1 byte per rank; the smallest "
         "found takes "},
        {"too_many_layouts", "search --mesh=data:2 --keep=500", "", 2,
         "INVALID_ARGUMENT --keep is 500, more than 100"},
        {"more_devices_than_the_machine_joins",
         "search --devices=4096 --machine=h200_x8", "", 2,
         "INVALID_ARGUMENT mesh \"all:4096\" has 4096 ranks, but machine "
         "\"h200_x8\" connects only 8"},
        {"budget_that_is_none", "search --mesh=data:2 --budget=FILE",
         "batch:data\n", 2,
         "INVALID_ARGUMENT \"FILE\" has no section [budget]"},
        {"budget_that_is_not_there", "search --mesh=data:2 --budget=/no/file",
         "", 66, "NOT_FOUND cannot read layout file \"/no/file\""},
        {"budget_that_none_keeps_to",
         "search --mesh=data:2 --layers=1 --sections=false --budget=FILE",
         "[budget]\nno all_reduce\nmemory at most 12 MiB\n", 71,
         "RESOURCE_EXHAUSTED no layout keeps to the budget: budget line \"no "
         "all_reduce\" (FILE:2) rejects "},
        {"bad_size", "search --mesh=data:2 --layers=0", "", 2,
         "INVALID_ARGUMENT flag --layers is \"0\""},
        {"integer_dtype", "search --mesh=data:2 --dtype=i32", "", 2,
         "INVALID_ARGUMENT --dtype is \"i32\", not a dtype of activations"
         "\n  help     give f32, bf16 or f16"},
        {"unknown_dtype", "search --mesh=data:2 --dtype=f64", "", 2,
         "INVALID_ARGUMENT --dtype is \"f64\", not a dtype of activations"
         "\n  help     give f32, bf16 or f16"},
        {"binary_layout", "diff FILE zero2 --mesh=data:2",
         std::string("batch:data\n\0", 12), 2,
         "INVALID_ARGUMENT cannot read layout or program \"FILE\": not a "
         "text file: byte 11 is zero"},
        {"layout_with_byte_order_mark", "diff FILE zero2 --mesh=data:2",
         "\xEF\xBB\xBF"
         "batch:dat\n",
         2,
         "INVALID_ARGUMENT mesh \"data:2\" has no axis \"dat\"; did you mean "
         "\"data\"?"},
        {"dimension_in_other_case", "diff BATCH:data zero2 --mesh=data:2", "",
         2,
         "INVALID_ARGUMENT no tensor has a dimension \"BATCH\"; did you mean "
         "\"batch\"?"},
        {"nan_seconds", "verify --mesh=data:2 --seconds=nan", "", 2,
         "INVALID_ARGUMENT flag --seconds is \"nan\", not a number of seconds "
         "from 0"},
        // Detected before anything is measured: no progress is shown.
        {"calibrate_into_no_folder", "calibrate --output=/nope/x --seconds=1",
         "", 73,
         "PERMISSION_DENIED cannot write the machine file to \"/nope/x\": "},
        {"calibrate_into_a_folder", "calibrate --output=/ --seconds=1", "", 73,
         "PERMISSION_DENIED cannot write the machine file to \"/\": "},
        {"machine_in_capitals", "explain FILE --machine=H100_nvlink_ib",
         "mesh{data:2}\n", 66,
         "NOT_FOUND no machine is called \"H100_nvlink_ib\" and no file is "
         "there; did you mean \"h100_nvlink_ib\"?"},
        {"negative_seconds", "calibrate --seconds=-1", "", 2,
         "INVALID_ARGUMENT flag --seconds is \"-1\""},
        {"full_disk_output", "explain FILE --output=/dev/full",
         "mesh{data:2}\n%x : f32[b:8] = input x\noutput(%x) x\n"
         "end{instructions:2}\n",
         71,
         "RESOURCE_EXHAUSTED cannot write the output to \"/dev/full\": No "
         "space "
         "left on device"},
        {"huge_mesh", "verify --mesh=data:99999999", "", 2,
         "INVALID_ARGUMENT mesh \"data:99999999\" has 99999999 ranks"},
        {"stray_argument", "verify data:2", "", 2,
         "INVALID_ARGUMENT mtf verify takes flags only, not \"data:2\""},
        {"unwritable_output",
         "search --mesh=data:2 --layers=1 --sections=false "
         "--output=/no/such/folder/a.layout",
         "", 73, "PERMISSION_DENIED cannot write "},
    }),
    [](const auto& info) { return info.param.name; });

// A result that cannot be written is an error.
TEST(CliWrong, AFullStandardOutputIsAnError) {
  const File program("program",
                     "mesh{data:2}\n%x : f32[b:8] = input x\noutput(%x) x\n"
                     "end{instructions:2}\n");
  for (const std::string& arguments :
       {absl::StrCat("explain ", program.path()),
        absl::StrCat("diff ", program.path(), " ", program.path()),
        std::string("search --mesh=data:2 --layers=1 --sections=false"),
        std::string("verify --mesh=data:2 --seconds=0.1"), std::string("help"),
        std::string("help search"), std::string("--version")}) {
    const Outcome outcome = mtf::testing::RunCommand(absl::StrCat(
        "(timeout 120 ", MTF_COMMAND, " ", arguments, " >/dev/full)"));
    EXPECT_EQ(outcome.exit_code, 74) << arguments;
    EXPECT_THAT(outcome.errors,
                StartsWith("DATA_LOSS cannot write to the standard output"))
        << arguments;
  }
}

TEST(CliWrong, AFullDiskIsReportedAsSuch) {
  const File program("program",
                     "mesh{data:2}\n%x : f32[b:8] = input x\noutput(%x) x\n"
                     "end{instructions:2}\n");
  const Outcome outcome =
      RunMtf(absl::StrCat("explain ", program.path(), " --output=/dev/full"));
  EXPECT_THAT(outcome.errors, HasSubstr("\n  help     make room there"));
}

TEST(CliRight, HelpOfHelpListsAllCommands) {
  EXPECT_EQ(RunMtf("help help").out, RunMtf("help").out);
}

TEST(CliRight, MemoryDefaultsToThatOfTheMachine) {
  const Outcome outcome =
      RunMtf("search --mesh=data:2 --layers=1 --sections=false --memory=");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out, HasSubstr(" of 74.5 GiB per rank"));
}

// As training programs take it; a path without "@" works too.
TEST(CliRight, BudgetIsGivenAsLinesOrAsAFile) {
  const File file("a.budget", "[budget]\nno all_to_all\n");
  for (const std::string& budget :
       {std::string("\"no all_to_all\""), absl::StrCat("@", file.path()),
        file.path()}) {
    const Outcome outcome = RunMtf(absl::StrCat(
        "search --mesh=data:2 --layers=1 --sections=false --budget=", budget));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_THAT(outcome.out, HasSubstr("\n[budget]\nno all_to_all\n"));
  }
}

TEST(CliRight, ASearchThatLowersEveryLayoutSaysSo) {
  const Outcome one = RunMtf("search --mesh=data:1 --layers=1");
  EXPECT_THAT(one.out, HasSubstr("\n# 1 layout: it was lowered\n"));
  const Outcome all =
      RunMtf("search --mesh=data:2 --layers=1 --sections=false --keep=100");
  EXPECT_THAT(all.out, HasSubstr(" layouts: all were lowered\n"));
}

}  // namespace
}  // namespace mtf
