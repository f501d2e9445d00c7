// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/row_group.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cuda/group_wiring.h"
#include "backends/cuda/kernel_text.h"
#include "backends/cuda/kernel_writer.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;
// Elements of a row that a thread keeps of each value. Longer rows are read
// again instead: 16 registers for each of the few values that are alive.
constexpr int64_t kMostKept = 16;
// Elements of a row that a thread had better have before there are more
// threads.
constexpr int64_t kGoodShare = 8;

struct RowDimension {
  std::string name;
  int64_t extent = 1;
};

class RowGroupWriter {
 public:
  RowGroupWriter(absl::Span<const Binding> members, GroupWiring wiring)
      : members_(members), wiring_(std::move(wiring)) {}

  // Nullopt for rows that no kernel is for: none, or too long to count.
  std::optional<RowGroupSource> Write(const GpuInfo& gpu);

 private:
  using Source = GroupWiring::Source;

  bool IsReduce(int member) const {
    return members_[member].instruction().opcode == Opcode::kReduce;
  }
  // Whether a value has columns; one that has none is a single register a row.
  bool HasColumns(const BoundValue& value) const;
  bool IsWide(int member) const {
    return !IsReduce(member) && HasColumns(members_[member].results[0]);
  }
  bool IsWide(const Source& source) const {
    return source.member >= 0 ? IsWide(source.member)
                              : HasColumns(wiring_.inputs[source.input]);
  }

  void FindSpace();
  void FindPhases();
  void FindShape();
  // The first element of the row in `value`, and what a column adds to it.
  std::string RowOffset(const BoundValue& value) const;
  std::string ColumnOffset(const BoundValue& value) const;
  // Whether a row of `value` is the row space's, place by place.
  bool IsDense(const BoundValue& value) const;

  // Registers and how they are written.
  std::string Register(const Source& source) const;
  DType DTypeOf(const Source& source) const;
  StepText Steps(int member, absl::string_view indent);
  std::string IotaText(int member, const std::string& dimension) const;

  // Statements.
  void WriteRowInputs();
  void WriteRowMaps(int phase);
  void WritePhase(int phase);
  void WriteStores();
  void Demand(const Source& source, std::vector<bool>& inputs,
              std::vector<bool>& maps) const;
  void OpenColumns();
  void WriteElements(const std::vector<bool>& inputs,
                     const std::vector<bool>& maps, bool keep);
  void WritePackLoads(const std::vector<bool>& inputs);
  void Line(const std::string& text) {
    absl::StrAppend(&body_, std::string(2 * depth_, ' '), text, "\n");
  }
  void Open(const std::string& text) {
    Line(text);
    ++depth_;
  }
  void Close() {
    --depth_;
    Line("}");
  }
  std::string Indent() const { return std::string(2 * depth_, ' '); }

  absl::Span<const Binding> members_;
  GroupWiring wiring_;
  std::vector<RowDimension> row_dims_, column_dims_;
  int64_t rows_ = 1, columns_ = 1;
  std::vector<int> phase_;  // by member: reductions that come before it
  int phases_ = 0;          // with reductions
  int threads_ = 32;        // for a row
  int block_rows_ = 1;
  int pack_ = 1;        // neighbouring columns that a thread takes at once
  int64_t packs_ = 1;   // of a row
  int64_t shares_ = 1;  // packs of a thread
  bool kept_ = false;   // what a phase has computed stays in registers
  std::vector<bool> done_inputs_, done_maps_;  // are kept already
  RowText row_text_;
  std::string body_;
  int depth_ = 2;
};

bool RowGroupWriter::HasColumns(const BoundValue& value) const {
  for (const RowDimension& dim : column_dims_) {
    if (value.value->shape.Contains(dim.name)) return true;
  }
  return false;
}

