// SPDX-License-Identifier: Apache-2.0
//
// Checks the pages against the code: commands are run, programs are parsed,
// lists are complete and links resolve.
//
//   ```console   "$ command" lines run in bash at the root of the repository;
//                the following text is their output, except for line numbers
//   ```mtf       a program, which parses and prints as the same text
//
// DOCS_ROOT is the repository, DOCS_BIN the folder of its programs.
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/layout_rules.h"
#include "lowering/lower.h"
#include "lowering/parse_program.h"
#include "lowering/program/print_program.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"
#include "mtf/status.h"
#include "ops/einsum.h"
#include "ops/gather.h"
#include "ops/input.h"
#include "planning/machine/machine.h"
#include "tests/matchers.h"
#include "train/loop/run_main.h"
#include "train/session/plan_check.h"
#include "train/session/session.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// README.md, CHANGELOG.md, and the pages of all folders and their subfolders.
std::vector<fs::path> Pages() {
  std::vector<fs::path> pages;
  const fs::path root = DOCS_ROOT;
  for (fs::recursive_directory_iterator entry(root), end; entry != end;
       ++entry) {
    const std::string name = entry->path().filename();
    if (entry->is_directory() && (name[0] == '.' || name == "build")) {
      entry.disable_recursion_pending();
    } else if (entry->path().extension() == ".md") {
      pages.push_back(entry->path());
    }
  }
  std::sort(pages.begin(), pages.end());
  return pages;
}

std::string NameOf(const fs::path& page) {
  return fs::relative(page, DOCS_ROOT).string();
}

// A fenced block of a page.
struct Block {
  std::string position;  // "docs/errors.md:12"
  std::string text;

  friend void PrintTo(const Block& block, std::ostream* out) {
    *out << block.position;
  }
};

std::vector<Block> BlocksOf(const fs::path& page, absl::string_view language) {
  std::vector<Block> blocks;
  const std::string open = absl::StrCat("```", language);
  bool inside = false, wanted = false;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(ReadFile(page), '\n')) {
    ++number;
    if (absl::StartsWith(line, "```")) {
      inside = !inside;
      wanted = inside && line == open;
      if (wanted) {
        blocks.push_back({absl::StrCat(NameOf(page), ":", number), ""});
      }
    } else if (wanted) {
      absl::StrAppend(&blocks.back().text, line, "\n");
    }
  }
  return blocks;
}

