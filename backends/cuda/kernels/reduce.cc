// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/reduce.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/codegen/loop_nest.h"
#include "backends/cuda/codegen/rounding.h"
#include "backends/cuda/kernels/map.h"
#include "backends/index_space.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kThreads = 256;
// Floats that are added in float32 before the sum is added to a double.
constexpr int kFloatRun = 64;
// Packs per thread of a warp above which a row takes a block.
constexpr int64_t kPacksOfWarp = 256;
// Enough blocks to fill any GPU. A constant, so that the order of a sum does
// not depend on the GPU.
constexpr int64_t kBusyBlocks = 512;

double Identity(ReduceKind kind, DType dtype) {
  if (kind == ReduceKind::kSum) return 0;
  if (dtype == kBool) return kind == ReduceKind::kMin;
  const double infinity = std::numeric_limits<double>::infinity();
  return kind == ReduceKind::kMax ? -infinity : infinity;
}

// The partial results [part, o, c] of a reduction.
struct PartialResults {
  const void* data = nullptr;
  int64_t parts = 1;
  absl::string_view kind, total, identity;  // of kernel_text.h
  const LoopNest &o, &c;
  int result_array = 0;  // in the nests
};

// The kernel that combines them, by a warp each if they are few, else by a
// thread each.
absl::StatusOr<Launch> CompileCombine(Runtime& runtime,
                                      const PartialResults& partial,
                                      const BoundValue& result) {
  KernelWriter writer("combine", kThreads);
  writer.UseReduce();
  const LoopNest &o = partial.o, &c = partial.c;
  const int64_t results = o.elements() * c.elements();
  const int lanes = results < 4096 ? 32 : 1;
  const int per_block = kThreads / lanes;
  const std::string x =
      writer.ReadAs(partial.data, partial.total, partial.parts * results * 8);
  const std::string y =
      writer.Write(result.data, result.dtype(), result.elements());
  writer.SetIndexReach(partial.parts * results);
  writer.SetIndexReach(o.Reach(partial.result_array) +
                       c.Reach(partial.result_array));
  writer.Add(
      "  const int lane = threadIdx.x % ", lanes,
      ";\n  for (Index first = (Index)blockIdx.x * ", per_block, "; first < ",
      results, "; first += (Index)gridDim.x * ", per_block,
      ") {\n    const Index i = first + threadIdx.x / ", lanes, ";\n    ",
      partial.total, " total = ", partial.identity, ";\n    if (i < ", results,
      ") {\n#pragma unroll 4\n", "      for (Index part = lane; part < ",
      partial.parts, "; part += ", lanes, ") {\n        total = ", partial.kind,
      "::Of(total, ", x, "[part * ", results,
      " + i]);\n      }\n    }\n    total = AcrossLanes<", partial.kind, ", ",
      lanes, ">(total);\n    if (lane == 0 && i < ", results,
      ") {\n      const Index o = i / ", c.elements(), ", c = i % ",
      c.elements(), ";\n", o.Coordinates("      "), c.Coordinates("      "),
      "      Put(", y, "[",
      SumText({o.Offset(partial.result_array), c.Offset(partial.result_array)}),
      "], Register(total));\n    }\n  }\n");
  return writer.Compile(runtime,
                        writer.ShapeFor(runtime.info(), results * lanes));
}

class ReduceWriter {
 public:
  ReduceWriter(ReduceKind kind, const MapExpression& expression,
               absl::Span<const BoundValue> operands,
               absl::Span<const SpaceDimension> space, const BoundValue& result)
      : result_(result),
        num_operands_(static_cast<int>(operands.size())),
        kind_(ReduceKindText(kind)),
        total_(TotalType(kind, expression.result_dtype())),
        run_(IsInteger(expression.result_dtype()) ? "i64" : "float"),
        identity_(IdentityText(kind, result.dtype())),
        writer_("reduce", kThreads),
        elements_(writer_, expression, operands, space),
        o_("o", num_operands_ + 1),
        r_("r", num_operands_ + 1),
        c_("c", num_operands_ + 1) {
    writer_.UseReduce();
    Order(operands, space);
    for (int i = 0; i <= num_operands_; ++i) {
      writer_.SetIndexReach(o_.Reach(i) + r_.Reach(i) + c_.Reach(i));
    }
    writer_.SetIndexReach(o_.elements() * r_.elements() * c_.elements());
  }