void RowGroupWriter::FindSpace() {
  for (const Binding& member : members_) {
    const Instruction& instruction = member.instruction();
    if (instruction.opcode != Opcode::kReduce) continue;
    const int rank = instruction.iteration.rank();
    const int row_rank = member.results[0].value->shape.rank();
    for (int i = 0; i < rank; ++i) {
      const RowDimension dim{instruction.iteration[i].name,
                             member.iteration[i].extent};
      (i < row_rank ? row_dims_ : column_dims_).push_back(dim);
      (i < row_rank ? rows_ : columns_) *= dim.extent;
    }
    return;
  }
}

// A reduction ends the phase in which its operands are known; what reads its
// result belongs to a later one.
void RowGroupWriter::FindPhases() {
  for (size_t i = 0; i < members_.size(); ++i) {
    int phase = 0;
    for (const Source& source : wiring_.sources[i]) {
      if (source.member < 0) continue;
      phase = std::max(
          phase, phase_[source.member] + (IsReduce(source.member) ? 1 : 0));
    }
    phase_.push_back(phase);
    if (IsReduce(static_cast<int>(i))) phases_ = std::max(phases_, phase + 1);
  }
}

void RowGroupWriter::FindShape() {
  // Packs: every value that is read or written whole allows them.
  int64_t size = 1;
  uintptr_t addresses = 0;
  const auto see = [&](const BoundValue& value) {
    if (!HasColumns(value) || !IsDense(value)) return;
    size = std::max(size, DTypeSize(value.dtype()));
    addresses |= reinterpret_cast<uintptr_t>(value.data);
  };
  for (const BoundValue& input : wiring_.inputs) see(input);
  for (size_t i = 0; i < members_.size(); ++i) {
    if (wiring_.stored[i]) see(members_[i].results[0]);
  }
  pack_ = static_cast<int>(16 / std::max<int64_t>(size, 2));
  while (pack_ > 1 && (columns_ % pack_ != 0 || addresses % 16 != 0)) {
    pack_ /= 2;
  }
  packs_ = columns_ / pack_;
  const int64_t share = std::max<int64_t>(1, kGoodShare / pack_);
  const int64_t wanted = (packs_ + share - 1) / share;
  threads_ = static_cast<int>(std::clamp<int64_t>(
      (wanted + kWarp - 1) / kWarp * kWarp, kWarp, kMostThreads));
  shares_ = (packs_ + threads_ - 1) / threads_;
  block_rows_ = threads_ == kWarp ? 4 : 1;
  kept_ = shares_ * pack_ <= kMostKept;
}

std::string RowGroupWriter::RowOffset(const BoundValue& value) const {
  std::string text;
  for (size_t i = 0; i < row_dims_.size(); ++i) {
    const int place = value.value->shape.Find(row_dims_[i].name);
    if (place < 0 || value.dims[place].extent == 1) continue;
    absl::StrAppend(&text, text.empty() ? "" : " + ", "row", i, " * ",
                    value.stride(place), "LL");
  }
  return text.empty() ? "0" : text;
}

// Of the element of column `column`.
std::string RowGroupWriter::ColumnOffset(const BoundValue& value) const {
  std::string text;
  int64_t below = columns_;
  for (const RowDimension& dim : column_dims_) {
    below /= std::max<int64_t>(dim.extent, 1);
    const int place = value.value->shape.Find(dim.name);
    if (place < 0 || dim.extent == 1) continue;
    std::string index = "column";
    if (below > 1) index = absl::StrCat(index, " / ", below);
    if (below * dim.extent < columns_) {
      index = absl::StrCat("(", index, ") % ", dim.extent);
    }
    absl::StrAppend(&text, text.empty() ? "" : " + ", "(i64)(", index, ") * ",
                    value.stride(place));
  }
  return text.empty() ? "0" : text;
}