std::vector<Block> AllBlocks(absl::string_view language) {
  std::vector<Block> blocks;
  for (const fs::path& page : Pages()) {
    for (Block& block : BlocksOf(page, language)) {
      blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

std::string TestName(const ::testing::TestParamInfo<Block>& info) {
  return std::regex_replace(info.param.position, std::regex("[^a-zA-Z0-9]"),
                            "_");
}

class Commands : public ::testing::TestWithParam<Block> {};

// Runs the commands of a block in one shell and returns them with their output
// in the form of the page, with the exit status of the previous command.
std::string Transcript(const Block& block) {
  std::vector<std::string> commands;
  for (absl::string_view line : absl::StrSplit(block.text, '\n')) {
    if (absl::ConsumePrefix(&line, "$ ")) {
      commands.emplace_back(line);
    } else if (!commands.empty() && absl::EndsWith(commands.back(), "\\")) {
      absl::StrAppend(&commands.back(), "\n", line);
    }
  }
  // Explanations must not depend on a machine file of the user.
  std::string script = "cd " DOCS_ROOT "\nPATH=" DOCS_BIN
                       ":$PATH\nexport MTF_MACHINES=/no/such/folder\n"
                       "status=0\n";
  for (const std::string& command : commands) {
    absl::StrAppend(&script, "(exit $status); ", command,
                    "\nstatus=$?\nprintf '\\001'\n");
  }
  const fs::path path =
      fs::path(::testing::TempDir()) / absl::StrCat("docs_", getpid(), ".sh");
  std::ofstream(path) << script;
  FILE* pipe =
      popen(absl::StrCat("bash ", path.string(), " 2>&1").c_str(), "r");
  std::string output;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof(buffer), pipe)) {
    output.append(buffer, n);
  }
  pclose(pipe);
  fs::remove(path);
  const std::vector<std::string> outputs = absl::StrSplit(output, '\001');
  std::string transcript;
  for (size_t i = 0; i < commands.size() && i < outputs.size(); ++i) {
    const auto shown = absl::StripTrailingAsciiWhitespace(outputs[i]);
    absl::StrAppend(&transcript, "$ ", commands[i], "\n", shown,
                    shown.empty() ? "" : "\n");
  }
  return transcript;
}

// Line numbers of sources change; pages need not follow.
std::string WithoutLineNumbers(const std::string& text) {
  return std::regex_replace(text, std::regex("\\.cc:[0-9]+"), ".cc:N");
}

TEST_P(Commands, PrintWhatThePageSays) {
  EXPECT_EQ(WithoutLineNumbers(Transcript(GetParam())),
            WithoutLineNumbers(GetParam().text))
      << GetParam().position;
}

INSTANTIATE_TEST_SUITE_P(Docs, Commands,
                         ::testing::ValuesIn(AllBlocks("console")), TestName);

class Programs : public ::testing::TestWithParam<Block> {};

TEST_P(Programs, PrintAsTheSameText) {
  const absl::StatusOr<Program> program = ParseProgram(GetParam().text);
  ASSERT_TRUE(program.ok()) << GetParam().position << "\n" << program.status();
  const ProgramDetail detail = program->origins.empty()
                                   ? ProgramDetail::kPlain
                                   : ProgramDetail::kWithOrigins;
  EXPECT_EQ(PrintProgram(*program, detail), GetParam().text)
      << GetParam().position;
}

INSTANTIATE_TEST_SUITE_P(Docs, Programs, ::testing::ValuesIn(AllBlocks("mtf")),
                         TestName);

TEST(ProgramPage, ShowsTheFirstProgramLowered) {
  const std::vector<Block> blocks =
      BlocksOf(fs::path(DOCS_ROOT) / "docs/program.md", "mtf");
  ASSERT_GE(blocks.size(), 2);
  absl::StatusOr<Program> program = ParseProgram(blocks[0].text);
  ASSERT_OK(program);
  for (const std::string& pass : PassNames()) {
    ASSERT_OK(RunPass(pass, *program)) << pass;
  }
  EXPECT_EQ(PrintProgram(*program), blocks[1].text);
}

TEST(Readme, ShowsTheProgramOfTheExamples) {
  const std::vector<Block> blocks =
      BlocksOf(fs::path(DOCS_ROOT) / "README.md", "cpp");
  ASSERT_EQ(blocks.size(), 1);
  const std::string source =
      ReadFile(fs::path(DOCS_ROOT) / "examples/readme_program.cc");
  const size_t begin = source.find("#include");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(blocks[0].text, source.substr(begin));
}

TEST(WritingLayersPage, ShowsTheLessons) {
  const fs::path root = DOCS_ROOT;
  const std::string source =
      ReadFile(root / "examples/05_layer_and_optimizer.cc") +
      ReadFile(root / "examples/06_share_weights.cc");
  const std::vector<Block> blocks =
      BlocksOf(root / "docs/writing_layers.md", "cpp");
  EXPECT_GE(blocks.size(), 4);
  for (const Block& block : blocks) {
    EXPECT_TRUE(absl::StrContains(source, block.text))
        << block.position << " is not part of a lesson";
  }
}

TEST(Pages, LinksResolve) {
  const std::regex link("\\]\\(([^)#: ]+)(#[^)]*)?\\)");
  for (const fs::path& page : Pages()) {
    const std::string text = ReadFile(page);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end;
         it != end; ++it) {
      EXPECT_TRUE(fs::exists(page.parent_path() / (*it)[1].str()))
          << NameOf(page) << " links to " << (*it)[1];
    }
  }
}

void CheckReadme(const fs::path& folder) {
  SCOPED_TRACE(NameOf(folder));
  ASSERT_TRUE(fs::exists(folder / "README.md"));
  const std::string text = ReadFile(folder / "README.md");
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 66);
}

TEST(Pages, EveryFolderHasOneOfAtMostAPage) {
  for (const char* folder :
       {"mtf", "layouts", "ops", "nn", "lowering", "planning", "backends",
        "train", "examples", "tools", "tests", "benchmarks"}) {
    CheckReadme(fs::path(DOCS_ROOT) / folder);
  }
  for (const char* parent :
       {"lowering", "planning", "backends", "backends/cuda", "train"}) {
    for (const auto& entry :
         fs::directory_iterator(fs::path(DOCS_ROOT) / parent)) {
      if (entry.is_directory()) CheckReadme(entry.path());
    }
  }
}

// Headers of ops/ and nn/ that are for the library alone.
bool IsInternalHeader(absl::string_view path) {
  static const std::set<absl::string_view>& internal =
      *new std::set<absl::string_view>{"ops/checks.h",
                                       "ops/attention_operation.h",
                                       "ops/composed_attention.h",
                                       "nn/attention/attention_weights.h",
                                       "nn/attention/projections.h",
                                       "nn/experts/dispatch.h",
                                       "nn/experts/router.h",
                                       "nn/layers/layer.h",
                                       "nn/layers/orthogonalize.h",
                                       "nn/layers/pattern_check.h",
                                       "nn/losses/elementwise_loss.h",
                                       "nn/losses/position_weights.h",
                                       "nn/models/model_parts.h",
                                       "nn/optimizers/accumulate.h",
                                       "nn/optimizers/adam_rule.h",
                                       "nn/optimizers/common_options.h",
                                       "nn/optimizers/optimizer_checks.h",
                                       "nn/optimizers/state.h"};
  return internal.count(path) > 0;
}