  absl::StatusOr<std::vector<Launch>> Compile(Runtime& runtime,
                                              Scratch& scratch) {
    const bool rows = c_.elements() == 1;
    if (rows) {
      elements_.SetNests({&o_, &c_, &r_});
    } else {
      elements_.SetNests({&o_, &r_, &c_});
    }
    width_ = elements_.Width({});
    const int64_t packs = r_.elements() / width_;
    if (rows && packs <= kPacksOfWarp) {
      WriteShortRows(PowerOfTwoFrom(packs, 32));
    } else if (rows) {
      MTF_RETURN_IF_ERROR(WriteLongRows(scratch));
    } else {
      MTF_RETURN_IF_ERROR(WriteColumns(scratch));
    }
    std::vector<Launch> launches(1);
    MTF_ASSIGN_OR_RETURN(
        launches[0],
        writer_.Compile(runtime,
                        writer_.ShapeFor(runtime.info(), units_ * kThreads)));
    if (parts_ > 1) {
      launches.emplace_back();
      const PartialResults partial = {partial_,  parts_, kind_, total_,
                                      identity_, o_,     c_,    num_operands_};
      MTF_ASSIGN_OR_RETURN(launches[1],
                           CompileCombine(runtime, partial, result_));
    }
    return launches;
  }

 private:
  // Sorts the space by the strides of the largest operand and splits it into
  // kept dimensions, reduced dimensions, and kept dimensions that are
  // innermost. Thus both rows and columns are read in memory order.
  void Order(absl::Span<const BoundValue> operands,
             absl::Span<const SpaceDimension> space) {
    const Shape& kept = result_.value->shape;
    const auto [sorted, first_inner] = OrderByMemory(operands, space, kept);
    for (size_t i = 0; i < sorted.size(); ++i) {
      LoopNest& nest = !kept.Contains(sorted[i].name) ? r_
                       : i < first_inner              ? o_
                                                      : c_;
      std::vector<int64_t> strides;
      for (const BoundValue& operand : operands) {
        strides.push_back(StrideAlong(operand, sorted[i].name));
      }
      strides.push_back(StrideAlong(result_, sorted[i].name));
      nest.Add(sorted[i].name, sorted[i].extent, std::move(strides),
               elements_.HasIota(sorted[i].name));
    }
  }

  // "y0[...]" of the result, or of the partial result.
  std::string Result() const {
    return absl::StrCat(
        y_, "[", SumText({o_.Offset(num_operands_), c_.Offset(num_operands_)}),
        "]");
  }
  void SetResult() {
    y_ = writer_.Write(result_.data, result_.dtype(), result_.elements());
  }
  absl::Status SetPartial(Scratch& scratch) {
    const int64_t bytes = parts_ * o_.elements() * c_.elements() * 8;
    MTF_ASSIGN_OR_RETURN(partial_, scratch.Reserve(bytes));
    y_ = writer_.WriteAs(partial_, total_, bytes);
    return absl::OkStatus();
  }

  // Declares `add`, which combines the elements at `index` into `target`, an
  // element of `parameter`.
  void WriteAdd(absl::string_view indent, absl::string_view index,
                absl::string_view parameter, absl::string_view coordinates,
                absl::string_view target) {
    const std::string in = absl::StrCat(indent, "  ");
    writer_.Add(indent, "const auto add = [&](Index ", index, ", ", parameter,
                ") {\n", coordinates, r_.Coordinates(in),
                elements_.Reads(in, width_));
    if (width_ > 1) {
      writer_.Add("#pragma unroll\n", in, "for (int j = 0; j < ", width_,
                  "; ++j) {\n");
    }
    const std::string deeper = width_ > 1 ? in + "  " : in;
    const StepText steps = elements_.Steps(deeper, width_ > 1 ? "j" : "");
    writer_.Add(steps.statements, deeper, target, " = ", kind_, "::Of(", target,
                ", Plain(", steps.result, "));\n");
    if (width_ > 1) writer_.Add(in, "}\n");
    writer_.Add(indent, "};\n");
  }