bool RowGroupWriter::IsDense(const BoundValue& value) const {
  const int rank = value.value->shape.rank();
  const int columns = static_cast<int>(column_dims_.size());
  if (rank < columns) return false;
  for (int i = 0; i < columns; ++i) {
    const int place = rank - columns + i;
    if (value.value->shape[place].name != column_dims_[i].name) return false;
    if (value.dims[place].extent != column_dims_[i].extent) return false;
  }
  return true;
}

std::string RowGroupWriter::Register(const Source& source) const {
  return source.member >= 0 ? absl::StrCat("m", source.member)
                            : absl::StrCat("x", source.input);
}

DType RowGroupWriter::DTypeOf(const Source& source) const {
  return source.member >= 0 ? members_[source.member].results[0].dtype()
                            : wiring_.inputs[source.input].dtype();
}

std::string RowGroupWriter::IotaText(int member,
                                     const std::string& dimension) const {
  const Binding& binding = members_[member];
  const bool reduce = IsReduce(member);
  const Shape& shape = reduce ? binding.instruction().iteration
                              : binding.results[0].value->shape;
  const std::vector<ShardedDimension>& dims =
      reduce ? binding.iteration : binding.results[0].dims;
  const int place = shape.Find(dimension);
  MTF_CHECK_GE(place, 0);
  std::string text = absl::StrCat(dims[place].offset, "LL");
  for (size_t i = 0; i < row_dims_.size(); ++i) {
    if (row_dims_[i].name == dimension) return absl::StrCat(text, " + row", i);
  }
  int64_t below = columns_;
  for (const RowDimension& dim : column_dims_) {
    below /= std::max<int64_t>(dim.extent, 1);
    if (dim.name != dimension) continue;
    return absl::StrCat(text, " + column / ", below, " % ", dim.extent);
  }
  return text;
}

StepText RowGroupWriter::Steps(int member, absl::string_view indent) {
  std::vector<std::string> names;
  std::vector<DType> dtypes;
  for (const Source& source : wiring_.sources[member]) {
    names.push_back(Register(source));
    dtypes.push_back(DTypeOf(source));
  }
  return WriteSteps(
      members_[member].instruction().expression, names, dtypes,
      absl::StrCat("s", member, "_"), indent, row_text_,
      [&](const std::string& dim) { return IotaText(member, dim); });
}

void RowGroupWriter::WriteRowInputs() {
  for (size_t i = 0; i < wiring_.inputs.size(); ++i) {
    const BoundValue& input = wiring_.inputs[i];
    if (HasColumns(input)) continue;
    Line(absl::StrCat("const ", RegisterType(input.dtype()), " x", i,
                      " = Value(in", i, "[", RowOffset(input), "]);"));
  }
}

// The maps without columns that become known in `phase`, in order.
void RowGroupWriter::WriteRowMaps(int phase) {
  for (size_t i = 0; i < members_.size(); ++i) {
    const int member = static_cast<int>(i);
    if (IsReduce(member) || IsWide(member) || phase_[i] != phase) continue;
    const StepText steps = Steps(member, Indent());
    body_ += steps.statements;
    Line(absl::StrCat("const ", RegisterType(steps.dtype), " m", i, " = ",
                      steps.result, ";"));
  }
}

// Marks what has to be computed, in this phase, to have `source`.
void RowGroupWriter::Demand(const Source& source, std::vector<bool>& inputs,
                            std::vector<bool>& maps) const {
  if (!IsWide(source)) return;
  if (source.input >= 0) {
    inputs[source.input] = true;
    return;
  }
  if (maps[source.member]) return;
  maps[source.member] = true;
  if (kept_ && done_maps_[source.member]) return;
  for (const Source& operand : wiring_.sources[source.member]) {
    Demand(operand, inputs, maps);
  }
}

void RowGroupWriter::OpenColumns() {
  if (kept_) {
    Line("#pragma unroll");
    Open(absl::StrCat("for (int share = 0; share < ", shares_, "; ++share) {"));
    Line(absl::StrCat("const int pack = lane + share * ", threads_, ";"));
    Line(absl::StrCat("if (pack >= ", packs_, ") continue;"));
  } else {
    Open(absl::StrCat("for (int pack = lane; pack < ", packs_,
                      "; pack += ", threads_, ") {"));
  }
}

