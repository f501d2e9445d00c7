// SPDX-License-Identifier: Apache-2.0
//
// The command mtf as a user meets it: what it prints, and every kind of wrong
// file and flag. Each is one message in words, on standard error, with an exit
// code that says what kind it was.
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/layout_rules.h"
#include "lowering/print_program.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/matchers.h"
#include "tests/run_command.h"
#include "tools/models.h"

namespace mtf {
namespace {

using ::mtf::testing::Outcome;
using ::mtf::testing::ReadText;
using ::mtf::testing::RunCommand;
using ::mtf::testing::Temporary;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class File {
 public:
  File(const std::string& name, const std::string& text)
      : path_(Temporary(name)) {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The time limit turns a hang into a failure. `before` is shell.
Outcome RunMtf(const std::string& arguments, const std::string& before = "") {
  return RunCommand(
      absl::StrCat(before, "timeout 120 ", MTF_COMMAND, " ", arguments));
}

// What --dump_program writes.
std::string DumpOf(const std::string& preset) {
  Graph graph;
  const auto model = testing::BuildTransformer(graph, {.layers = 1});
  std::string dump;
  LowerOptions options;
  options.after_pass = [&](absl::string_view pass, const Program& program) {
    absl::StrAppend(&dump, "# after ", pass, "\n", PrintProgram(program), "\n");
  };
  Targets targets;
  targets.fetches = {model.loss};
  targets.updates = {model.step};
  EXPECT_OK(testing::LowerPreset(graph, preset, 4, targets, options));
  return dump;
}

TEST(CliMtf, WantOfMemoryIsOneMessage) {
  const Outcome outcome =
      RunMtf("search --mesh=data:2 --layers=5000", "ulimit -v 300000; ");
  EXPECT_EQ(outcome.exit_code, 71);
  EXPECT_THAT(outcome.errors, StartsWith("RESOURCE_EXHAUSTED no memory on"));
}

TEST(CliMtf, HelpNamesTheCommandsAndTheirFlags) {
  for (const char* arguments : {"", "help", "--help"}) {
    const Outcome outcome = RunMtf(arguments);
    EXPECT_EQ(outcome.exit_code, 0);
    for (const char* command :
         {"explain", "diff", "verify", "calibrate", "search"}) {
      EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("\n  ", command, " ")));
    }
  }
  for (const char* arguments : {"help search", "search --help"}) {
    const Outcome outcome = RunMtf(arguments);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("--memory"), HasSubstr("--mesh"),
                      HasSubstr("--heads"), Not(HasSubstr("--width"))));
  }
  EXPECT_THAT(RunMtf("--version").out, ContainsRegex("^mtf [0-9.]+\n$"));
}

TEST(CliMtf, ExplainShowsTheLastProgramOfADump) {
  const File dump("dump.txt", DumpOf("data_model"));
  Outcome outcome = RunMtf(absl::StrCat("explain ", dump.path()));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("all_reduce"), HasSubstr("model"),
                                 HasSubstr("data:2,model:2")));
  outcome = RunMtf(absl::StrCat("explain --format=json ", dump.path()));
  EXPECT_THAT(outcome.out, StartsWith("{"));
  const std::string page = Temporary("page.html");
  outcome = RunMtf(absl::StrCat("explain --format html --output ", page,
                                " --machine=tpu_v3 ", dump.path()));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(ReadText(page), HasSubstr("<html"));
  std::remove(page.c_str());
}

// A dump may have been cut short behind any pass: what is missing is run.
TEST(CliMtf, ExplainOfAnyPassIsThatOfTheWhole) {
  const std::string text = DumpOf("megatron");
  const File whole("whole.txt", text);
  const File early("early.txt",
                   text.substr(0, text.find("# after expand_reshards")));
  const Outcome of_whole = RunMtf(absl::StrCat("explain ", whole.path()));
  const Outcome of_early = RunMtf(absl::StrCat("explain ", early.path()));
  EXPECT_EQ(of_early.exit_code, 0) << of_early.errors;
  EXPECT_EQ(of_whole.out, of_early.out);
}

// The plans of einsums follow from the shapes, behind whichever pass.
TEST(CliMtf, ExplainPlansTheEinsumsOfATextThatDoesNot) {
  const std::string text = DumpOf("megatron");
  const File whole("whole.txt", text);
  const Outcome of_whole = RunMtf(absl::StrCat("explain ", whole.path()));
  for (const char* behind : {"", "# after plan_buffers"}) {
    std::string edited = text;
    if (*behind != '\0') edited.resize(edited.find(behind));
    for (size_t at; (at = edited.find(" by{")) != std::string::npos;) {
      edited.erase(at, edited.find('}', at) + 1 - at);
    }
    const File file("edited.txt", edited);
    const Outcome outcome = RunMtf(absl::StrCat("explain ", file.path()));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.out, of_whole.out);
  }
}

