// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "lowering/program/program_parser.h"
#include "lowering/program/readers.h"

namespace mtf::internal {

int ProgramParser::ParseMember(LineReader& line) {
  const int value = Operand(line);
  if (!line.ok()) return 0;
  const Instruction& member = program_.instructions[producers_[value]];
  if (member.results[0] != value) {
    line.FailWord("an instruction is named by its first result");
  }
  return producers_[value];
}

// "rows(%max, %e, %sum, %p)" or "maps(%m1, %w1; %n1, %v1)", where ";" begins a
// section, and the attributes of the kind.
void ProgramParser::ParseGroup(LineReader& line) {
  if (producers_.size() != program_.values.size()) {
    producers_ = FindProducers(program_);
  }
  const std::string kind = line.Word();
  line.Expect("(");
  std::vector<std::vector<int>> sections(1);
  while (line.ok()) {
    sections.back().push_back(ParseMember(line));
    if (line.Take(";")) {
      sections.emplace_back();
    } else if (!line.Take(",")) {
      break;
    }
  }
  line.Expect(")");
  FusedGroup group;
  for (const std::vector<int>& section : sections) {
    group.members.insert(group.members.end(), section.begin(), section.end());
  }
  std::sort(group.members.begin(), group.members.end());
  if (line.ok()) ParseGroupKind(line, kind, std::move(sections), group);
  if (line.ok()) program_.groups.push_back(std::move(group));
}

void ProgramParser::ParseGroupKind(LineReader& line, const std::string& kind,
                                   std::vector<std::vector<int>> sections,
                                   FusedGroup& group) {
  if (kind != "maps" && sections.size() > 1) {
    return line.Fail(
        absl::StrCat("only groups of maps have sections, not ", Quoted(kind)));
  }
  if (kind == "convolution") {
    group.kind = ConvolutionGroup();
  } else if (kind == "pool") {
    group.kind = PoolGroup();
  } else if (kind == "rows") {
    group.kind = RowGroup();
  } else if (kind == "maps") {
    group.kind = MapGroup{std::move(sections)};
  } else if (kind == "bias_gradient") {
    line.Expect("of");
    group.kind = BiasGradientGroup{Operand(line)};
  } else if (kind == "epilogue") {
    EpilogueGroup epilogue;
    if (line.TakeWord("bias")) epilogue.bias = Operand(line);
    if (line.TakeWord("add")) {
      epilogue.addend = Operand(line);
    } else if (line.TakeWord("accumulate")) {
      epilogue.addend = Operand(line);
      epilogue.accumulates = true;
    }
    epilogue.gelu = line.TakeWord("gelu");
    if (line.TakeWord("gelu_gradient")) epilogue.gelu_gradient = Operand(line);
    group.kind = epilogue;
  } else {
    line.Fail(absl::StrCat("no kind of group is called ", Quoted(kind)),
              "the kinds are convolution, pool, epilogue, rows, "
              "bias_gradient and maps");
  }
}

}  // namespace mtf::internal
