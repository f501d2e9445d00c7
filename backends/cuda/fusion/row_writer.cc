// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/fusion/row_writer.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_join.h"

namespace mtf::cuda {

std::string RowGroupWriter::Register(const Source& source) const {
  return source.member >= 0 ? absl::StrCat("m", source.member)
                            : absl::StrCat("x", source.input);
}

DType RowGroupWriter::DTypeOf(const Source& source) const {
  return source.member >= 0 ? plan_.result(source.member).dtype()
                            : plan_.input(source.input).dtype();
}

std::string RowGroupWriter::PackAddress(const std::string& array,
                                        const BoundValue& value,
                                        bool written) const {
  return absl::StrCat("(", written ? "" : "const ", PackType(value.dtype()),
                      "*)(", array, " + (", plan_.space().RowOffset(value),
                      ") + (i64)pack * ", plan_.tiling().pack, ")");
}

StepText RowGroupWriter::Steps(int member) {
  std::vector<std::string> names;
  std::vector<DType> dtypes;
  for (const Source& source : plan_.dataflow().sources[member]) {
    names.push_back(Register(source));
    dtypes.push_back(DTypeOf(source));
  }
  return WriteSteps(ExpressionOf(plan_.member(member).instruction()), names,
                    dtypes, absl::StrCat("s", member, "_"), Indent(), row_text_,
                    [&](const std::string& dim) {
                      return plan_.space().IotaText(plan_.member(member), dim);
                    });
}

void RowGroupWriter::WriteRowInputs() {
  for (int i = 0; i < plan_.inputs(); ++i) {
    const BoundValue& input = plan_.input(i);
    if (plan_.space().HasColumns(input)) continue;
    Line(absl::StrCat("const ", RegisterType(input.dtype()), " x", i,
                      " = Value(in", i, "[", plan_.space().RowOffset(input),
                      "]);"));
  }
}

// Fetches the complete row at once, so that all copies overlap.
void RowGroupWriter::WriteFetches() {
  if (plan_.kept().empty()) return;
  Open(absl::StrCat("for (int pack = lane; pack < ", plan_.tiling().kept_packs,
                    "; pack += ", plan_.tiling().threads, ") {"));
  for (int i : plan_.kept()) {
    Line(absl::StrCat("Fetch(kept", i, " + pack, ",
                      PackAddress(absl::StrCat("in", i), plan_.input(i), false),
                      ");"));
  }
  Close();
  Line("AwaitFetched();");
}

// Writes the maps without columns that become known in `phase`, in order.
void RowGroupWriter::WriteRowMaps(int phase) {
  for (int i = 0; i < plan_.members(); ++i) {
    if (!plan_.IsMap(i) || plan_.IsWide(i) || plan_.phase(i) != phase) continue;
    const StepText steps = Steps(i);
    body_ += steps.statements;
    Line(absl::StrCat("const ", RegisterType(steps.dtype), " m", i, " = ",
                      steps.result, ";"));
  }
}

void RowGroupWriter::OpenColumns() {
  const int threads = plan_.tiling().threads;
  if (plan_.InRegisters()) {
    Line("#pragma unroll");
    Open(absl::StrCat("for (int share = 0; share < ", plan_.tiling().shares,
                      "; ++share) {"));
    Line(absl::StrCat("const int pack = lane + share * ", threads, ";"));
    Line(absl::StrCat("if (pack >= ", plan_.tiling().packs, ") continue;"));
  } else {
    Open(absl::StrCat("for (int pack = lane; pack < ", plan_.tiling().packs,
                      "; pack += ", threads, ") {"));
  }
}

void RowGroupWriter::OpenPack() {
  Line("#pragma unroll");
  Open(absl::StrCat("for (int j = 0; j < ", plan_.tiling().pack, "; ++j) {"));
  Line(
      absl::StrCat("const int column = pack * ", plan_.tiling().pack, " + j;"));
  Line("(void)column;");
}

void RowGroupWriter::WritePackLoads(const Needs& needs) {
  for (int i = 0; i < plan_.inputs(); ++i) {
    const BoundValue& input = plan_.input(i);
    if (!needs.inputs[i] || !plan_.space().IsDense(input) || done_inputs_[i])
      continue;
    std::string from =
        absl::StrCat("*", PackAddress(absl::StrCat("in", i), input, false));
    if (plan_.IsInShared(i)) {
      const std::string kept = absl::StrCat("kept", i, "[pack]");
      from = plan_.tiling().kept_packs == plan_.tiling().packs
                 ? kept
                 : absl::StrCat("pack < ", plan_.tiling().kept_packs, " ? ",
                                kept, " : ", from);
    }
    Line(absl::StrCat("const ", PackType(input.dtype()), " pack", i, " = ",
                      from, ";"));
  }
}

void RowGroupWriter::WriteWideInput(int i, bool keep) {
  const BoundValue& input = plan_.input(i);
  const std::string type(RegisterType(input.dtype()));
  if (done_inputs_[i]) {
    Line(absl::StrCat("const ", type, " x", i, " = kx", i, "[share][j];"));
    return;
  }
  const std::string from =
      plan_.space().IsDense(input)
          ? absl::StrCat("pack", i, ".at[j]")
          : absl::StrCat("in", i, "[", plan_.space().RowOffset(input), " + ",
                         plan_.space().ColumnOffset(input), "]");
  Line(absl::StrCat("const ", type, " x", i, " = Value(", from, ");"));
  if (keep) Line(absl::StrCat("kx", i, "[share][j] = x", i, ";"));
}

// Computes the needed values of one column, inside the loops over columns.
void RowGroupWriter::WriteElements(const Needs& needs, bool keep) {
  for (int i = 0; i < plan_.inputs(); ++i) {
    if (needs.inputs[i]) WriteWideInput(i, keep);
  }
  for (int i = 0; i < plan_.members(); ++i) {
    if (!needs.maps[i]) continue;
    const std::string type(RegisterType(plan_.result(i).dtype()));
    if (done_maps_[i]) {
      Line(absl::StrCat("const ", type, " m", i, " = km", i, "[share][j];"));
      continue;
    }
    const StepText steps = Steps(i);
    body_ += steps.statements;
    Line(absl::StrCat("const ", type, " m", i, " = ", steps.result, ";"));
    if (keep) Line(absl::StrCat("km", i, "[share][j] = m", i, ";"));
  }
}

void RowGroupWriter::WritePhase(int phase) {
  const Needs needs = plan_.NeedsOf(phase, done_maps_);
  std::vector<int> reductions;
  for (int i = 0; i < plan_.members(); ++i) {
    if (plan_.IsReduce(i) && plan_.phase(i) == phase) reductions.push_back(i);
  }
  if (plan_.InRegisters()) {
    // Kept values are declared outside of the loop.
    const std::string extents = absl::StrCat("[", plan_.tiling().shares, "][",
                                             plan_.tiling().pack, "];");
    for (int i = 0; i < plan_.inputs(); ++i) {
      if (!needs.inputs[i] || done_inputs_[i]) continue;
      Line(absl::StrCat(RegisterType(plan_.input(i).dtype()), " kx", i,
                        extents));
    }
    for (int i = 0; i < plan_.members(); ++i) {
      if (!needs.maps[i] || done_maps_[i]) continue;
      Line(absl::StrCat(RegisterType(plan_.result(i).dtype()), " km", i,
                        extents));
    }
  }
  struct Total {
    std::string type, run, identity;  // run: type within a pack
    absl::string_view kind;
  };
  std::vector<Total> totals;
  for (int i : reductions) {
    const auto& reduce = plan_.member(i).instruction().Get<ReduceAttributes>();
    const DType dtype = reduce.expression.result_dtype();
    Total& total = totals.emplace_back();
    total.type = TotalType(reduce.kind, dtype);
    // Floats of a pack are added in float32, as in a single reduction.
    total.run = total.type == "double" ? "float" : total.type;
    total.identity = IdentityText(reduce.kind, dtype);
    total.kind = ReduceKindText(reduce.kind);
    Line(absl::StrCat(total.type, " total", i, " = ", total.identity, ";"));
  }
  OpenColumns();
  WritePackLoads(needs);
  for (size_t r = 0; r < reductions.size(); ++r) {
    Line(absl::StrCat(totals[r].run, " run", reductions[r], " = ",
                      totals[r].identity, ";"));
  }
  OpenPack();
  WriteElements(needs, plan_.InRegisters());
  for (size_t r = 0; r < reductions.size(); ++r) {
    const std::string run = absl::StrCat("run", reductions[r]);
    const StepText steps = Steps(reductions[r]);
    body_ += steps.statements;
    Line(absl::StrCat(run, " = ", totals[r].kind, "::Of(", run, ", Plain(",
                      steps.result, "));"));
  }
  WriteRowSums(phase);
  Close();
  for (size_t r = 0; r < reductions.size(); ++r) {
    const std::string total = absl::StrCat("total", reductions[r]);
    Line(absl::StrCat(total, " = ", totals[r].kind, "::Of(", total, ", (",
                      totals[r].type, ")run", reductions[r], ");"));
  }
  Close();
  for (size_t r = 0; r < reductions.size(); ++r) {
    const int i = reductions[r];
    const DType dtype = plan_.result(i).dtype();
    Line(absl::StrCat("total", i, " = AcrossBlock<", totals[r].kind, ", ",
                      plan_.tiling().threads, ">(total", i, ", shared_",
                      totals[r].type, ");"));
    Line(absl::StrCat("const ", RegisterType(dtype), " m", i, " = Rounded<",
                      StorageType(dtype), ">(Register(total", i, "));"));
  }
  if (!plan_.InRegisters()) return;
  for (int i = 0; i < plan_.inputs(); ++i) {
    if (needs.inputs[i]) done_inputs_[i] = true;
  }
  for (int i = 0; i < plan_.members(); ++i) {
    if (needs.maps[i]) done_maps_[i] = true;
  }
}

// Adds a thread's columns of this row to its sums over previous rows.
void RowGroupWriter::WriteRowSums(int phase) {
  for (int i = 0; i < plan_.members(); ++i) {
    if (!plan_.IsRowSum(i) || plan_.phase(i) != phase) continue;
    const StepText steps = Steps(i);
    body_ += steps.statements;
    Line(absl::StrCat("sum", i, "[share][j] = Sum::Of(sum", i,
                      "[share][j], Plain(", steps.result, "));"));
  }
}

void RowGroupWriter::WriteStores() {
  std::vector<int> wide;
  bool sums = false;
  for (int i = 0; i < plan_.members(); ++i) {
    if (plan_.IsStoredWide(i)) wide.push_back(i);
    sums = sums || (plan_.IsRowSum(i) && plan_.phase(i) == plan_.phases());
  }
  if (!wide.empty() || sums) {
    const Needs needs = plan_.NeedsOf(plan_.phases(), done_maps_);
    OpenColumns();
    WritePackLoads(needs);
    for (int i : wide) {
      Line(absl::StrCat(PackType(plan_.result(i).dtype()), " to", i, ";"));
    }
    OpenPack();
    WriteElements(needs, /*keep=*/false);
    for (int i : wide) Line(absl::StrCat("Put(to", i, ".at[j], m", i, ");"));
    WriteRowSums(plan_.phases());
    Close();
    for (int i : wide) {
      // The first row writes values that are the same for all rows.
      Line(absl::StrCat(
          plan_.space().HasRows(plan_.result(i)) ? "" : "if (row == 0) ",
          "Store(", PackAddress(absl::StrCat("out", i), plan_.result(i), true),
          ", to", i, ");"));
    }
    Close();
  }
  for (int i = 0; i < plan_.members(); ++i) {
    if (!plan_.dataflow().stored[i] || plan_.IsWide(i) || plan_.IsRowSum(i))
      continue;
    Line(absl::StrCat("if (lane == 0) Put(out", i, "[",
                      plan_.space().RowOffset(plan_.result(i)), "], m", i,
                      ");"));
  }
}

// Writes the sums of a stripe after its last row.
void RowGroupWriter::WritePartial() {
  OpenColumns();
  for (size_t k = 0; k < plan_.row_sums().size(); ++k) {
    const int i = plan_.row_sums()[k];
    const std::string pack =
        absl::StrCat("Pack<float, ", plan_.tiling().pack, ">");
    Line(absl::StrCat(pack, " to", i, ";"));
    Line("#pragma unroll");
    Line(absl::StrCat("for (int j = 0; j < ", plan_.tiling().pack, "; ++j) to",
                      i, ".at[j] = sum", i, "[share][j];"));
    Line(absl::StrCat("Store((", pack, "*)(partial + (", k * plan_.stripes(),
                      " + stripe) * ", plan_.space().columns(),
                      " + (i64)pack * ", plan_.tiling().pack, "), to", i,
                      ");"));
  }
  Close();
}

// Writes the loop over rows, or over stripes of rows if there are sums over
// rows.
void RowGroupWriter::WriteRows() {
  depth_ = 1;
  const auto loop = [&](const char* unit, int64_t end) {
    Open(absl::StrCat(
        "for (i64 ", unit, " = (i64)blockIdx.x * ", plan_.tiling().block_rows,
        " + threadIdx.x / ", plan_.tiling().threads, "; ", unit, " < ", end,
        "; ", unit, " += (i64)gridDim.x * ", plan_.tiling().block_rows, ") {"));
  };
  if (plan_.row_sums().empty()) {
    loop("row", plan_.space().rows());
    WriteRow();
    Close();
    return;
  }
  loop("stripe", plan_.stripes());
  for (int i : plan_.row_sums()) {
    Line(absl::StrCat("float sum", i, "[", plan_.tiling().shares, "][",
                      plan_.tiling().pack, "] = {};"));
  }
  Line(absl::StrCat("const i64 end = stripe == ", plan_.stripes() - 1, " ? ",
                    plan_.space().rows(), " : (stripe + 1) * ", plan_.stripe(),
                    ";"));
  Open(absl::StrCat("for (i64 row = stripe * ", plan_.stripe(),
                    "; row < end; ++row) {"));
  WriteRow();
  Close();
  WritePartial();
  Close();
}

void RowGroupWriter::WriteRow() {
  body_ += plan_.space().RowIndices(Indent());
  WriteRowInputs();
  WriteFetches();
  WriteRowMaps(0);
  for (int phase = 0; phase < plan_.phases(); ++phase) {
    WritePhase(phase);
    WriteRowMaps(phase + 1);
  }
  WriteStores();
}

std::string RowGroupWriter::Write() {
  const int threads = plan_.tiling().threads;
  std::vector<std::string> parameters;
  for (int i = 0; i < plan_.inputs(); ++i) {
    parameters.push_back(
        absl::StrCat("const ", StorageType(plan_.input(i).dtype()), "* in", i));
  }
  for (int i = 0; i < plan_.members(); ++i) {
    if (!plan_.dataflow().stored[i] || plan_.IsRowSum(i)) continue;
    parameters.push_back(
        absl::StrCat(StorageType(plan_.result(i).dtype()), "* out", i));
  }
  if (plan_.stripes() > 0) parameters.push_back("float* partial");
  WriteRows();
  std::string text = absl::StrCat(BasicText(), ReduceText(),
                                  plan_.kept().empty() ? "" : KeptText());
  absl::StrAppend(&text, row_text_.text(),
                  "extern \"C\" __global__ void __launch_bounds__(",
                  threads * plan_.tiling().block_rows, ")\nrow_group(",
                  absl::StrJoin(parameters, ",\n          "), ") {\n",
                  "  __shared__ double shared_double[32];\n"
                  "  __shared__ float shared_float[32];\n"
                  "  __shared__ i64 shared_i64[32];\n"
                  "  (void)shared_double, (void)shared_float, "
                  "(void)shared_i64;\n");
  for (size_t k = 0; k < plan_.kept().size(); ++k) {
    const std::string type = PackType(plan_.input(plan_.kept()[k]).dtype());
    absl::StrAppend(&text, "  ", type, "* const kept", plan_.kept()[k], " = (",
                    type, "*)(kept + ", plan_.tiling().offsets[k], ");\n");
  }
  absl::StrAppend(&text, "  const int lane = threadIdx.x % ", threads, ";\n",
                  body_, "}\n");
  return text;
}

}  // namespace mtf::cuda