  // A loop that calls `add` from `first` to `end` by `step`. Complete runs have
  // no bounds checks in between, so that several reads are in flight. `declare`
  // and `merge` begin and end a run.
  void WriteRuns(absl::string_view indent, absl::string_view index,
                 absl::string_view first, absl::string_view end, int step,
                 int64_t run, absl::string_view declare,
                 absl::string_view merge) {
    writer_.Add(indent, "for (Index ", index, " = ", first, "; ", index, " < ",
                end, ";) {\n", indent, "  ", declare, "\n", indent, "  if (",
                index, " + ", (run - 1) * step, " < ", end,
                ") {\n#pragma unroll 4\n", indent, "    for (int k = 0; k < ",
                run, "; ++k, ", index, " += ", step, ") add(", index,
                ", run);\n", indent, "  } else {\n", indent, "    for (; ",
                index, " < ", end, "; ", index, " += ", step, ") add(", index,
                ", run);\n", indent, "  }\n", indent, "  ", merge, "\n", indent,
                "}\n");
  }

  // Adds the packs of a row from `first` to `end` by `step` to the declared
  // variable `total`.
  void WriteRowLoop(absl::string_view indent, const std::string& first,
                    const std::string& end, int step) {
    WriteAdd(indent, "n", absl::StrCat(run_, "& run"),
             absl::StrCat(indent, "  const Index r = n * ", width_, ";\n"),
             "run");
    WriteRuns(
        indent, "n", first, end, step,
        std::clamp<int64_t>(part_ / step, 1, kFloatRun / width_),
        absl::StrCat(run_, " run = ", identity_, ";"),
        absl::StrCat("total = ", kind_, "::Of(total, (", total_, ")run);"));
    writer_.SetIndexReach(r_.elements() + int64_t{kFloatRun} * step);
  }

  // `lanes` neighbouring threads per row.
  void WriteShortRows(int lanes) {
    SetResult();
    const int rows = kThreads / lanes;
    units_ = CeilDivide(o_.elements(), rows);
    part_ = r_.elements() / width_;
    writer_.Add("  const int lane = threadIdx.x % ", lanes,
                ";\n  for (Index first = (Index)blockIdx.x * ", rows,
                "; first < ", o_.elements(), "; first += (Index)gridDim.x * ",
                rows, ") {\n", "    const Index o = first + threadIdx.x / ",
                lanes, ";\n    ", total_, " total = ", identity_, ";\n",
                o_.Coordinates("    "), "    if (o < ", o_.elements(), ") {\n");
    WriteRowLoop("      ", "lane", absl::StrCat(r_.elements() / width_), lanes);
    writer_.Add("    }\n    total = AcrossLanes<", kind_, ", ", lanes,
                ">(total);\n    if (lane == 0 && o < ", o_.elements(), ") Put(",
                Result(), ", Register(total));\n  }\n");
  }

  // A block per row or per part of a row.
  absl::Status WriteLongRows(Scratch& scratch) {
    const int64_t packs = r_.elements() / width_;
    ChooseParts(o_.elements(), packs, kThreads * 4);
    if (parts_ > 1) {
      MTF_RETURN_IF_ERROR(SetPartial(scratch));
    } else {
      SetResult();
    }
    writer_.Add("  __shared__ ", total_, " shared[32];\n",
                "  for (Index unit = blockIdx.x; unit < ", units_,
                "; unit += gridDim.x) {\n    const Index part = unit % ",
                parts_, ", o = unit / ", parts_, ";\n", o_.Coordinates("    "),
                "    const Index end = part == ", parts_ - 1, " ? ", packs,
                " : (part + 1) * ", part_, ";\n    ", total_,
                " total = ", identity_, ";\n");
    WriteRowLoop("    ", absl::StrCat("part * ", part_, " + threadIdx.x"),
                 "end", kThreads);
    writer_.Add("    total = AcrossBlock<", kind_, ", ", kThreads,
                ">(total, shared);\n    if (threadIdx.x == 0) ");
    if (parts_ > 1) {
      writer_.Add(y_, "[part * ", o_.elements(), " + o] = total;\n  }\n");
    } else {
      writer_.Add("Put(", Result(), ", Register(total));\n  }\n");
    }
    return absl::OkStatus();
  }

  // Splits `count` steps of each of `units` reductions into parts: enough parts
  // to fill a GPU, with at least `least` steps in each.
  void ChooseParts(int64_t units, int64_t count, int64_t least) {
    parts_ = std::min(CeilDivide(kBusyBlocks, units), count / least);
    parts_ = std::max<int64_t>(parts_, 1);
    part_ = CeilDivide(count, parts_);
    parts_ = CeilDivide(count, part_);
    units_ = units * parts_;
  }

