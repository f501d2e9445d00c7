// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/map.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/elements.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/codegen/loop_nest.h"
#include "backends/cuda/kernels/strided_copy.h"
#include "backends/index_space.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kTile = 32;
// Static shared memory that every GPU supports.
constexpr int64_t kStaticShared = 48 << 10;
// Shorter loops are read with a stride: a tile would be mostly empty.
constexpr int64_t kShortest = 8;

// Whether the map only permutes the dimensions of its operand.
bool IsTranspose(const MapExpression& expression,
                 absl::Span<const BoundValue> operands,
                 const BoundValue& result) {
  return expression.steps.size() == 1 && operands.size() == 1 &&
         expression.steps[0].function == ScalarFunction::kIdentity &&
         operands[0].dtype() == result.dtype() &&
         operands[0].elements() == result.elements();
}

StridedCopy TransposeOf(const BoundValue& x, const BoundValue& result) {
  StridedCopy copy{x.dtype(), result.dtype(), {}};
  for (int i = 0; i < result.value->shape.rank(); ++i) {
    copy.loops.push_back({result.dims[i].extent,
                          StrideAlong(x, result.value->shape[i].name),
                          result.stride(i)});
  }
  return copy;
}

class MapWriter {
 public:
  MapWriter(const MapExpression& expression,
            absl::Span<const BoundValue> operands, const BoundValue& result)
      : writer_("map"),
        operands_(operands),
        result_(result),
        num_operands_(static_cast<int>(operands.size())),
        space_(SpaceOf(result)),
        elements_(writer_, expression, operands, space_),
        nest_("i", num_operands_ + 1) {
    y_ = writer_.Write(result.data, result.dtype(), result.elements());
    for (int i = 0; i < static_cast<int>(space_.size()); ++i) {
      std::vector<int64_t> strides;
      for (const BoundValue& operand : operands) {
        strides.push_back(StrideAlong(operand, space_[i].name));
      }
      strides.push_back(result.stride(i));
      nest_.Add(space_[i].name, space_[i].extent, std::move(strides),
                elements_.HasIota(space_[i].name));
    }
    writer_.SetIndexReach(result.elements());
    for (int i = 0; i < num_operands_; ++i) {
      writer_.SetIndexReach(nest_.Reach(i));
    }
  }

  absl::StatusOr<Launch> Compile(Runtime& runtime) {
    const std::vector<int> transposed = FindTransposed();
    return transposed.empty() ? CompilePlain(runtime)
                              : CompileTiles(runtime, transposed);
  }

 private:
  const std::vector<LoopNest::Loop>& loops() const { return nest_.loops(); }

  // Operands whose contiguous dimension is another loop than the innermost.
  // Sets `p_` to that loop, for the largest such operand.
  std::vector<int> FindTransposed() {
    std::vector<int> transposed;
    if (loops().size() < 2 || nest_.inner_extent() < kShortest)
      return transposed;
    int64_t most = 0;
    const auto along = [&](int operand) {
      if (nest_.inner_stride(operand) <= 1) return -1;
      for (size_t i = 0; i + 1 < loops().size(); ++i) {
        if (loops()[i].strides[operand] == 1 &&
            loops()[i].extent >= kShortest) {
          return static_cast<int>(i);
        }
      }
      return -1;
    };
    for (int i = 0; i < num_operands_; ++i) {
      if (along(i) < 0 || operands_[i].elements() <= most) continue;
      most = operands_[i].elements();
      p_ = along(i);
    }
    // Operands that do not fit into shared memory are read with a stride.
    int64_t room = kStaticShared;
    for (int i = 0; i < num_operands_; ++i) {
      if (along(i) < 0 || along(i) != p_) continue;
      const int64_t bytes =
          kTile * (kTile + 1) * DTypeSize(operands_[i].dtype());
      if (bytes > room) continue;
      room -= bytes;
      transposed.push_back(i);
    }
    return transposed;
  }

  absl::StatusOr<Launch> CompilePlain(Runtime& runtime) {
    const absl::string_view type = StorageType(result_.dtype());
    elements_.SetNests({&nest_});
    const int width = elements_.Width(
        {{num_operands_, result_.data, DTypeSize(result_.dtype())}});
    const int64_t packs = result_.elements() / width;
    const std::string pack =
        width == 1 ? std::string(type)
                   : absl::StrCat("Pack<", type, ", ", width, ">");
    const int shares = SharesOf(width, packs);
    if (shares == 1) {
      writer_.Add(writer_.GridLoop(width == 1 ? "i" : "n", packs));
      if (width > 1) writer_.Add("    const Index i = n * ", width, ";\n");
      writer_.Add(nest_.Coordinates("    "), elements_.Reads("    ", width));
      AddStore("    ", width, pack);
      writer_.Add("  }\n");
      return writer_.Compile(runtime, writer_.ShapeFor(runtime.info(), packs));
    }
    const int threads = writer_.threads();
    const std::string each = absl::StrCat(
        "#pragma unroll\n    for (int s = 0; s < ", shares,
        "; ++s) {\n      const Index n = first + s * ", threads,
        ";\n      if (n >= ", packs, ") break;\n      const Index i = n * ",
        width, ";\n", nest_.Coordinates("      "));
    const std::string declarations =
        elements_.Declarations("    ", width, shares);
    const std::string reads = elements_.ReadsInto("      ");
    writer_.Add("  for (Index first = (Index)blockIdx.x * ", shares * threads,
                " + threadIdx.x; first < ", packs,
                "; first += (Index)gridDim.x * ", shares * threads, ") {\n",
                declarations, each, reads, "    }\n", each);
    AddStore("      ", width, pack);
    writer_.Add("    }\n  }\n");
    return writer_.Compile(
        runtime, writer_.ShapeFor(runtime.info(), packs / shares + threads));
  }