void RowGroupWriter::WritePackLoads(const std::vector<bool>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BoundValue& input = wiring_.inputs[i];
    if (!inputs[i] || !IsDense(input) || (kept_ && done_inputs_[i])) continue;
    const std::string pack =
        absl::StrCat("Pack<", StorageType(input.dtype()), ", ", pack_, ">");
    Line(absl::StrCat("const ", pack, " pack", i, " = *(const ", pack, "*)(in",
                      i, " + (", RowOffset(input), ") + (i64)pack * ", pack_,
                      ");"));
  }
}

// Computes the marked values of one column, inside of the loops over columns.
void RowGroupWriter::WriteElements(const std::vector<bool>& inputs,
                                   const std::vector<bool>& maps, bool keep) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    const BoundValue& input = wiring_.inputs[i];
    const std::string name = absl::StrCat("x", i);
    const std::string type(RegisterType(input.dtype()));
    if (kept_ && done_inputs_[i]) {
      Line(
          absl::StrCat("const ", type, " ", name, " = k", name, "[share][j];"));
      continue;
    }
    const std::string from =
        IsDense(input) ? absl::StrCat("pack", i, ".at[j]")
                       : absl::StrCat("in", i, "[", RowOffset(input), " + ",
                                      ColumnOffset(input), "]");
    Line(absl::StrCat("const ", type, " ", name, " = Value(", from, ");"));
    if (keep) Line(absl::StrCat("k", name, "[share][j] = ", name, ";"));
  }
  for (size_t i = 0; i < maps.size(); ++i) {
    if (!maps[i]) continue;
    const std::string name = absl::StrCat("m", i);
    const std::string type(RegisterType(members_[i].results[0].dtype()));
    if (kept_ && done_maps_[i]) {
      Line(
          absl::StrCat("const ", type, " ", name, " = k", name, "[share][j];"));
      continue;
    }
    const StepText steps = Steps(static_cast<int>(i), Indent());
    body_ += steps.statements;
    Line(absl::StrCat("const ", type, " ", name, " = ", steps.result, ";"));
    if (keep) Line(absl::StrCat("k", name, "[share][j] = ", name, ";"));
  }
}