TEST(CliMtf, DiffOfAProgramWithItselfIsNothing) {
  const File dump("dump.txt", DumpOf("zero3"));
  const Outcome outcome =
      RunMtf(absl::StrCat("diff ", dump.path(), " ", dump.path()));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("removed (-) and added (+)\n  none\n"),
                    ContainsRegex("time .* same\n"),
                    ContainsRegex("memory .* same\n"), Not(HasSubstr("%"))));
}

TEST(CliMtf, DiffOfLayoutsSaysWhatComesAndGoes) {
  const File zero("zero.layout",
                  "batch:data\n[parameters]\nd_model:data\n[optimizer]\n"
                  "d_model:data\n");
  const Outcome outcome =
      RunMtf(absl::StrCat("diff data ", zero.path(), " --mesh=data:4"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("  + [parameters] d_model:data\n"),
                    HasSubstr("  + [optimizer] d_model:data\n"),
                    Not(HasSubstr("  - batch:data")),
                    ContainsRegex("\n  \\+ .* all_gather .* over data"),
                    ContainsRegex("\n  - .* all_reduce .* over data"),
                    ContainsRegex("variables .* -7[0-9]\\.[0-9] %")));
}

TEST(CliMtf, DiffHoldsEachPlanAgainstItsBudget) {
  const std::string rules = "batch:data\n";
  const File strict("strict.layout",
                    rules +
                        "[budget]\nno all_gather over data\n"
                        "at most 1 KiB over data\nmemory at most 80 GiB\n");
  const File zero("zero.layout",
                  rules +
                      "[parameters]\nd_model:data\n[optimizer]\nd_model:data\n"
                      "[budget]\nno all_gather over data\n"
                      "memory at most 1 MiB\n");
  const Outcome outcome = RunMtf(absl::StrCat(
      "diff ", strict.path(), " ", zero.path(), " --mesh=data:4 --layers=1"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(
      outcome.out,
      AllOf(ContainsRegex("\nbudgets, each of its own plan +A +B\n"),
            ContainsRegex("\n    no all_gather over data +met, 0 calls +"
                          "broken, [0-9]+ calls\n"),
            ContainsRegex("\n  - at most 1 KiB over data +broken, .* -\n"),
            ContainsRegex("\n  - memory at most 80 GiB +met, .* -\n"),
            ContainsRegex("\n  [+] memory at most 1 MiB +- +broken, ")));
  const Outcome plain = RunMtf("diff data zero2 --mesh=data:4 --layers=1");
  EXPECT_THAT(plain.out, Not(HasSubstr("budget")));
}

TEST(CliMtf, DiffErrorsNameTheSideTheyAreOf) {
  const Outcome inlined =
      RunMtf("diff data batch:data,batch:data --mesh=data:2");
  EXPECT_EQ(inlined.exit_code, 2);
  EXPECT_THAT(inlined.errors,
              AllOf(HasSubstr("layout B"), Not(HasSubstr("--layout"))));
  const Outcome preset = RunMtf("diff 'data,d_ff:x' data --mesh=data:2");
  EXPECT_EQ(preset.exit_code, 2);
  EXPECT_THAT(preset.errors,
              AllOf(StartsWith("INVALID_ARGUMENT preset \"data\" stands beside "
                               "other items in layout A\n"),
                    Not(HasSubstr("--"))));
  const File file("wrong.layout", "batch:data\n[budget]\nnothing over dta\n");
  const Outcome budget =
      RunMtf(absl::StrCat("diff data ", file.path(), " --mesh=data:2"));
  EXPECT_EQ(budget.exit_code, 2);
  EXPECT_THAT(
      budget.errors,
      AllOf(HasSubstr(absl::StrCat("\n  layout   \"", file.path(), "\"\n")),
            Not(HasSubstr("--layout"))));
}

TEST(CliMtf, DiffTakesRulesToo) {
  const Outcome outcome = RunMtf(
      "diff batch:data batch:data,d_ff:model --mesh=data:2,model:2 --layers=1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out, HasSubstr("  + d_ff:model\n"));
}

TEST(CliMtf, VerifyProvesASmallMesh) {
  const Outcome outcome = RunMtf("verify --mesh='data:2;model:3'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("1 dimension: 63 of 63 pairs"),
                                 HasSubstr("3 dimensions: 573 of 573 pairs"),
                                 HasSubstr("Complete: ")));
}

TEST(CliMtf, OneRankIsCountedAsOne) {
  const Outcome outcome = RunMtf("verify --mesh=data:1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out, StartsWith("mesh data:1, 1 rank: every reshard "));
}

TEST(CliMtf, VerifyKeepsToItsTimeAndSaysWhatIsMissing) {
  const Outcome outcome = RunMtf("verify --mesh=a:8,b:8,c:4 --seconds=0.5");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out,
              AllOf(ContainsRegex("not reached in the time given|too large"),
                    HasSubstr("Not complete"), Not(HasSubstr("Complete: "))));
}

TEST(CliMtf, SearchPrintsLayoutFilesThatParse) {
  const Outcome outcome = RunMtf(
      "search --mesh=data:2,model:2 --sections=false --layers=1 --batch=8");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith("# mtf search: small with layers 1, batch 8 on "
                               "mesh data:2,model:2 of machine "
                               "h100_nvlink_ib\n"),
                    HasSubstr("# Layout 1 of 3"), HasSubstr("#   why ")));
  // Each of the layouts is a file by itself.
  size_t at = outcome.out.find("# Layout ");
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(at, std::string::npos);
    const size_t next = outcome.out.find("# Layout ", at + 1);
    EXPECT_OK(LayoutRules::Parse(outcome.out.substr(at, next - at), "found"));
    at = next;
  }
  // All of it is one layout file, that of the best.
  EXPECT_OK(LayoutRules::Parse(outcome.out, "found"));
}

