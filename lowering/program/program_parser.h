// SPDX-License-Identifier: Apache-2.0
//
// Parses the text of a program, line by line: program_parser.cc the lines
// before and after the instructions, parse_instruction.cc an instruction,
// parse_attributes.cc its attributes, parse_group.cc a fused group.
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

// The type of a value, which follows its ":".
struct ParsedType {
  DType dtype = kFloat32;
  Shape shape;
  TensorLayout layout;
  absl::InlinedVector<int64_t, 5> local;
};

// A program as stated by its text, with positions for errors.
struct ParsedProgram {
  // The plan that the text states for an einsum, and its line and column.
  struct EinsumText {
    size_t instruction;
    std::string position;
    std::string plan;
  };

  Program program;
  std::vector<int> lines;  // by instruction
  std::vector<EinsumText> einsum_plans;
  bool has_buffers = false;
  // Line and column of the arena size and of the commit, if stated.
  std::string arena_position, commit_position;
};

// `status` with long lines truncated: a name or an instruction may be as long
// as the file.
absl::Status WithoutLongLines(const absl::Status& status);

// Parses one program; see ParseProgram of lowering/parse_program.h.
class ProgramParser {
 public:
  // Returns kInvalidArgument with line and column if the text is not a program.
  // Does not verify the program or plan its einsums.
  absl::StatusOr<ParsedProgram> Run(absl::string_view text);

 private:
  absl::Status ParseLine(const LogicalLine& text);
  // Takes `word` if the line begins with it. Fails if it occurred before or
  // follows an instruction.
  bool TakeHeader(LineReader& line, absl::string_view word, bool& seen);
  void ParseMesh(LineReader& line);
  // Other names of dimensions.
  void ParseTied(LineReader& line);
  // Axes that may shard a dimension though no value of the text is sharded.
  void ParseGrains(LineReader& line);
  void ParseBuffers(LineReader& line);
  // A rule is not applied: the layouts of the values show its effect.
  void ParseRule(LineReader& line);
  // The groups follow the instructions.
  void ParseGroup(LineReader& line);
  // The instruction that computes the next value.
  int ParseMember(LineReader& line);
  void ParseGroupKind(LineReader& line, const std::string& kind,
                      std::vector<std::vector<int>> sections,
                      FusedGroup& group);
  // The end line detects text that was truncated or lost a line.
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
  // The causes and the user's operation, if the text states them.
  void ParseOrigin(LineReader& line, Instruction& instruction);
  ReduceKind Reduction(LineReader& line);
  // The index, or the name, of a dimension that `value` must have.
  int DimensionIndexOf(LineReader& line, int value);
  std::string DimensionNameOf(LineReader& line, int value);
  // "over{rows, cols}".
  AxisList Over(LineReader& line);
  void ParseExpression(LineReader& line, const Instruction& instruction,
                       MapExpression& expression);
  // The dtype of a step that states none: bool for a comparison, otherwise that
  // of its last argument (the first of a select is its condition).
  DType StepDType(const Instruction& instruction,
                  const MapExpression& expression, const MapStep& step) const;
  // What the brackets after the name of a variable say; a parameter in device
  // memory has none.
  struct VariableIs {
    RuleSection section = RuleSection::kParameters;
    bool offloaded = false;
  };
  static VariableIs ParseVariableMark(LineReader& line);
  // Lists a variable when its name first occurs.
  void AddVariable(LineReader& line, const ProgramValue& value,
                   const std::string& name, VariableIs is);
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
  void Parse(LineReader&, const Instruction&, RowsAttributes&);
  void Parse(LineReader&, const Instruction&, WindowAttributes&);
  void Parse(LineReader&, const Instruction&, GatherAttributes&);
  void Parse(LineReader&, const Instruction&, CheckIndexAttributes&);
  void Parse(LineReader&, const Instruction&, DynamicSliceAttributes&);
  void Parse(LineReader&, const Instruction&, ScanAttributes&);
  void Parse(LineReader&, const Instruction&, ReduceBlocksAttributes&);
  void Parse(LineReader&, const Instruction&, TopKAttributes&);
  void Parse(LineReader&, const Instruction&, AttentionAttributes&);
  void Parse(LineReader&, const Instruction&, MaskAttributes&);
  void Parse(LineReader&, const Instruction&, CollectiveAttributes&);
  // The names after "sum{", which must be those that the result lacks.
  void ParseSummed(LineReader& line, const Instruction& instruction);
  // The plan after "by{".
  void ParsePlan(LineReader& line);
  // Sets local extents once all lines are parsed: whether shards have extents
  // depends on the whole text. They do if the text states any, or if they equal
  // the sizes. The verifier checks them.
  void FinishExtents();
  // An extent that the text does not state is the size.
  static void SetExtents(const Shape& shape,
                         absl::InlinedVector<int64_t, 5>& extents);

  Program program_;
  absl::flat_hash_map<std::string, int> ids_;
  absl::flat_hash_map<std::string, size_t> variables_;  // indices
  absl::flat_hash_map<std::pair<std::string, std::string>, int> origins_;
  std::vector<int> lines_;  // by instruction
  // By value: the instruction that computes it. Filled in by the first group.
  std::vector<int> producers_;
  // By value: the local extents, -1 if the text states none.
  std::vector<absl::InlinedVector<int64_t, 5>> given_extents_;
  std::vector<ParsedProgram::EinsumText> plans_;
  std::string arena_position_, commit_position_;  // "line 2, column 15"
  bool has_mesh_ = false;
  bool has_tied_ = false;
  bool has_grains_ = false;
  bool has_buffers_ = false;
  bool has_local_ = false;
  bool has_end_ = false;
};

}  // namespace mtf::internal

#endif  // LOWERING_PROGRAM_PROGRAM_PARSER_H_
