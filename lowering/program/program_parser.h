// SPDX-License-Identifier: Apache-2.0
//
// What reads the text of a program, line by line: parse_program.cc what stands
// above the instructions and the whole, parse_instruction.cc the instructions,
// parse_attributes.cc what each kind of them says behind its operands.
#ifndef LOWERING_PROGRAM_PROGRAM_PARSER_H_
#define LOWERING_PROGRAM_PROGRAM_PARSER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowering/program/line_reader.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// What stands behind the ":" of a value.
struct ParsedType {
  DType dtype = kFloat32;
  Shape shape;
  TensorLayout layout;
  absl::InlinedVector<int64_t, 5> local;
};

// A program as its text says it is, and where the text says so.
struct ParsedProgram {
  // The plan that the text gives an einsum, and its line and column.
  struct EinsumText {
    size_t instruction;
    std::string place;
    std::string plan;
  };

  Program program;
  std::vector<int> lines;  // by instruction
  std::vector<EinsumText> einsum_plans;
  bool has_buffers = false;
  // Line and column of the arena's size and of the commit, if any.
  std::string arena_place, commit_place;
};

// `status` with its long lines shortened: names and instructions may fill a
// file.
absl::Status WithoutLongLines(const absl::Status& status);

// Reads one program; see ParseProgram of lowering/parse_program.h.
class ProgramParser {
 public:
  // Returns kInvalidArgument with line and column for text that is no program.
  // The program is not verified and its einsums are not planned.
  absl::StatusOr<ParsedProgram> Run(absl::string_view text);

 private:
  absl::Status ParseLine(const LogicalLine& text);
  // Takes `word` where it begins the line; an error where it comes twice or
  // behind an instruction.
  bool TakeHeader(LineReader& line, absl::string_view word, bool& seen);
  void ParseMesh(LineReader& line);
  // The names of one dimension.
  void ParseTied(LineReader& line);
  // The axes that a dimension may be cut over though nothing here is.
  void ParseGrains(LineReader& line);
  void ParseBuffers(LineReader& line);
  // What a rule says is taken as it stands: the layouts below show its effect.
  void ParseRule(LineReader& line);
  // The end tells a text that was cut, or lost a line.
  void ParseEnd(LineReader& line);
  absl::Status CheckEnd(const LogicalLine& last) const;
  static std::string FirstLine(const absl::Status& status);
  int Axis(LineReader& line);
  void ParseAxes(LineReader& line, absl::string_view separator, AxisList& axes);
  void ParseDimensions(LineReader& line, ParsedType& type);
  static DType ParsedDType(LineReader& line);
  ParsedType ParseType(LineReader& line);
  // Where a value is stored: what follows its "@".
  void ParseBuffer(LineReader& line, BufferPlan::Buffer& buffer);
  int Operand(LineReader& line);
  void ParseInstruction(LineReader& line);
  // Adds the values up to the "=".
  absl::InlinedVector<int, 1> ParseResults(LineReader& line);
  // Fails unless an instruction of that name has results or none, as given.
  std::optional<Opcode> ParseOpcode(LineReader& line, size_t results);
  // Why the instruction is there and who made it, where the text says so.
  void ParseOrigin(LineReader& line, Instruction& instruction);
  ReduceKind Reduction(LineReader& line);
  // The index, or the name, of a dimension that `value` must have.
  int DimensionIndexOf(LineReader& line, int value);
  std::string DimensionNameOf(LineReader& line, int value);
  // "over{rows, cols}".
  AxisList Over(LineReader& line);
  void ParseExpression(LineReader& line, const Instruction& instruction,
                       MapExpression& expression);
  // The dtype that a step without one in the text has: bool for a comparison,
  // else that of its last argument (a select's first is its condition).
  DType StepDType(const Instruction& instruction,
                  const MapExpression& expression, const MapStep& step) const;
  // The section that follows the name of a variable; parameters have none.
  static RuleSection VariableSection(LineReader& line);
  // Lists a variable when its name first occurs.
  void AddVariable(LineReader& line, const ProgramValue& value,
                   const std::string& name, RuleSection section);
  // What follows the operands. The opcode, operands and results are set, and
  // their numbers are right.
  void ParseAttributes(LineReader& line, Instruction& instruction);
  void Parse(LineReader&, const Instruction&, MapAttributes&);
  void Parse(LineReader&, const Instruction&, NoAttributes&);
  void Parse(LineReader&, const Instruction&, NameAttributes&);
  void Parse(LineReader&, const Instruction&, ConstantAttributes&);
  void Parse(LineReader&, const Instruction&, RandomAttributes&);
  void Parse(LineReader&, const Instruction&, EinsumAttributes&);
  void Parse(LineReader&, const Instruction&, ReduceAttributes&);
  void Parse(LineReader&, const Instruction&, SliceAttributes&);
  void Parse(LineReader&, const Instruction&, PadAttributes&);
  void Parse(LineReader&, const Instruction&, ConcatAttributes&);
  void Parse(LineReader&, const Instruction&, GatherAttributes&);
  void Parse(LineReader&, const Instruction&, ScanAttributes&);
  void Parse(LineReader&, const Instruction&, ReduceBlocksAttributes&);
  void Parse(LineReader&, const Instruction&, TopKAttributes&);
  void Parse(LineReader&, const Instruction&, MaskAttributes&);
  void Parse(LineReader&, const Instruction&, CollectiveAttributes&);
  // The names that follow "sum{": exactly those that the result leaves out.
  void ParseSummed(LineReader& line, const Instruction& instruction);
  // What follows "by{".
  void ParsePlan(LineReader& line);
  // Extents are known once every line has said which axes it uses. Shards have
  // them where the text gives any, and where they are the sizes anyway. What
  // the text says they are is checked with everything else.
  void FinishExtents();
  // An extent that the text leaves out is the size.
  static void SetExtents(const Shape& shape,
                         absl::InlinedVector<int64_t, 5>& extents);

  Program program_;
  absl::flat_hash_map<std::string, int> ids_;
  absl::flat_hash_map<std::string, size_t> variables_;  // their places
  absl::flat_hash_map<std::pair<std::string, std::string>, int> origins_;
  std::vector<int> lines_;  // by instruction
  // By value: the extents of its shards, -1 where the text gives none.
  std::vector<absl::InlinedVector<int64_t, 5>> given_extents_;
  std::vector<ParsedProgram::EinsumText> plans_;
  std::string arena_place_, commit_place_;  // in the text, "line 2, column 15"
  bool has_mesh_ = false;
  bool has_tied_ = false;
  bool has_grains_ = false;
  bool has_buffers_ = false;
  bool has_local_ = false;
  bool has_end_ = false;
};

}  // namespace mtf::internal

#endif  // LOWERING_PROGRAM_PROGRAM_PARSER_H_