TEST(CliMtf, SearchOverMeshesOfADeviceCount) {
  const Outcome outcome = RunMtf(
      "search --devices=4 --sections=false --layers=1 --keep=1 --batch=8");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(
      outcome.out,
      ContainsRegex("# Layout 1 of 1 for mesh (all:4|outer:2,inner:2)"));
}

TEST(CliMtf, SearchKeepsToABudget) {
  const File budget("search.layout", "[budget]\nnothing over model\n");
  const std::string search = absl::StrCat(
      "search --mesh=data:2,model:2 --sections=false --layers=1 --batch=8 "
      "--keep=1 --budget=",
      budget.path());
  const Outcome outcome = RunMtf(search);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("# A step: 1 block, a batch of 8 "
                                           "sequences of 64 tokens\n"),
                                 HasSubstr("[budget]\nnothing over model\n"),
                                 Not(HasSubstr(":model"))));
}

TEST(CliMtf, SearchSaysWhatIsMissingWhenNothingFits) {
  const Outcome outcome =
      RunMtf("search --mesh=data:2 --sections=false --layers=1 --memory=1MiB");
  EXPECT_EQ(outcome.exit_code, 71);
  EXPECT_THAT(
      outcome.errors,
      StartsWith("RESOURCE_EXHAUSTED no layout fits into 1048576 "
                 "bytes (1.00 MiB) per rank; the smallest found takes "));
}

TEST(Models, AllBuildInAFewLayers) {
  for (const std::string& name : ModelNames()) {
    auto sizes = FindModel(name);
    ASSERT_OK(sizes);
    sizes->layers = 2;
    const auto step = BuildGpt(*sizes);
    ASSERT_OK(step) << name;
    EXPECT_EQ(step->targets.updates.size(), 1u);
  }
  // 12 d^2 for each block, and 2 vocab d and length d besides.
  const GptSizes gpt3 = *FindModel("gpt3_175b");
  const double parameters =
      static_cast<double>(gpt3.layers) * 12 * gpt3.d_model * gpt3.d_model;
  EXPECT_NEAR(parameters, 174e9, 1e9);
}

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
         "INVALID_ARGUMENT \"FILE\" is no program: it does not begin with a "
         "mesh\n"},
        {"layout_as_program", kExplain, "batch:data\n", 2,
         "INVALID_ARGUMENT \"FILE\" is no program"},
        {"binary_program", kExplain, std::string("\0\x01\xff\xfe", 4), 2,
         "INVALID_ARGUMENT \"FILE\" is no program"},
        {"program_of_unknown_pass", kExplain,
         "# after expand_reshard\nmesh{data:2}\n", 2,
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
         "mesh{data:64}\n%x : f32[b:64/data] = input x\noutput(%x) x\n", 2,
         "INVALID_ARGUMENT "},
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
         "operation are both cut over mesh axis \"data\""},
        {"layout_beside_program", "diff data FILE --mesh=data:2",
         "mesh{data:2}\n%x : f32[b:8] = input x\noutput(%x) x\n", 2,
         "INVALID_ARGUMENT \"data\" is a layout and \"FILE\" a program"},
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
        {"program_that_is_not_there", "explain /no/such/program.txt", "", 66,
         "NOT_FOUND cannot read program \"/no/such/program.txt\""},
        {"folder_as_program", "explain /", "", 2, "INVALID_ARGUMENT cannot "},
        {"unknown_format", "explain FILE --format=jsn", "mesh{data:2}\n", 2,
         "INVALID_ARGUMENT --format is \"jsn\", not text, json or html"},
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
         "NOT_FOUND no model is called \"gpt3_157b\"; did you mean "
         "\"gpt3_175b\"?"},
        {"mesh_and_devices", "search --mesh=data:2 --devices=2", "", 2,
         "INVALID_ARGUMENT both --mesh and --devices are given"},
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
         "\"h200_x8\" joins 8"},
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
         "INVALID_ARGUMENT --dtype is \"i32\", but activations are floats"},
        {"nan_seconds", "verify --mesh=data:2 --seconds=nan", "", 2,
         "INVALID_ARGUMENT flag --seconds is \"nan\", not a number of seconds "
         "from 0"},
        // Found before anything is measured: no progress is told.
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
         "mesh{data:2}\n%x : f32[b:8] = input x\noutput(%x) x\n", 71,
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

}  // namespace
}  // namespace mtf