void RowGroupWriter::WritePhase(int phase) {
  std::vector<int> reductions;
  std::vector<bool> inputs(wiring_.inputs.size(), false);
  std::vector<bool> maps(members_.size(), false);
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!IsReduce(static_cast<int>(i)) || phase_[i] != phase) continue;
    reductions.push_back(static_cast<int>(i));
    for (const Source& source : wiring_.sources[i]) {
      Demand(source, inputs, maps);
    }
  }
  if (kept_) {
    // What is kept needs a place that outlives the loop.
    const std::string place = absl::StrCat("[", shares_, "][", pack_, "];");
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i] || done_inputs_[i]) continue;
      Line(absl::StrCat(RegisterType(wiring_.inputs[i].dtype()), " kx", i,
                        place));
    }
    for (size_t i = 0; i < maps.size(); ++i) {
      if (!maps[i] || done_maps_[i]) continue;
      Line(absl::StrCat(RegisterType(members_[i].results[0].dtype()), " km", i,
                        place));
    }
  }
  // A reduction of a fused expression: of what dtype it is known when written.
  std::vector<DType> dtypes;
  for (int i : reductions) {
    dtypes.push_back(members_[i].instruction().expression.result_dtype());
    const ReduceKind kind = members_[i].instruction().reduce_kind;
    Line(absl::StrCat(TotalType(kind, dtypes.back()), " total", i, " = ",
                      IdentityText(kind, dtypes.back()), ";"));
  }
  OpenColumns();
  WritePackLoads(inputs);
  Line("#pragma unroll");
  Open(absl::StrCat("for (int j = 0; j < ", pack_, "; ++j) {"));
  Line(absl::StrCat("const int column = pack * ", pack_, " + j;"));
  Line("(void)column;");
  WriteElements(inputs, maps, kept_);
  for (size_t r = 0; r < reductions.size(); ++r) {
    const int i = reductions[r];
    const ReduceKind kind = members_[i].instruction().reduce_kind;
    const StepText steps = Steps(i, Indent());
    body_ += steps.statements;
    Line(absl::StrCat("total", i, " = ", ReduceKindText(kind), "::Of(total", i,
                      ", (", TotalType(kind, dtypes[r]), ")Plain(",
                      steps.result, "));"));
  }
  Close();
  Close();
  for (size_t r = 0; r < reductions.size(); ++r) {
    const int i = reductions[r];
    const ReduceKind kind = members_[i].instruction().reduce_kind;
    const std::string total = TotalType(kind, dtypes[r]);
    const DType dtype = members_[i].results[0].dtype();
    Line(absl::StrCat("total", i, " = AcrossBlock<", ReduceKindText(kind), ", ",
                      threads_, ">(total", i, ", shared_", total, ");"));
    Line(absl::StrCat("const ", RegisterType(dtype), " m", i, " = Rounded<",
                      StorageType(dtype), ">(Register(total", i, "));"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) done_inputs_[i] = true;
  }
  for (size_t i = 0; i < maps.size(); ++i) {
    if (maps[i]) done_maps_[i] = true;
  }
}

void RowGroupWriter::WriteStores() {
  std::vector<bool> inputs(wiring_.inputs.size(), false);
  std::vector<bool> maps(members_.size(), false);
  bool any = false;
  for (size_t i = 0; i < members_.size(); ++i) {
    const int member = static_cast<int>(i);
    if (!wiring_.stored[i] || !IsWide(member)) continue;
    Demand({.member = member}, inputs, maps);
    any = true;
  }
  if (any) {
    OpenColumns();
    WritePackLoads(inputs);
    for (size_t i = 0; i < members_.size(); ++i) {
      if (!wiring_.stored[i] || !IsWide(static_cast<int>(i))) continue;
      Line(absl::StrCat("Pack<", StorageType(members_[i].results[0].dtype()),
                        ", ", pack_, "> to", i, ";"));
    }
    Line("#pragma unroll");
    Open(absl::StrCat("for (int j = 0; j < ", pack_, "; ++j) {"));
    Line(absl::StrCat("const int column = pack * ", pack_, " + j;"));
    Line("(void)column;");
    WriteElements(inputs, maps, /*keep=*/false);
    for (size_t i = 0; i < members_.size(); ++i) {
      if (!wiring_.stored[i] || !IsWide(static_cast<int>(i))) continue;
      Line(absl::StrCat("Put(to", i, ".at[j], m", i, ");"));
    }
    Close();
    for (size_t i = 0; i < members_.size(); ++i) {
      if (!wiring_.stored[i] || !IsWide(static_cast<int>(i))) continue;
      const BoundValue& result = members_[i].results[0];
      Line(absl::StrCat("*(Pack<", StorageType(result.dtype()), ", ", pack_,
                        ">*)(out", i, " + (", RowOffset(result),
                        ") + (i64)pack * ", pack_, ") = to", i, ";"));
    }
    Close();
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!wiring_.stored[i] || IsWide(static_cast<int>(i))) continue;
    Line(absl::StrCat("if (lane == 0) Put(out", i, "[",
                      RowOffset(members_[i].results[0]), "], m", i, ");"));
  }
}