  // How many packs a thread reads before it processes the first: enough bytes
  // in flight to saturate memory, if there is enough work.
  int SharesOf(int width, int64_t packs) const {
    constexpr int64_t kBytes = 64, kMany = 1 << 15;
    const int64_t bytes = elements_.BytesOfPack(width);
    if (packs < kMany || bytes == 0) return 1;
    return static_cast<int>(std::clamp<int64_t>(kBytes / bytes, 1, 4));
  }

  // Evaluates a pack and writes it.
  void AddStore(absl::string_view indent, int width, const std::string& pack) {
    if (width == 1) {
      const StepText steps = elements_.Steps(indent, "");
      writer_.Add(steps.statements, indent, "Put(", y_, "[i], ", steps.result,
                  ");\n");
      return;
    }
    writer_.Add(indent, pack, " q;\n#pragma unroll\n", indent,
                "for (int j = 0; j < ", width, "; ++j) {\n");
    const StepText steps = elements_.Steps(absl::StrCat(indent, "  "), "j");
    writer_.Add(steps.statements, indent, "  Put(q.at[j], ", steps.result,
                ");\n", indent, "}\n", indent, "*(", pack, "*)(", y_,
                " + i) = q;\n");
  }

  // Tiles over p, the loop along which the transposed operands are contiguous,
  // and q, along which the result is: shared memory transposes them.
  absl::StatusOr<Launch> CompileTiles(Runtime& runtime,
                                      const std::vector<int>& transposed) {
    LoopNest others("o", num_operands_ + 1), p("p", num_operands_ + 1),
        q("q", num_operands_ + 1);
    others.AddSingles(nest_);
    for (size_t i = 0; i < loops().size(); ++i) {
      LoopNest& nest = static_cast<int>(i) == p_ ? p
                       : i + 1 == loops().size() ? q
                                                 : others;
      nest.Add(loops()[i]);
    }
    elements_.SetNests({&others, &p, &q});
    const int64_t p_tiles = (p.elements() + kTile - 1) / kTile;
    const int64_t q_tiles = (q.elements() + kTile - 1) / kTile;
    const int64_t tiles = others.elements() * p_tiles * q_tiles;
    const int rows = writer_.threads() / kTile;
    const auto each_row =
        absl::StrCat("#pragma unroll\n    for (int j = row; j < ", kTile,
                     "; j += ", rows, ") {\n");
    const auto inside = absl::StrCat("      if (p < ", p.elements(), " && q < ",
                                     q.elements(), ") {\n");
    for (int i : transposed) {
      writer_.Add("  __shared__ ", StorageType(operands_[i].dtype()), " tile",
                  i, "[", kTile, "][", kTile + 1, "];\n");
      elements_.SetRegister(i, absl::StrCat("Value(tile", i, "[column][j])"));
    }
    writer_.Add("  const int column = threadIdx.x % ", kTile,
                ", row = threadIdx.x / ", kTile, ";\n",
                "  for (Index i = blockIdx.x; i < ", tiles,
                "; i += gridDim.x) {\n    const Index q_first = i % ", q_tiles,
                " * ", kTile, ";\n    const Index p_first = i / ", q_tiles,
                " % ", p_tiles, " * ", kTile, ";\n    const Index o = i / ",
                q_tiles * p_tiles, ";\n", others.Coordinates("    "));
    writer_.Add(each_row,
                "      const Index p = p_first + column, q = q_first + j;\n",
                inside);
    for (int i : transposed) {
      writer_.Add("        tile", i, "[j][column] = ",
                  writer_.Read(operands_[i].data, operands_[i].dtype(),
                               operands_[i].elements()),
                  "[", elements_.Offset(i), "];\n");
    }
    writer_.Add("      }\n    }\n    __syncthreads();\n", each_row,
                "      const Index p = p_first + j, q = q_first + column;\n",
                inside, elements_.Reads("        ", 1));
    const StepText steps = elements_.Steps("        ", "");
    writer_.Add(steps.statements, "        Put(", y_, "[",
                elements_.Offset(num_operands_), "], ", steps.result,
                ");\n      }\n    }\n    __syncthreads();\n  }\n");
    writer_.SetIndexReach(tiles * kTile);
    return writer_.Compile(
        runtime, writer_.ShapeFor(runtime.info(), tiles * writer_.threads()));
  }

  KernelWriter writer_;
  absl::Span<const BoundValue> operands_;
  const BoundValue& result_;
  int num_operands_;
  std::vector<SpaceDimension> space_;
  Elements elements_;
  LoopNest nest_;
  std::string y_;
  int p_ = -1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMap(
    Runtime& runtime, const MapExpression& expression,
    absl::Span<const BoundValue> operands, const BoundValue& result) {
  if (result.elements() == 0) {
    return std::make_unique<LaunchSequence>(runtime, std::vector<Launch>());
  }
  if (IsTranspose(expression, operands, result)) {
    return PrepareStridedCopy(runtime, TransposeOf(operands[0], result),
                              operands[0].data, result.data);
  }
  MapWriter writer(expression, operands, result);
  MTF_ASSIGN_OR_RETURN(Launch launch, writer.Compile(runtime));
  return std::make_unique<LaunchSequence>(
      runtime, std::vector<Launch>{std::move(launch)});
}

}  // namespace mtf::cuda