  // A block per tile of columns or part of its rows; neighbouring threads have
  // neighbouring columns.
  absl::Status WriteColumns(Scratch& scratch) {
    const int lanes = PowerOfTwoFrom(c_.elements() / width_, 32);
    const int groups = kThreads / lanes, columns = lanes * width_;
    const int64_t tiles = CeilDivide(c_.elements(), columns);
    ChooseParts(o_.elements() * tiles, r_.elements(), groups * 16);
    if (parts_ > 1) {
      MTF_RETURN_IF_ERROR(SetPartial(scratch));
    } else {
      SetResult();
    }
    const std::string each =
        absl::StrCat("for (int j = 0; j < ", width_, "; ++j) ");
    writer_.Add(
        "  __shared__ ", total_, " shared[", groups, "][", columns, "];\n",
        "  const int lane = threadIdx.x % ", lanes, ", group = threadIdx.x / ",
        lanes, ";\n  for (Index unit = blockIdx.x; unit < ", units_,
        "; unit += gridDim.x) {\n    const Index tile = unit % ", tiles,
        ", part = unit / ", tiles, " % ", parts_, ", o = unit / ",
        tiles * parts_, ";\n    const Index c = (tile * ", lanes, " + lane) * ",
        width_, ";\n", o_.Coordinates("    "), c_.Coordinates("    "),
        "    const Index end = part == ", parts_ - 1, " ? ", r_.elements(),
        " : (part + 1) * ", part_, ";\n    ", total_, " total[", width_,
        "];\n    ", each, "total[j] = ", identity_, ";\n    if (c < ",
        c_.elements(), ") {\n");
    WriteAdd("      ", "r", absl::StrCat(run_, " (&run)[", width_, "]"), "",
             width_ == 1 ? "run[0]" : "run[j]");
    WriteRuns("      ", "r", absl::StrCat("part * ", part_, " + group"), "end",
              groups, std::clamp<int64_t>(part_ / groups, 1, kFloatRun),
              absl::StrCat(run_, " run[", width_, "];\n        ", each,
                           "run[j] = ", identity_, ";"),
              absl::StrCat(each, "total[j] = ", kind_, "::Of(total[j], (",
                           total_, ")run[j]);"));
    writer_.SetIndexReach(r_.elements() + int64_t{kFloatRun} * groups);
    writer_.Add("    }\n    ", each, "shared[group][j * ", lanes,
                " + lane] = total[j];\n    __syncthreads();\n",
                "    for (int k = threadIdx.x; k < ", columns,
                "; k += ", kThreads, ") {\n      const Index c = (tile * ",
                lanes, " + k % ", lanes, ") * ", width_, " + k / ", lanes,
                ";\n      if (c < ", c_.elements(), ") {\n        ", total_,
                " all = shared[0][k];\n        for (int g = 1; g < ", groups,
                "; ++g) all = ", kind_, "::Of(all, shared[g][k]);\n");
    if (parts_ > 1) {
      writer_.Add("        ", y_, "[(part * ", o_.elements(), " + o) * ",
                  c_.elements(), " + c] = all;\n");
    } else {
      writer_.Add(c_.Coordinates("        "), "        Put(", Result(),
                  ", Register(all));\n");
    }
    writer_.Add("      }\n    }\n    __syncthreads();\n  }\n");
    writer_.SetIndexReach(c_.elements() + columns);
    return absl::OkStatus();
  }

  const BoundValue& result_;
  int num_operands_;
  absl::string_view kind_;
  std::string total_, run_, identity_;
  KernelWriter writer_;
  Elements elements_;
  LoopNest o_, r_, c_;
  std::string y_;
  void* partial_ = nullptr;
  int width_ = 1;
  int64_t parts_ = 1, part_ = 0, units_ = 1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareReduce(
    Runtime& runtime, Scratch& scratch, ReduceKind kind,
    const MapExpression& expression, absl::Span<const BoundValue> operands,
    absl::Span<const SpaceDimension> space, const BoundValue& result) {
  if (result.elements() == 0) {
    return std::make_unique<LaunchSequence>(runtime, std::vector<Launch>());
  }
  for (const SpaceDimension& dim : space) {
    if (dim.extent > 0) continue;
    const MapExpression identity =
        MapExpression::Literal(Identity(kind, result.dtype()), result.dtype());
    return PrepareMap(runtime, identity, {}, result);
  }
  ReduceWriter writer(kind, expression, operands, space, result);
  MTF_ASSIGN_OR_RETURN(std::vector<Launch> launches,
                       writer.Compile(runtime, scratch));
  return std::make_unique<LaunchSequence>(runtime, std::move(launches));
}

}  // namespace mtf::cuda