std::optional<RowGroupSource> RowGroupWriter::Write(const GpuInfo& gpu) {
  FindSpace();
  if (rows_ == 0 || columns_ == 0 || columns_ > INT32_MAX / 2) {
    return std::nullopt;
  }
  FindPhases();
  FindShape();
  done_inputs_.resize(wiring_.inputs.size(), false);
  done_maps_.resize(members_.size(), false);

  WriteRowInputs();
  WriteRowMaps(0);
  for (int phase = 0; phase < phases_; ++phase) {
    WritePhase(phase);
    WriteRowMaps(phase + 1);
  }
  WriteStores();

  RowGroupSource written;
  std::vector<std::string> parameters;
  for (size_t i = 0; i < wiring_.inputs.size(); ++i) {
    parameters.push_back(absl::StrCat(
        "const ", StorageType(wiring_.inputs[i].dtype()), "* in", i));
    written.pointers.push_back(wiring_.inputs[i].data);
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!wiring_.stored[i]) continue;
    const BoundValue& result = members_[i].results[0];
    parameters.push_back(absl::StrCat(StorageType(result.dtype()), "* out", i));
    written.pointers.push_back(result.data);
  }
  std::string rows;
  int64_t below = rows_;
  for (size_t i = 0; i < row_dims_.size(); ++i) {
    below /= std::max<int64_t>(row_dims_[i].extent, 1);
    absl::StrAppend(&rows, "    const i64 row", i, " = row / ", below, " % ",
                    row_dims_[i].extent, ";\n    (void)row", i, ";\n");
  }
  written.source.name = "row_group";
  std::string& text = written.source.text;
  absl::StrAppend(&text, BasicText(), ReduceText(), row_text_.text(),
                  "extern \"C\" __global__ void __launch_bounds__(",
                  threads_ * block_rows_, ")\nrow_group(",
                  absl::StrJoin(parameters, ",\n          "), ") {\n");
  absl::StrAppend(&text,
                  "  __shared__ double shared_double[32];\n"
                  "  __shared__ float shared_float[32];\n"
                  "  __shared__ i64 shared_i64[32];\n"
                  "  (void)shared_double, (void)shared_float, "
                  "(void)shared_i64;\n"
                  "  const int lane = threadIdx.x % ",
                  threads_,
                  ";\n"
                  "  for (i64 row = (i64)blockIdx.x * ",
                  block_rows_, " + threadIdx.x / ", threads_, "; row < ", rows_,
                  ";\n       row += (i64)gridDim.x * ", block_rows_, ") {\n",
                  rows, body_, "  }\n}\n");
  const int block = threads_ * block_rows_;
  written.shape.threads = block;
  // Four rounds of blocks that are on the GPU at once: the last is never much
  // of the time, and what a block begins with is done for many rows.
  const int64_t at_once =
      int64_t{gpu.multiprocessors} * std::max(1, 2048 / block);
  written.shape.blocks = std::clamp<int64_t>(
      (rows_ + block_rows_ - 1) / block_rows_, 1, 4 * at_once);
  return written;
}

}  // namespace

std::optional<RowGroupSource> WriteRowGroup(const GpuInfo& gpu,
                                            absl::Span<const Binding> members) {
  std::optional<GroupWiring> wiring = GroupWiring::Of(members);
  if (!wiring.has_value() || !wiring->StoresAreSafe(members)) {
    return std::nullopt;
  }
  return RowGroupWriter(members, *std::move(wiring)).Write(gpu);
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareRowGroup(
    Runtime& runtime, absl::Span<const Binding> members) {
  std::optional<RowGroupSource> written =
      WriteRowGroup(runtime.info(), members);
  if (!written.has_value()) return nullptr;
  MTF_ASSIGN_OR_RETURN(Function * function, runtime.Compile(written->source));
  Launch launch{function, written->shape, {}};
  for (void* pointer : written->pointers) {
    launch.arguments.push_back(reinterpret_cast<uintptr_t>(pointer));
  }
  return std::make_unique<LaunchSequence>(runtime, std::vector<Launch>{launch});
}

}  // namespace mtf::cuda
