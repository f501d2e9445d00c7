// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/attention_bias.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr char kUnseenText[] = "(-1267650600228229401496703205376.0f)";
static_assert(kUnseen == -1267650600228229401496703205376.0f);
constexpr int kLanes = 32;

// "b * 12 + h * 4"; terms with stride 0 are omitted.
std::string IndexText(int64_t batch, int64_t heads, int64_t length,
                      int64_t memory = 0) {
  std::string text;
  for (const auto& [name, stride] :
       {std::pair<const char*, int64_t>{"b", batch},
        {"h", heads},
        {"l", length},
        {"j", memory}}) {
    if (stride == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : " + ", name, " * ", stride);
  }
  return text.empty() ? "0" : text;
}
std::string IndexText(const LogitStrides& strides) {
  return IndexText(strides.batch, strides.heads, strides.length,
                   strides.memory);
}

// The row of the bias for b, h and l.
std::string BiasRowText(const AttentionProblem& p) {
  const int64_t lengths = p.bias.length ? p.length : 1;
  const int64_t heads = p.bias.heads ? p.heads : 1;
  return IndexText(p.bias.batch ? heads * lengths : 0,
                   p.bias.heads ? lengths : 0, p.bias.length ? 1 : 0);
}

// Declares the indices b, h and l of `row`, given the extents of h and l.
std::string CoordinatesText(int64_t heads, int64_t lengths) {
  return absl::StrCat("    const Index l = row % ", lengths, ", h = row / ",
                      lengths, " % ", heads, ", b = row / ", lengths * heads,
                      ";\n");
}

int64_t Reach(const AttentionMask& mask) {
  return mask.value == nullptr ? 0 : mask.value->elements();
}

// Element [b, h, l, j] of `mask`, as the writer's kernel reads it.
std::string ElementText(KernelWriter& writer, const AttentionMask& mask) {
  const BoundValue& value = *mask.value;
  return absl::StrCat(
      "Value(", writer.Read(value.data, value.dtype(), value.elements()), "[",
      IndexText(mask.strides), "])");
}

}  // namespace

absl::StatusOr<Launch> PrepareAttentionBias(Runtime& runtime,
                                            const AttentionProblem& problem,
                                            const AttentionMask& visible,
                                            const AttentionMask& added,
                                            float* bias, int* first_seen) {
  const AttentionProblem& p = problem;
  const int64_t rows = p.BiasRows();
  KernelWriter writer("attention_bias");
  std::string seen = "true", x = "0.0";
  if (visible.value != nullptr) seen = ElementText(writer, visible);
  if (added.value != nullptr) x = ElementText(writer, added);
  const std::string y = writer.Write(bias, kFloat32, p.BiasElements());
  const std::string first = writer.WriteAs(first_seen, "int", rows * 4);
  writer.SetIndexReach(std::max(
      {p.BiasElements() + rows * kLanes, Reach(visible), Reach(added)}));
  // A warp per row.
  writer.Add(
      "  const int lane = threadIdx.x % ", kLanes,
      ";\n  for (Index row = ((Index)blockIdx.x * ", writer.threads(),
      " + threadIdx.x) / ", kLanes, "; row < ", rows,
      "; row += (Index)gridDim.x * ", writer.threads() / kLanes, ") {\n",
      CoordinatesText(p.bias.heads ? p.heads : 1, p.bias.length ? p.length : 1),
      "    int first = ", p.memory, ";\n    for (int j = lane; j < ", p.memory,
      "; j += ", kLanes, ") {\n      const F x = ", x,
      ";\n      const bool seen = ", seen, " && x.v != -kInfinity;\n      Put(",
      y, "[row * ", p.memory, " + j], seen ? Maximum(x, F(0.5f * ", kUnseenText,
      ")) : F(", kUnseenText,
      "));\n      if (seen && j < first) first = j;\n    }\n",
      "    for (int by = ", kLanes / 2,
      "; by > 0; by /= 2) {\n      first = min(first, "
      "__shfl_xor_sync(0xffffffffu, first, by));\n    }\n",
      "    if (lane == 0) ", first, "[row] = first;\n",
      "    static_cast<void>(b);\n    static_cast<void>(h);\n"
      "    static_cast<void>(l);\n  }\n");
  return writer.Compile(runtime,
                        writer.ShapeFor(runtime.info(), rows * kLanes));
}

absl::StatusOr<Launch> PrepareMaskedRows(Runtime& runtime,
                                         const AttentionProblem& problem,
                                         const int* first_seen, void* o,
                                         float* stats) {
  const AttentionProblem& p = problem;
  const int64_t rows = p.batch * p.heads * p.length;
  KernelWriter writer("masked_rows");
  const std::string first = writer.ReadAs(first_seen, "int", p.BiasRows() * 4);
  const std::string y = writer.Write(o, p.dtype, rows * p.d);
  const std::string sums = writer.Write(stats, kFloat32, rows);
  writer.SetIndexReach(rows * p.d + rows);
  // A row of causal attention sees no position after its own.
  const std::string last =
      p.causal ? absl::StrCat("min(l, (Index)", p.memory - 1, ")")
               : absl::StrCat(p.memory - 1);
  writer.Add(writer.GridLoop("row", rows), CoordinatesText(p.heads, p.length),
             "    if (", first, "[", BiasRowText(p), "] <= ", last,
             ") continue;\n    for (int c = 0; c < ", p.d,
             "; ++c) {\n      Put(", y, "[",
             IndexText(p.o.batch, p.o.heads, p.o.length),
             " + c], F(0.0f));\n    }\n    ", sums,
             "[row] = -kInfinity;\n  }\n");
  return writer.Compile(runtime, writer.ShapeFor(runtime.info(), rows));
}

absl::StatusOr<Launch> PrepareRowStats(Runtime& runtime, int64_t rows,
                                       const float* from, float* to) {
  KernelWriter writer("row_stats");
  const std::string x = writer.Read(from, kFloat32, rows);
  const std::string y = writer.Write(to, kFloat32, rows);
  writer.SetIndexReach(rows);
  writer.Add(writer.GridLoop("row", rows), "    const float stat = ", x,
             "[row];\n    ", y, "[row] = stat == -kInfinity ? -", kUnseenText,
             " : stat;\n  }\n");
  return writer.Compile(runtime, writer.ShapeFor(runtime.info(), rows));
}

}  // namespace mtf::cuda
