// SPDX-License-Identifier: Apache-2.0
#include "absl/flags/flag.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "lowering/parse_program.h"
#include "lowering/program/print_program.h"
#include "mtf/graph.h"
#include "nn/models/build_model.h"
#include "planning/machine/machine.h"
#include "tests/fuzz/parsers.h"
#include "train/loop/parse_flags.h"

ABSL_FLAG(int, fuzzed_number, 0, "A number.");
ABSL_FLAG(std::string, fuzzed_text, "", "A text.");

namespace mtf::fuzzing {
namespace {

absl::Status ParseMesh(absl::string_view text) {
  const auto mesh = Mesh::Parse(text);
  if (!mesh.ok()) return mesh.status();
  const auto again = Mesh::Parse(mesh->ToString());
  if (!again.ok()) CheckSameText(mesh->ToString(), again.status().message());
  CheckSameText(mesh->ToString(), again->ToString());
  return absl::OkStatus();
}

absl::Status ParseLayout(absl::string_view text) {
  const auto rules = LayoutRules::Parse(text, "fuzzed");
  if (!rules.ok()) return rules.status();
  const auto again = LayoutRules::Parse(rules->ToString(), "fuzzed");
  if (!again.ok()) CheckSameText(rules->ToString(), again.status().message());
  CheckSameText(rules->ToString(), again->ToString());
  return absl::OkStatus();
}

absl::Status ParseMachine(absl::string_view text) {
  const auto machine = Machine::Parse(text, "fuzzed");
  if (!machine.ok()) return machine.status();
  const auto again = Machine::Parse(machine->ToString(), "fuzzed");
  if (!again.ok()) CheckSameText(machine->ToString(), again.status().message());
  CheckSameText(machine->ToString(), again->ToString());
  return absl::OkStatus();
}

absl::Status ParseProgramText(absl::string_view text) {
  const auto program = ParseProgram(text);
  if (!program.ok()) return program.status();
  const std::string printed = PrintProgram(*program);
  const auto again = ParseProgram(printed);
  if (!again.ok()) CheckSameText(printed, again.status().message());
  CheckSameText(printed, PrintProgram(*again));
  return absl::OkStatus();
}

// The lines of a flagfile.
absl::Status ParseFlagFile(absl::string_view text) {
  return train::ParseFlags({"--flagfile=" + FuzzedFile("fuzzed.flags", text)});
}

absl::Status ParseModelConfig(absl::string_view text) {
  Graph graph;
  return nn::BuildModel(graph, "", text, {.batch = 2, .length = 4}).status();
}

constexpr char kLayout[] =
    "batch:data, heads:model+pod\n"
    "[in layer_*/attention]  # a comment\n"
    "length:replicated\n"
    "[parameters keep_gathered]\nd_model:data\n"
    "[optimizer]\nd_model:data\n"
    "[budget]\nmemory at most 80 GiB\n";

constexpr char kProgram[] =
    "mesh{data:2}\n"
    "%x : f32[batch:8/data, io:4] = input x\n"
    "%w : f32[io:4, hidden:6] = read_variable w\n"
    "%h : f32[batch:8/data, hidden:6] = einsum(%x, %w) sum{io}\n"
    "%r : f32[batch:8/data, hidden:6] = map(%h) relu\n"
    "%s : f32[hidden:6] unreduced{data} = reduce(%r) sum\n"
    "%t : f32[hidden:6] = all_reduce(%s) sum over{data}\n"
    "output(%t) t\n"
    "end{instructions:7}\n";

constexpr char kGpt2Config[] =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2,
 "n_positions": 8, "vocab_size": 16, "activation_function": "gelu_new"})";

}  // namespace

std::vector<FuzzedParser> TextParsers() {
  std::vector<std::string> machines;
  for (const char* name : {"h100_nvlink_ib", "cpu_host"}) {
    const auto machine = Machine::Load(name);
    if (machine.ok()) machines.push_back(machine->ToString());
  }
  return {{"mesh", {"data:2,model:2", "pod:2;data:4"}, ParseMesh},
          {"layout", {kLayout, "batch:pod+data"}, ParseLayout},
          {"machine", machines, ParseMachine},
          {"program", {kProgram}, ParseProgramText},
          {"flags",
           {"# a comment\n--fuzzed_number=3\n--fuzzed_text=a b\n"},
           ParseFlagFile},
          {"model_config", {kGpt2Config}, ParseModelConfig}};
}

}  // namespace mtf::fuzzing
