// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (checks the output of other programs)
//
// The output of the command mtf.
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/layout_rules.h"
#include "lowering/program/print_program.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/matchers.h"
#include "tests/tools/run_mtf.h"

namespace mtf {
namespace {

using ::mtf::testing::File;
using ::mtf::testing::Outcome;
using ::mtf::testing::ReadText;
using ::mtf::testing::RunMtf;
using ::mtf::testing::Temporary;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The text that --dump_program writes.
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

// A layout of a model by its config, and one of Mesh-TensorFlow's largest under
// its published layout.
TEST(CliMtf, ExplainsLayoutsOfModels) {
  const Outcome t5 = RunMtf(absl::StrCat(
      "explain megatron --mesh=model:2 --batch=4 --length=8 --config=",
      MODELS_DIR, "/t5/config.json"));
  EXPECT_EQ(t5.exit_code, 0) << t5.errors;
  EXPECT_THAT(t5.out, AllOf(HasSubstr("mesh model:2 (2 devices), layout "),
                            HasSubstr("attention_to_memory"),
                            HasSubstr("changes of rules")));
  const Outcome largest = RunMtf("explain --model=mtf_transformer_paper_lm_5");
  EXPECT_EQ(largest.exit_code, 0) << largest.errors;
  // 4.9 billion parameters of 4 bytes, over the 32 ranks of "model".
  EXPECT_THAT(largest.out, HasSubstr("mesh batch:16,model:32 (512 devices)"));
  EXPECT_THAT(largest.out, ContainsRegex("\nparameters +5[0-9]{2} MiB "));
}

// Presets have a mesh and a layout, which arguments replace.
TEST(CliMtf, TakesPresetsOfMeshTensorFlow) {
  const Outcome translation = RunMtf(
      "diff 'batch:batch' 'batch:batch, vocab:model, d_ff:model, heads:model' "
      "--model=mtf_transformer_tiny");
  EXPECT_EQ(translation.exit_code, 0) << translation.errors;
  EXPECT_THAT(translation.out, HasSubstr("mtf_transformer_tiny, "));
  const Outcome images = RunMtf(
      "explain batch:data --mesh=data:2 --batch=2 "
      "--model=mtf_image_transformer_single");
  EXPECT_EQ(images.exit_code, 0) << images.errors;
  EXPECT_THAT(images.out, HasSubstr("mesh data:2 (2 devices)"));
  const Outcome found =
      RunMtf("search --model=mtf_transformer_tiny_lm --batch=4 --length=8");
  EXPECT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_THAT(found.out, AllOf(HasSubstr("batch:2,model:4"),
                               HasSubstr("a batch of 4 sequences")));

  const Outcome sizes =
      RunMtf("explain --model=mtf_transformer_tiny --layers=3");
  EXPECT_NE(sizes.exit_code, 0);
  EXPECT_THAT(sizes.errors,
              HasSubstr("--layers is given, and --model=mtf_transformer_tiny, "
                        "which has the sizes of the model"));
  for (const char* command : {"explain", "search"}) {
    const Outcome length = RunMtf(absl::StrCat(
        command, " --model=mtf_image_transformer_tiny --length=100"));
    EXPECT_EQ(length.exit_code, 2) << command;
    EXPECT_THAT(length.errors,
                StartsWith("INVALID_ARGUMENT --length is 100, but the model "
                           "reads pictures of 3072 values\n  help     leave "
                           "--length out"));
  }
  const Outcome pictures = RunMtf(absl::StrCat(
      "explain data --mesh=data:2 --length=8 --batch=2 --config=", MODELS_DIR,
      "/vit/config.json"));
  EXPECT_EQ(pictures.exit_code, 2);
  EXPECT_THAT(pictures.errors, HasSubstr("reads pictures of 12 x 12"));
  const Outcome unknown = RunMtf(
      "explain --model=mtf_transformer_paper_tr_5 "
      "--mesh=data:2 data");
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_THAT(unknown.errors,
              HasSubstr("did you mean \"mtf_transformer_paper"));
}

// Whatever the allocation that fails.
TEST(CliMtf, OutOfMemoryIsOneMessage) {
  for (const int kib : {100000, 280000, 300000}) {
    const Outcome outcome = RunMtf("search --mesh=data:2 --layers=5000",
                                   absl::StrCat("ulimit -v ", kib, "; "));
    EXPECT_EQ(outcome.exit_code, 71) << kib;
    EXPECT_THAT(outcome.errors, StartsWith("RESOURCE_EXHAUSTED no memory on"))
        << kib;
  }
}

TEST(CliMtf, HelpNamesTheCommandsAndTheirFlags) {
  for (const char* arguments : {"", "help", "--help"}) {
    const Outcome outcome = RunMtf(arguments);
    EXPECT_EQ(outcome.exit_code, 0);
    for (const char* command :
         {"explain", "diff", "verify", "calibrate", "search", "tokenize"}) {
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

// A dump may end after any pass: the remaining passes are run.
TEST(CliMtf, ExplainOfAnyPassEqualsThatOfTheLast) {
  const std::string text = DumpOf("megatron");
  const File whole("whole.txt", text);
  const File early("early.txt",
                   text.substr(0, text.find("# after expand_reshards")));
  const Outcome of_whole = RunMtf(absl::StrCat("explain ", whole.path()));
  const Outcome of_early = RunMtf(absl::StrCat("explain ", early.path()));
  EXPECT_EQ(of_early.exit_code, 0) << of_early.errors;
  EXPECT_EQ(of_whole.out, of_early.out);
}

// Plans of einsums follow from the shapes, after every pass.
TEST(CliMtf, ExplainPlansEinsumsThatHaveNoPlan) {
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

TEST(CliMtf, DiffOfAProgramWithItselfIsEmpty) {
  const File dump("dump.txt", DumpOf("zero3"));
  const Outcome outcome =
      RunMtf(absl::StrCat("diff ", dump.path(), " ", dump.path()));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("removed (-) and added (+)\n  none\n"),
                    ContainsRegex("time .* same\n"),
                    ContainsRegex("memory .* same\n"), Not(HasSubstr("%"))));
}

TEST(CliMtf, DiffListsAddedAndRemovedCollectives) {
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

// Names with a slash are not paths.
TEST(CliMtf, DiffListsOffloadedVariables) {
  const Outcome outcome = RunMtf(
      "diff --mesh=data:2,model:2 --model=small megatron "
      "'megatron,[offload],layer_0/attention'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out, HasSubstr("  + [offload] layer_0/attention\n"));
}

TEST(CliMtf, SearchShowsHostMemory) {
  const std::string search =
      "search --mesh=data:2 --layers=1 --sections=false --keep=1 --offload=";
  const Outcome outcome = RunMtf(search + "optimizer");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(
      outcome.out,
      ContainsRegex("copies to and from the host .*\n#   memory .*\n#   "
                    "host    .*iB of host memory per rank, by "
                    "\\[offload\\]\n"));
  for (const auto& [items, message] :
       {std::pair("batch:data", "item \"batch:data\" of --offload is a rule"),
        std::pair("attention", "did you mean \"**/attention\"?"),
        std::pair("state", "has no effect: the program has no state")}) {
    const Outcome wrong = RunMtf(search + items);
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.errors,
                AllOf(HasSubstr(message),
                      HasSubstr("as in --offload=optimizer,layer_*/"),
                      Not(HasSubstr("--strict_layout"))));
  }
}

TEST(CliMtf, DiffChecksEachPlanAgainstItsBudget) {
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

TEST(CliMtf, DiffErrorsNameTheLayout) {
  const Outcome inlined =
      RunMtf("diff data batch:data,batch:data --mesh=data:2");
  EXPECT_EQ(inlined.exit_code, 2);
  EXPECT_THAT(inlined.errors,
              AllOf(HasSubstr("layout B"), Not(HasSubstr("--layout"))));
  const Outcome preset = RunMtf("diff 'data,d_ff:x' data --mesh=data:2");
  EXPECT_EQ(preset.exit_code, 2);
  EXPECT_THAT(
      preset.errors,
      AllOf(StartsWith("INVALID_ARGUMENT preset \"data\" is combined with "
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

TEST(CliMtf, DiffTakesRules) {
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

TEST(CliMtf, OneRankIsSingular) {
  const Outcome outcome = RunMtf("verify --mesh=data:1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out, StartsWith("mesh data:1, 1 rank: every reshard "));
}

TEST(CliMtf, VerifyKeepsToItsTimeAndCountsWhatIsMissing) {
  const Outcome outcome = RunMtf("verify --mesh=a:8,b:8,c:4 --seconds=0.5");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out,
              AllOf(ContainsRegex("not reached in the time given|too large"),
                    HasSubstr("Not complete"), Not(HasSubstr("Complete: "))));
}

// Their pairs of layouts are too many to list, and their sums over a group too
// many to repeat for each rank.
TEST(CliMtf, VerifyKeepsToItsTimeOnManyAxesAndRanks) {
  for (const char* mesh :
       {"a:2,b:2,c:2,d:2,e:2,f:2,g:2,h:2", "a:65536", "a:256,b:256"}) {
    const Outcome outcome =
        RunMtf(absl::StrCat("verify --seconds=0.5 --mesh=", mesh));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_THAT(outcome.out, HasSubstr("Not complete")) << mesh;
  }
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
  // Each layout parses by itself.
  size_t at = outcome.out.find("# Layout ");
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(at, std::string::npos);
    const size_t next = outcome.out.find("# Layout ", at + 1);
    EXPECT_OK(LayoutRules::Parse(outcome.out.substr(at, next - at), "found"));
    at = next;
  }
  // The complete output is the layout file of the best.
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

TEST(CliMtf, SearchMeetsTheBudget) {
  const File budget("search.layout", "[budget]\nnothing over model\n");
  const std::string search = absl::StrCat(
      "search --mesh=data:2,model:2 --sections=false --layers=1 --batch=8 "
      "--keep=1 --budget=",
      budget.path());
  const Outcome outcome = RunMtf(search);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("# A step: 1 layer, a batch of 8 "
                                           "sequences of 64 tokens\n"),
                                 HasSubstr("[budget]\nnothing over model\n"),
                                 Not(HasSubstr(":model"))));
}

TEST(CliMtf, SearchNamesTheSmallestIfNothingFits) {
  const Outcome outcome =
      RunMtf("search --mesh=data:2 --sections=false --layers=1 --memory=1MiB");
  EXPECT_EQ(outcome.exit_code, 71);
  EXPECT_THAT(
      outcome.errors,
      StartsWith("RESOURCE_EXHAUSTED no layout fits into 1048576 "
                 "bytes (1.00 MiB) per rank; the smallest found takes "));
}

}  // namespace
}  // namespace mtf