TEST(UmbrellaHeader, IncludesEveryPublicHeaderOfOpsAndNn) {
  const fs::path root = DOCS_ROOT;
  const std::string umbrella = ReadFile(root / "mtf/mtf.h");
  int headers = 0;
  for (const char* folder : {"ops", "nn"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const fs::path& path = entry.path();
      if (path.extension() != ".h") continue;
      ++headers;
      const std::string name = NameOf(path);
      EXPECT_EQ(absl::StrContains(umbrella,
                                  absl::StrCat("#include \"", name, "\"\n")),
                !IsInternalHeader(name))
          << name;
      // The table of its folder, or of the whole, names a header with or
      // without its extension.
      const fs::path own = path.parent_path() / "README.md";
      EXPECT_THAT(
          ReadFile(fs::exists(own) ? own : root / folder / "README.md"),
          AnyOf(HasSubstr(absl::StrCat("`", path.stem().string(), "`")),
                HasSubstr(absl::StrCat("`", path.filename().string(), "`"))))
          << name;
    }
  }
  EXPECT_GT(headers, 25);
}

TEST(MachinesPage, NamesEveryPreset) {
  const std::string text = ReadFile(fs::path(DOCS_ROOT) / "docs/machines.md");
  for (const std::string& preset : Machine::PresetNames()) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("| `", preset, "` |")));
  }
}

TEST(ProgramPage, NamesEveryInstructionAndPass) {
  const std::string text = ReadFile(fs::path(DOCS_ROOT) / "docs/program.md");
  for (int i = 0; i <= static_cast<int>(Opcode::kCollectivePermute); ++i) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(
                          "**`", OpcodeName(static_cast<Opcode>(i)), "`**")));
  }
  // The table lists them in the order in which they run.
  size_t row = 0;
  for (const std::string& pass : PassNames()) {
    row = text.find(absl::StrCat("| `", pass, "` |"), row);
    ASSERT_NE(row, std::string::npos) << pass;
  }
}

TEST(ErrorsPage, ShowsTheErrorOfAWrongCall) {
  Graph graph;
  const CallSiteScope site(graph, CallSite{"mlp.cc", 41});
  const Dimension batch{"batch", 64}, io{"io", 512};
  const Tensor h = Input(graph, "h", kFloat32, {batch, {"hidden", 2048}});
  const Tensor w2 = Input(graph, "w2", kFloat32, {{"hidden", 2050}, io});
  Einsum({h, w2}, {batch, io});
  EXPECT_THAT(ReadFile(fs::path(DOCS_ROOT) / "docs/errors.md"),
              HasSubstr(absl::StrCat(ErrorText(graph.status()), "\n")));
}

TEST(ErrorsPage, ShowsTheErrorOfAnIndexOutOfRange) {
  Graph graph;
  const CallSiteScope site(graph, CallSite{"lm.cc", 12});
  const Tensor table = Input(graph, "table", kFloat32, {{"vocab", 5}});
  const Tensor tokens =
      Input(graph, "tokens", kInt32, {{"batch", 3}, {"length", 4}});
  const Tensor rows = Gather(table, tokens, "vocab");
  std::vector<int32_t> indices(12, 0);
  indices[9] = -1;
  indices[11] = 7;
  auto session = train::Session::Create(graph, "a:2,b:3", "vocab:a, length:b");
  ASSERT_OK(session);
  const auto values = (*session)->Run(
      {.feeds = {{"table", HostTensor(table.shape(), kFloat32)},
                 {"tokens", HostTensor::Of<int32_t>(tokens.shape(), indices)}},
       .fetches = {rows}});
  EXPECT_THAT(ReadFile(fs::path(DOCS_ROOT) / "docs/errors.md"),
              HasSubstr(absl::StrCat(ErrorText(values.status()), "\n")));
}

TEST(ErrorsPage, ShowsRanksThatDiffer) {
  LocalRanks ranks(*Mesh::Parse("ranks:4"));
  const absl::Status status = ranks.Run([](Communicator& communicator) {
    const bool odd = communicator.rank() == 3;
    return train::CheckSamePlan(communicator,
                                {{"--layout", odd ? "zero3" : "megatron"},
                                 {"--seed", odd ? "7" : "0"}});
  });
  EXPECT_THAT(ReadFile(fs::path(DOCS_ROOT) / "docs/errors.md"),
              HasSubstr(absl::StrCat(ErrorText(status), "\n")));
}

TEST(ErrorsPage, NamesTheExitCodes) {
  const std::string text = ReadFile(fs::path(DOCS_ROOT) / "docs/errors.md");
  for (int i = 0; i <= 16; ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    const int exit = train::ExitCode(code);
    // 70 is the exit code of all errors that are not the user's fault.
    const std::string row =
        absl::StrCat("| `", absl::StatusCodeToString(code), "` | ");
    if (exit != 70 || code == absl::StatusCode::kInternal) {
      EXPECT_THAT(text, HasSubstr(absl::StrCat(row, exit, " |")));
    }
  }
}

TEST(LayoutsPage, NamesEveryPreset) {
  const std::string text = ReadFile(fs::path(DOCS_ROOT) / "docs/layouts.md");
  for (const std::string& preset : LayoutRules::PresetNames()) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("| `", preset, "` |")));
  }
}

}  // namespace
}  // namespace mtf
